/* import - goldens, batteries and other projects' golden folders into the store */
#include "goldens/exchange.h"
#include "goldens/store.h"
#include "goldens/vllmcpp.h"
#include "tools/command.h"
#include "tools/import_more.h"

#include <stdio.h>
#include <string.h>

extern const struct command command_import;

static int print(const struct tool *t, json_t *o, const char *text)
{
    if (t->json) {
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        puts(text);
    }
    json_decref(o);
    return OK;
}

static int import_golden(const struct tool *t, struct store *s, const char *path, const struct import_options *o,
                         struct err *e)
{
    struct golden *g;
    int64_t id;
    char text[600], status[16];
    int tokens = 0;
    if (golden_read(path, &g, e))
        return e->code;
    for (int i = 0; i < g->prompts; i++)
        tokens += g->prompt[i].n;
    int rc = store_golden_put(s, g, o->status ? o->status : "active", &id, e);
    if (!rc && !(rc = store_golden_status(s, id, status, e))) {
        snprintf(text, sizeof text, "golden %lld: model %s, battery %s, arm %s, %d prompts, %d tokens (%s%s)",
                 (long long)id, g->model, g->battery, g->arm, g->prompts, tokens, status,
                 o->status && strcmp(o->status, status) ? ", as it was before" : "");
        rc = print(t,
                   json_pack("{s:I,s:s,s:s,s:s,s:i,s:i,s:s}", "golden", (json_int_t)id, "model", g->model, "battery",
                             g->battery, "arm", g->arm, "prompts", g->prompts, "tokens", tokens, "status", status),
                   text);
    }
    golden_free(g);
    return rc;
}

static int import_battery(const struct tool *t, struct store *s, const char *path, const struct import_options *o,
                          struct err *e)
{
    (void)o;
    struct battery *b;
    char text[300];
    if (battery_read(path, &b, e))
        return e->code;
    int rc = store_battery_put(s, b, e);
    snprintf(text, sizeof text, "battery %s: %d prompts, up to %d tokens each", b->name, b->prompts, b->max_new_tokens);
    if (!rc)
        rc = print(t,
                   json_pack("{s:s,s:i,s:i,s:s}", "battery", b->name, "prompts", b->prompts, "max_new_tokens",
                             b->max_new_tokens, "sha256", b->sha256),
                   text);
    battery_free(b);
    return rc;
}

static void print_folder(const struct vllmcpp *v, const char *folder, const json_t *report)
{
    size_t i;
    json_t *line;
    printf("%s: %d prompts x %d tokens, %d runs, %d multi-valued cells\n", folder, v->prompts, v->tokens, v->runs,
           v->multi_valued);
    printf("strict prompts %d/%d, divergent positions %d, roots %d, gaps at the roots (milli-nats):", v->strict_prompts,
           v->prompts, v->divergent, v->roots);
    for (int r = 0; r < v->roots; r++)
        printf("%s %d", r ? "," : "", v->root[r].gap_mnats);
    printf("\n");
    json_array_foreach(json_object_get(report, "hidden_by_milli_nats"), i, line)
        printf("hidden: %s\n", json_string_value(line));
}

static int import_folder(const struct tool *t, struct store *s, const char *folder, const struct import_options *o,
                         struct err *e)
{
    struct vllmcpp v;
    int64_t id = 0;
    char suffix[64] = "";
    if (o->variant && *o->variant)
        snprintf(suffix, sizeof suffix, "_%s", o->variant + (o->variant[0] == '_'));
    if (vllmcpp_read(folder, suffix, &v, e))
        return e->code;
    int rc = store_golden_put(s, v.golden, "active", &id, e);
    if (!rc) {
        json_t *report = vllmcpp_json(&v);
        json_object_set_new(report, "golden", json_integer(id));
        if (t->json) {
            json_dumpf(report, stdout, JSON_COMPACT);
            putchar('\n');
        } else {
            print_folder(&v, folder, report);
        }
        json_decref(report);
    }
    vllmcpp_free(&v);
    return rc;
}

/* One line a kind; the options that a kind does not know are mistakes. */
static const struct kind {
    const char *name;
    int status, variant, named, model;
    int (*import)(const struct tool *, struct store *, const char *path, const struct import_options *, struct err *);
} kinds[] = {
    {"golden", 1, 0, 0, 0, import_golden},   {"battery", 0, 0, 0, 0, import_battery},
    {"vllmcpp", 0, 1, 0, 0, import_folder},  {"kld", 0, 0, 1, 0, import_kld},
    {"lm-eval", 0, 0, 1, 1, import_lm_eval},
};

static int check_options(const char *name, const struct import_options *o, const struct kind **kind, struct err *e)
{
    const struct kind *k = NULL;
    char all[200] = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", kinds[i].name);
        if (!strcmp(kinds[i].name, name))
            k = &kinds[i];
    }
    if (!k)
        return FAIL(e, E_USAGE, "no kind \"%s\"; there are %s", name, all);
    if ((o->status && !k->status) || (o->variant && !k->variant))
        return FAIL(e, E_USAGE, "--%s has no meaning for a %s", o->status && !k->status ? "status" : "variant", name);
    if ((o->name && !k->named) || ((o->model || o->tokens) && !k->model))
        return FAIL(e, E_USAGE, "--%s has no meaning for a %s", o->name && !k->named ? "name" : "model or --tokens",
                    name);
    if (o->status && strcmp(o->status, "active") && strcmp(o->status, "pending") && strcmp(o->status, "negative"))
        return FAIL(e, E_USAGE, "--status \"%s\"; active, pending or negative is expected", o->status);
    *kind = k;
    return OK;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct import_options o = {0};
    const struct option_spec spec[] = {{"variant", "V", &o.variant}, {"status", "S", &o.status}, {"name", "N", &o.name},
                                       {"model", "M", &o.model},     {"tokens", "N", &o.tokens}, {0}};
    const struct kind *kind = NULL;
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_import, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (n != 2)
        FAIL(&e, E_USAGE, "a kind and a path are expected: import golden|battery|vllmcpp|kld|lm-eval PATH");
    else if (!check_options(words[0], &o, &kind, &e) && !store_open(t->store_path, &s, &e))
        kind->import(t, s, words[1], &o, &e);
    store_close(s);
    return e.code ? tool_fail(t, "import", &e) : 0;
}

COMMAND(import) = {
    .name = "import",
    .summary = "goldens, batteries and other projects' golden folders into the store",
    .usage =
        "usage: assay import golden FILE.jsonl[.zst] [--status active|pending|negative]\n"
        "       assay import battery FILE.json\n"
        "       assay import vllmcpp FOLDER [--variant metal]\n"
        "       assay import kld FILE[.zst] [--name N]\n"
        "       assay import lm-eval SAMPLES.jsonl --model M --name BATTERY [--tokens N]\n"
        "\nA golden is checked field by field, sealed by the SHA-256 of its canonical text and entered in the ledger.\n"
        "Row hashes beside it (FILE.decode.rows.sha256[.zst]) come along.\n"
        "What is in the store already keeps its status.\n"
        "A vllm.cpp folder also prints its recount, and where integer milli-nats hide the truth.\n"
        "A KLD base file of llama.cpp is kept whole; `assay diff kld BASE TEST` compares two. Its 16 bits tell no "
        "exact "
        "tie.\n"
        "Samples of lm-eval become a battery: the model's tokenizer turns each context into ids (N new tokens each, "
        "16).\n"
        "Options: --store FILE, --json.\n",
    .order = 60,
    .run = run,
};
