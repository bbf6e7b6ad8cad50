#include "goldens/vllmcpp.h"

#include "goldens/npy.h"
#include "harness/base/mapped.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTSIDE 99999000 /* gap of a token outside the oracle's list */

struct folder {
    struct npy dist, ours, gaps;
};

static int expect(const char *folder, const char *name, const struct npy *a, const struct npy *dist, struct err *e)
{
    if (a->rank != 2 || a->shape[0] != dist->shape[0] || a->shape[1] != dist->shape[1])
        return FAIL(e, E_INPUT, "%s/%s: its shape is not that of greedy_dist.npy, [%lld, %lld]", folder, name,
                    (long long)dist->shape[0], (long long)dist->shape[1]);
    return OK;
}

static int read_array(const char *folder, const char *name, const char *variant, struct npy *a, struct err *e)
{
    char path[1200];
    snprintf(path, sizeof path, "%.1000s/%s%s.npy", folder, name, variant);
    return npy_read(path, a, e);
}

static int check_values(const char *folder, const char *name, const struct npy *a, int least, struct err *e)
{
    for (int64_t i = 0; i < a->count; i++)
        if (a->data[i] < least)
            return FAIL(e, E_INPUT, "%s/%s: value %lld is %d; at least %d is expected", folder, name, (long long)i,
                        a->data[i], least);
    return OK;
}

static int read_arrays(const char *folder, const char *variant, struct folder *f, struct err *e)
{
    char ours[64], gaps[64];
    snprintf(ours, sizeof ours, "our_ids%s.npy", variant);
    snprintf(gaps, sizeof gaps, "neartie_gap_mnats%s.npy", variant);
    if (read_array(folder, "greedy_dist", "", &f->dist, e) || read_array(folder, "our_ids", variant, &f->ours, e) ||
        read_array(folder, "neartie_gap_mnats", variant, &f->gaps, e))
        return e->code;
    if (f->dist.rank != 3 || !f->dist.shape[0] || !f->dist.shape[1] || !f->dist.shape[2])
        return FAIL(e, E_INPUT, "%s/greedy_dist.npy: [prompts, tokens, runs] is expected", folder);
    if (expect(folder, ours, &f->ours, &f->dist, e) || expect(folder, gaps, &f->gaps, &f->dist, e) ||
        check_values(folder, "greedy_dist.npy", &f->dist, -1, e) || check_values(folder, ours, &f->ours, -1, e) ||
        check_values(folder, gaps, &f->gaps, 0, e))
        return e->code;
    return OK;
}

static int32_t oracle_id(const struct folder *f, int p, int t, int run)
{
    return f->dist.data[((int64_t)p * f->dist.shape[1] + t) * f->dist.shape[2] + run];
}

/* greedy_ids.npy is run 0 once more, but pads with 0, which is a token: only greedy_dist.npy (-1) tells them apart. */
static int check_greedy(const char *folder, const struct folder *f, struct err *e)
{
    struct npy ids;
    struct err own = {0};
    int rc = read_array(folder, "greedy_ids", "", &ids, &own);
    if (rc) /* the file adds nothing, so that it may be absent */
        return rc == E_MISSING ? OK : FAIL(e, own.code, "%s", own.text);
    rc = expect(folder, "greedy_ids.npy", &ids, &f->dist, e);
    for (int64_t i = 0; i < ids.count && !rc; i++) {
        int p = (int)(i / f->dist.shape[1]), t = (int)(i % f->dist.shape[1]);
        int32_t id = oracle_id(f, p, t, 0);
        if (ids.data[i] != id && !(id == -1 && ids.data[i] == 0))
            rc = FAIL(e, E_INPUT, "%s/greedy_ids.npy: prompt %d token %d is %d, run 0 of greedy_dist.npy says %d",
                      folder, p, t, ids.data[i], id);
    }
    npy_free(&ids);
    return rc;
}

static int add(struct vllmcpp_root **list, int *n, struct vllmcpp_root x, struct err *e)
{
    struct vllmcpp_root *more = realloc(*list, (size_t)(*n + 1) * sizeof *more);
    if (!more)
        return FAIL(e, E_NOMEM, "out of memory");
    *list = more;
    more[(*n)++] = x;
    return OK;
}

static int count(const struct folder *f, struct vllmcpp *v, struct err *e)
{
    for (int p = 0; p < v->prompts; p++) {
        int differs = 0;
        for (int t = 0; t < v->tokens; t++) {
            int64_t at = (int64_t)p * v->tokens + t;
            struct vllmcpp_root x = {p, t, oracle_id(f, p, t, 0), f->ours.data[at], f->gaps.data[at]};
            int many = 0;
            for (int run = 1; run < v->runs; run++)
                many |= oracle_id(f, p, t, run) != x.oracle_id;
            v->multi_valued += many;
            v->outside += x.gap_mnats == OUTSIDE;
            if (x.arm_id == x.oracle_id) {
                if (x.gap_mnats && x.oracle_id >= 0 && add(&v->trap, &v->traps, x, e))
                    return e->code;
                continue;
            }
            v->divergent++;
            if (!differs++ && add(&v->root, &v->roots, x, e))
                return e->code;
        }
        v->strict_prompts += !differs;
    }
    return OK;
}

/* Are all gaps multiples of 1/32 nat (rounded to milli-nats)? Then the oracle's logits lie on that bf16 grid. */
static void find_grid(const struct folder *f, struct vllmcpp *v)
{
    int on = 0, off = 0;
    for (int64_t i = 0; i < f->gaps.count; i++) {
        int g = f->gaps.data[i];
        if (g <= 0 || g == OUTSIDE)
            continue;
        double steps = rint(g * 32 / 1000.0);
        *(fabs(g - steps * 1000 / 32) <= 1 ? &on : &off) += 1;
    }
    v->grid_mnats = on && !off ? 31 : 0;
}

static int read_ids(const char *path, int32_t **ids, int *n, struct err *e)
{
    struct mapped m;
    if (mapped_open(path, &m, e))
        return e->code;
    int rc = m.bytes % 4 || !m.bytes ? FAIL(e, E_INPUT, "%s: %zu bytes are no list of 32-bit ids", path, m.bytes) : OK;
    if (!rc && !(*ids = malloc(m.bytes)))
        rc = FAIL(e, E_NOMEM, "%s: out of memory", path);
    if (!rc) {
        memcpy(*ids, m.data, m.bytes);
        *n = (int)(m.bytes / 4);
    }
    mapped_close(&m);
    for (int i = 0; !rc && i < *n; i++)
        if ((*ids)[i] < 0)
            rc = FAIL(e, E_INPUT, "%s: id %d is negative", path, i);
    return rc;
}

static int fill_prompt(const struct folder *f, const char *folder, int p, struct golden_prompt *g, struct err *e)
{
    char path[1200], name[16];
    int tokens = (int)f->dist.shape[1];
    snprintf(path, sizeof path, "%.1000s/p%d_prompt.i32", folder, p);
    snprintf(name, sizeof name, "p%02d", p);
    g->name = strdup(name);
    g->ids = malloc((size_t)tokens * sizeof *g->ids);
    g->rows_equal = -1;
    if (!g->name || !g->ids)
        return FAIL(e, E_NOMEM, "out of memory");
    while (g->n < tokens && oracle_id(f, p, g->n, 0) >= 0) {
        g->ids[g->n] = oracle_id(f, p, g->n, 0);
        g->n++;
    }
    g->finish = g->n < tokens ? FINISH_STOP : FINISH_LENGTH;
    return read_ids(path, &g->prompt_ids, &g->prompts, e);
}

static int make_golden(const struct folder *f, const char *folder, struct vllmcpp *v, struct err *e)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && folder[from - 1] != '/')
        from--;
    struct golden *g = v->golden = calloc(1, sizeof *g);
    if (!g || !(g->prompt = calloc((size_t)v->prompts, sizeof *g->prompt)))
        return FAIL(e, E_NOMEM, "out of memory");
    snprintf(g->model, sizeof g->model, "%.*s", (int)(n - from), folder + from);
    snprintf(g->battery, sizeof g->battery, "%.*s", (int)(n - from), folder + from);
    snprintf(g->arm, sizeof g->arm, "vllm-greedy");
    g->header = json_pack("{s:s,s:s,s:{},s:s,s:s,s:{s:s,s:s,s:i},s:i}", "schema", "assay-golden/1", "model", g->model,
                          "model_files", "battery", g->battery, "arm", g->arm, "oracle", "name", "vllm", "source",
                          "vllm.cpp golden folder", "runs", v->runs, "top_k", 0);
    for (int p = 0; p < v->prompts; p++) {
        g->prompts = p + 1;
        if (fill_prompt(f, folder, p, &g->prompt[p], e))
            return e->code;
    }
    return g->header ? OK : FAIL(e, E_NOMEM, "out of memory");
}

int vllmcpp_read(const char *folder, const char *variant, struct vllmcpp *v, struct err *e)
{
    struct folder f = {0};
    memset(v, 0, sizeof *v);
    int rc = read_arrays(folder, variant, &f, e);
    if (!rc)
        rc = check_greedy(folder, &f, e);
    if (!rc) {
        v->prompts = (int)f.dist.shape[0];
        v->tokens = (int)f.dist.shape[1];
        v->runs = (int)f.dist.shape[2];
        find_grid(&f, v);
        rc = count(&f, v, e);
    }
    if (!rc)
        rc = make_golden(&f, folder, v, e);
    npy_free(&f.dist);
    npy_free(&f.ours);
    npy_free(&f.gaps);
    if (rc)
        vllmcpp_free(v);
    return rc;
}

static json_t *places(const struct vllmcpp_root *r, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_pack("{s:i,s:i,s:i,s:i,s:i}", "prompt", r[i].prompt, "position", r[i].position,
                                           "golden_id", (int)r[i].oracle_id, "arm_id", (int)r[i].arm_id, "gap_mnats",
                                           r[i].gap_mnats));
    return a;
}

json_t *vllmcpp_json(const struct vllmcpp *v)
{
    json_t *hidden = json_array();
    int zero = 0;
    for (int i = 0; i < v->roots; i++)
        zero += v->root[i].gap_mnats == 0;
    if (zero)
        json_array_append_new(hidden,
                              json_sprintf("%d of %d roots have gap 0: a tie or the oracle's only maximum, which "
                                           "this format cannot tell apart",
                                           zero, v->roots));
    if (v->outside)
        json_array_append_new(hidden,
                              json_sprintf("%d gaps only say that the token is outside the oracle's list", v->outside));
    if (v->grid_mnats)
        json_array_append_new(hidden,
                              json_string("every gap is a multiple of 1/32 nat cut to whole milli-nats (31, 62, 94, "
                                          "125, 250 are 1, 2, 3, 4, 8 bf16 steps)"));
    for (int i = 0; i < v->traps; i++)
        json_array_append_new(hidden,
                              json_sprintf("prompt %d token %d: the token equals the oracle's and has a gap of %d "
                                           "milli-nats: the oracle's prefill disagrees with its own decode",
                                           v->trap[i].prompt, v->trap[i].position, v->trap[i].gap_mnats));
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:o,s:o,s:o}", "prompts", v->prompts, "tokens", v->tokens, "runs",
                     v->runs, "strict_prompts", v->strict_prompts, "divergent_positions", v->divergent,
                     "multi_valued_cells", v->multi_valued, "roots", places(v->root, v->roots), "equal_with_gap",
                     places(v->trap, v->traps), "hidden_by_milli_nats", hidden);
}

void vllmcpp_free(struct vllmcpp *v)
{
    free(v->root);
    free(v->trap);
    golden_free(v->golden);
    memset(v, 0, sizeof *v);
}
