/* plan - the schedule of one GEMM on one GPU: who sums what, in which order; and why two schedules' bytes differ */
#include "kernels/plan_compare.h"
#include "tools/command.h"
#include "tools/plan_view.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay plan --route dense|grouped|par1 --m M --n N --k K --format u4b8|nvfp4|mxfp4 [options]\n"
    "\n"
    "  --gpu G          a profile of batteries/gpus (default h200)\n"
    "  --group G        u4b8: 32, 64, 128 (default) or 0, one scale a column; nvfp4 has 16, mxfp4 32\n"
    "  --dtype D        activations: bf16 (default) or fp16\n"
    "  --reduce R       between slices: f32 (default), f16, atomic\n"
    "  --experts E      grouped: experts of the stack (default 1)\n"
    "  --topk T         grouped: routes a row (default 1)\n"
    "  --blocks B       grouped, several experts: aligned blocks (default: routes spread evenly)\n"
    "  --svg FILE       draws it: columns are column tiles, downwards is k, a colour is a CTA\n"
    "  --launch I       which launch to draw (default 1)\n"
    "  --against \"key=value ...\"  a second plan, with these options changed, and why its bytes differ\n"
    "\n"
    "Exit status: 0, also when the plans differ; 2 and 3 for shapes that no kernel takes; 4 when the profile does not "
    "know\n"
    "a figure that decides.\n";

extern const struct command command_plan;

/* Options of one plan by name; --against changes some of them. */
enum { ROUTE, M, N, K, FORMAT, GROUP, DTYPE, GPU, REDUCE, EXPERTS, TOPK, BLOCKS, KEYS };

static const char *const keys[KEYS] = {"route", "m",   "n",      "k",       "format", "group",
                                       "dtype", "gpu", "reduce", "experts", "topk",   "blocks"};

struct planned {
    struct gemm_plan plan;
    struct gpu_profile gpu;
    int even; /* the number of blocks is that of an even spread */
};

static int number(const char *const *v, int key, int lo, int fallback, int *out, struct err *e)
{
    char *end;
    if (!v[key] && fallback < 0)
        return FAIL(e, E_USAGE, "--%s is missing", keys[key]);
    if (!v[key]) {
        *out = fallback;
        return OK;
    }
    long x = strtol(v[key], &end, 10);
    if (!*v[key] || *end || x < lo || x > INT_MAX)
        return FAIL(e, E_USAGE, "--%s %s: an integer of at least %d is expected", keys[key], v[key], lo);
    *out = (int)x;
    return OK;
}

static int word(const char *const *v, int key, int (*by_name)(const char *), const char *fallback, const char *valid,
                int *out, struct err *e)
{
    const char *name = v[key] ? v[key] : fallback;
    if (!name)
        return FAIL(e, E_USAGE, "--%s is missing: %s", keys[key], valid);
    *out = by_name(name);
    return *out < 0 ? FAIL(e, E_USAGE, "--%s %s is unknown: valid are %s", keys[key], name, valid) : OK;
}

static int by_text(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_profile(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".json");
}

static int unknown_gpu(const char *folder, const char *name, struct err *e)
{
    struct dirent **list;
    char names[400] = "";
    int n = scandir(folder, &list, is_profile, by_text);
    for (int i = 0; i < n; i++) {
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%.*s", i ? ", " : "", (int)strlen(list[i]->d_name) - 5,
                 list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return FAIL(e, E_USAGE, "--gpu %s is unknown: valid are %s (add one as %s/NAME.json)", name, names, folder);
}

static int open_gpu(const struct tool *t, const char *name, struct gpu_profile *g, struct err *e)
{
    char folder[600], path[800];
    struct err read = {0};
    snprintf(folder, sizeof folder, "%s/batteries/gpus", t->data_dir);
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    if (strchr(name, '/'))
        return FAIL(e, E_USAGE, "--gpu %s: a name is expected, not a path", name);
    int rc = profile_read(path, g, &read);
    if (rc == E_MISSING)
        return unknown_gpu(folder, name, e);
    return rc ? FAIL(e, rc, "%s", read.text) : OK;
}

/* Blocks when every expert gets as many routes as the next. */
static int even_blocks(const struct gemm_shape *s)
{
    long routes = (long)s->m * s->topk, used = routes < s->experts ? routes : s->experts, blocks = 0;
    int rows = plan_block_rows(s->m, s->topk, s->experts);
    for (long x = 0; x < used; x++)
        blocks += (routes / used + (x < routes % used) - 1) / rows + 1;
    return (int)blocks;
}

static int make(const struct tool *t, const char *const *v, struct planned *p, struct err *e)
{
    int route, format, dtype, reduce;
    struct gemm_shape s = {0};
    if (word(v, ROUTE, route_by_name, NULL, "dense, grouped, par1", &route, e) || number(v, M, 0, -1, &s.m, e) ||
        number(v, N, 0, -1, &s.n, e) || number(v, K, 0, -1, &s.k, e) ||
        word(v, FORMAT, format_by_name, NULL, "u4b8, nvfp4, mxfp4", &format, e) ||
        word(v, DTYPE, activation_by_name, "bf16", "bf16, fp16", &dtype, e) ||
        word(v, REDUCE, reduce_by_name, "f32", "f32, f16, atomic", &reduce, e) ||
        number(v, GROUP, 0,
               format == WF_NVFP4   ? 16
               : format == WF_MXFP4 ? 32
                                    : 128,
               &s.group, e) ||
        number(v, EXPERTS, 1, 1, &s.experts, e) || number(v, TOPK, 1, 1, &s.topk, e) ||
        number(v, BLOCKS, 1, 0, &s.blocks, e))
        return e->code;
    s.route = (enum gemm_route)route;
    s.format = (enum weight_format)format;
    s.act = (enum activation)dtype;
    s.reduce = (enum gemm_reduce)reduce;
    p->even = s.route != ROUTE_DENSE && s.experts > 1 && !s.blocks && s.m > 0 && s.m < 1 << 22 && s.topk <= s.experts;
    if (p->even)
        s.blocks = even_blocks(&s);
    if (open_gpu(t, v[GPU] ? v[GPU] : "h200", &p->gpu, e))
        return e->code;
    return plan_make(&s, &p->gpu, &p->plan, e);
}

/* Applies "key=value key=value" to a copy of the options; text is cut into pieces. */
static int change(char *text, const char **v, struct err *e)
{
    char *save = NULL;
    for (char *pair = strtok_r(text, " ,", &save); pair; pair = strtok_r(NULL, " ,", &save)) {
        char *equal = strchr(pair, '=');
        int key = 0;
        while (equal && key < KEYS &&
               (strlen(keys[key]) != (size_t)(equal - pair) || strncmp(keys[key], pair, (size_t)(equal - pair))))
            key++;
        if (!equal || key == KEYS)
            return FAIL(
                e, E_USAGE,
                "--against \"%s\": key=value is expected, with a key of route, m, n, k, format, group, dtype, gpu, "
                "reduce, experts, topk, blocks",
                pair);
        v[key] = equal + 1;
        if (key == FORMAT) /* its group follows, unless it is said */
            v[GROUP] = NULL;
    }
    return OK;
}

static json_t *difference_json(const struct plan_difference *d)
{
    return json_pack("{s:b,s:s,s:I,s:I,s:b,s:b,s:b,s:b,s:i,s:i}", "bytes_equal", !*d->why, "why", d->why, "elements",
                     (json_int_t)d->elements, "summed_alike", (json_int_t)d->same, "operands_differ", d->operands,
                     "tensor_core_differs", d->tensor_core, "write_out_differs", d->write_out, "reduction_differs",
                     d->reduce, "row", d->row, "column", d->column);
}

static void print_difference(const struct plan_difference *d)
{
    printf("\n%s\n", *d->why ? "The bytes may differ, and on cancelling inputs they do. First difference:"
                             : "The bytes are equal: the same chains, folds and sums for every element.");
    if (*d->why)
        printf("  %s\n", d->why);
    if (d->elements)
        printf("  %lld of %lld elements are summed alike\n", (long long)d->same, (long long)d->elements);
}

static void show(const struct tool *t, const struct planned *a, const struct planned *b)
{
    struct plan_difference d;
    if (b)
        plan_compare(&a->plan, &b->plan, &d);
    if (t->json) {
        json_t *o = b ? json_pack("{s:o,s:o,s:o}", "plan", plan_json(&a->plan, &a->gpu), "against",
                                  plan_json(&b->plan, &b->gpu), "difference", difference_json(&d))
                      : plan_json(&a->plan, &a->gpu);
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
        return;
    }
    plan_print(t, &a->plan, &a->gpu);
    if (a->even)
        printf("(the blocks are those of routes spread evenly; --blocks gives others)\n");
    if (!b)
        return;
    printf("\nagainst\n");
    plan_print(t, &b->plan, &b->gpu);
    print_difference(&d);
}

static int draw(const struct planned *p, const char *svg, const char *launch, struct err *e)
{
    char *end;
    long i = launch ? strtol(launch, &end, 10) : 1;
    if (launch && (*end || i < 1 || i > p->plan.launches))
        return FAIL(e, E_USAGE, "--launch %s: this plan has launches 1..%d", launch, p->plan.launches);
    return plan_draw(svg, &p->plan, &p->gpu, (int)i - 1, e);
}

static int run(struct tool *t, int argc, char **argv)
{
    static struct planned a, b;
    const char *v[KEYS] = {0}, *w[KEYS], *svg = NULL, *against = NULL, *launch = NULL;
    struct option_spec spec[KEYS + 4] = {{0}};
    struct err e = {0};
    int status = 0;
    for (int i = 0; i < KEYS; i++)
        spec[i] = (struct option_spec){keys[i], "X", &v[i]};
    spec[KEYS] = (struct option_spec){"svg", "FILE", &svg};
    spec[KEYS + 1] = (struct option_spec){"against", "TEXT", &against};
    spec[KEYS + 2] = (struct option_spec){"launch", "I", &launch};
    char **words = calloc((size_t)argc + 1, sizeof *words), *text = NULL;
    int n = words ? tool_options(t, &command_plan, argc, argv, spec, words, &status) : 0;
    if (n < 0)
        goto out;
    memcpy(w, v, sizeof w);
    text = against ? strdup(against) : NULL;
    if (!words || (against && !text))
        FAIL(&e, E_NOMEM, "out of memory");
    else if (n)
        FAIL(&e, E_USAGE, "\"%s\" is not an option", words[0]);
    if (e.code || make(t, v, &a, &e) || (text && (change(text, w, &e) || make(t, w, &b, &e))) ||
        (svg && draw(&a, svg, launch, &e)))
        status = tool_fail(t, "plan", &e);
    else
        show(t, &a, text ? &b : NULL);
out:
    profile_free(&a.gpu);
    profile_free(&b.gpu);
    free(text);
    free(words);
    return status;
}

COMMAND(plan) = {.name = "plan",
                 .summary = "a GEMM's schedule on a GPU, as table, JSON, drawing; why two differ",
                 .usage = usage,
                 .order = 65,
                 .run = run};
