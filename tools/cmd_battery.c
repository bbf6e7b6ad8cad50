/* battery - the prompts that a verdict rests on: list, show, make from text, lint */
#include "goldens/exchange.h"
#include "goldens/store.h"
#include "harness/base/json.h"
#include "harness/lint.h"
#include "harness/models/load.h"
#include "tools/command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_battery;

struct options {
    const char *text, *model, *name, *tokens, *output;
};

static int open_battery(struct tool *t, const char *name, struct battery **b, struct err *e)
{
    char path[800];
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        return battery_read(name, b, e);
    if (strchr(name, '/'))
        return FAIL(e, E_USAGE, "%s: a battery's name or a .json file is expected", name);
    snprintf(path, sizeof path, "%s/batteries/%s.json", t->data_dir, name);
    struct err own = {0};
    if (!battery_read(path, b, &own))
        return OK;
    struct store *s;
    if (own.code != E_MISSING)
        return FAIL(e, own.code, "%s", own.text);
    if (store_open(t->store_path, &s, e))
        return e->code;
    int rc = store_battery_get(s, name, b, e);
    store_close(s);
    return rc;
}

static int list(struct tool *t, struct err *e)
{
    char folder[700];
    json_t *all = json_array();
    snprintf(folder, sizeof folder, "%s/batteries", t->data_dir);
    DIR *d = opendir(folder);
    for (struct dirent *f; d && (f = readdir(d));) {
        struct battery *b;
        struct err own = {0};
        char path[1000];
        size_t n = strlen(f->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        if (n < 6 || strcmp(f->d_name + n - 5, ".json") || battery_read(path, &b, &own))
            continue;
        json_array_append_new(all, json_pack("{s:s,s:i,s:i,s:f,s:f,s:s}", "name", b->name, "prompts", b->prompts,
                                             "max_new_tokens", b->max_new_tokens, "razor_ulp", b->razor_ulp,
                                             "razor_cap_nats", b->razor_cap_nats, "note", b->note));
        if (!t->json)
            printf("%-12s %3d prompts x %3d tokens, razor %g ULP, at most %g nat  %s\n", b->name, b->prompts,
                   b->max_new_tokens, b->razor_ulp, b->razor_cap_nats, b->note);
        battery_free(b);
    }
    if (d)
        closedir(d);
    if (t->json) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(all);
    return e->code;
}

static int show(struct tool *t, const char *name, struct err *e)
{
    struct battery *b;
    if (open_battery(t, name, &b, e))
        return e->code;
    json_t *prompts = json_array();
    for (int i = 0; i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        json_array_append_new(prompts, json_pack("{s:s,s:i,s:s?}", "name", p->name, "ids", p->n, "text", p->text));
    }
    json_t *o = json_pack("{s:s,s:s,s:s,s:i,s:b,s:s,s:o}", "battery", b->name, "sha256", b->sha256, "tokenizer_sha256",
                          b->tokenizer_sha256, "max_new_tokens", b->max_new_tokens, "stop_at_eos", b->stop_at_eos,
                          "note", b->note, "prompts", prompts);
    if (t->json) {
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        printf("%s: %s\nsha256 %s\ntokenizer %s\nup to %d tokens, %s\n\n", b->name, b->note, b->sha256,
               b->tokenizer_sha256, b->max_new_tokens,
               b->stop_at_eos ? "stops at the end of sequence" : "does not stop");
        for (int i = 0; i < b->prompts; i++) {
            json_t *text = json_string(b->prompt[i].text ? b->prompt[i].text : "");
            char *quoted = json_dumps(text, JSON_ENCODE_ANY);
            printf("%-8s %4d ids  %.90s\n", b->prompt[i].name, b->prompt[i].n, quoted ? quoted : "");
            free(quoted);
            json_decref(text);
        }
    }
    json_decref(o);
    battery_free(b);
    return OK;
}

/* --- new --- */

static int add_prompt(struct battery *b, struct tokenizer *t, const char *name, const char *text, size_t bytes,
                      struct err *e)
{
    struct battery_prompt *more = realloc(b->prompt, (size_t)(b->prompts + 1) * sizeof *more), *p;
    if (!more)
        return FAIL(e, E_NOMEM, "out of memory");
    b->prompt = more;
    p = &b->prompt[b->prompts++];
    *p = (struct battery_prompt){.name = strdup(name), .text = strndup(text, bytes)};
    if (!p->name || !p->text)
        return FAIL(e, E_NOMEM, "out of memory");
    return tokenizer_encode(t, text, bytes, &p->ids, &p->n, e);
}

/* A prompt a paragraph; paragraphs are parted by empty lines. */
static int add_paragraphs(struct battery *b, struct tokenizer *t, const char *text, struct err *e)
{
    for (const char *p = text; *p;) {
        char name[32];
        p += strspn(p, "\n");
        const char *end = strstr(p, "\n\n");
        size_t n = end ? (size_t)(end - p) : strlen(p);
        while (n && p[n - 1] == '\n')
            n--;
        snprintf(name, sizeof name, "p%02d", b->prompts);
        if (n && add_prompt(b, t, name, p, n, e))
            return e->code;
        p += end ? (size_t)(end - p) : strlen(p);
    }
    return OK;
}

static int add_lines(struct battery *b, struct tokenizer *t, const char *path, const char *text, struct err *e)
{
    int line = 0;
    for (const char *p = text; *p; line++) {
        size_t n = strcspn(p, "\n");
        const char *name, *value;
        char where[300];
        snprintf(where, sizeof where, "%.280s:%d", path, line + 1);
        json_t *o = n ? json_parse(p, n, path, line + 1, e) : NULL;
        if (n && !o)
            return e->code;
        if (o && !json_get_str(o, "name", &name, where, e) && !json_get_str(o, "text", &value, where, e))
            add_prompt(b, t, name, value, strlen(value), e);
        json_decref(o);
        if (e->code)
            return e->code;
        p += n + (p[n] == '\n');
    }
    return OK;
}

static int tokenizer_of(struct tool *t, const char *model, struct model **m, struct tokenizer **tok, char *sha256,
                        struct err *e)
{
    char path[700];
    if (tool_model(t, model, m, e))
        return e->code;
    snprintf(path, sizeof path, "%s/tokenizer.json", (*m)->path);
    return sha256_file(path, sha256, e) || tokenizer_open(path, tok, e) ? e->code : OK;
}

static int make(struct tool *t, const struct options *o, struct err *e)
{
    struct model *m = NULL;
    struct tokenizer *tok = NULL;
    struct battery *b = calloc(1, sizeof *b);
    void *text = NULL;
    size_t bytes;
    char path[300];
    long most = strtol(o->tokens, NULL, 10);
    if (!b || most < 1 || most > 100000) {
        FAIL(e, b ? E_USAGE : E_NOMEM, "--tokens %s: a number from 1 to 100000 is expected", o->tokens);
        goto out;
    }
    if (strchr(o->name, '/') || !*o->name || strlen(o->name) >= sizeof b->name) {
        FAIL(e, E_USAGE, "--name %s: a name without '/' is expected", o->name);
        goto out;
    }
    if (tokenizer_of(t, o->model, &m, &tok, b->tokenizer_sha256, e) || packed_read(o->text, 64 << 20, &text, &bytes, e))
        goto out;
    snprintf(b->name, sizeof b->name, "%s", o->name);
    b->max_new_tokens = (int)most;
    b->stop_at_eos = 1;
    b->razor_ulp = 2;
    b->razor_cap_nats = 0.5;
    if (((char *)text)[0] == '{' ? add_lines(b, tok, o->text, text, e) : add_paragraphs(b, tok, text, e))
        goto out;
    if (!b->prompts) {
        FAIL(e, E_INPUT, "%s: no text in it", o->text);
        goto out;
    }
    snprintf(path, sizeof path, "%s.json", o->name);
    if (!battery_write(o->output ? o->output : path, b, e) && !t->json)
        printf("%s: battery %s, %d prompts; `assay battery lint %s --model %s` checks it\n",
               o->output ? o->output : path, b->name, b->prompts, o->output ? o->output : path, o->model);
    else if (!e->code)
        printf("{\"battery\":\"%s\",\"prompts\":%d}\n", b->name, b->prompts);
out:
    free(text);
    battery_free(b);
    tokenizer_close(tok);
    model_close(m);
    return e->code;
}

static int lint(struct tool *t, const char *name, const struct options *o, int *status, struct err *e)
{
    struct battery *b;
    struct model *m = NULL;
    struct tokenizer *tok = NULL;
    json_t *bad = NULL, *one;
    char sha256[SHA256_HEX_SIZE] = "";
    size_t i;
    if (open_battery(t, name, &b, e))
        return e->code;
    if ((!o->model || !tokenizer_of(t, o->model, &m, &tok, sha256, e)) && !battery_lint(b, m, tok, sha256, &bad, e)) {
        *status = json_array_size(bad) != 0;
        if (t->json) {
            json_dumpf(bad, stdout, JSON_COMPACT);
            putchar('\n');
        } else {
            json_array_foreach(bad, i, one) printf("%s: %s\n", name, json_string_value(one));
            printf("%s: %zu complaints%s\n", name, json_array_size(bad),
                   m ? "" : " (vocabulary, lengths and texts are checked with --model)");
        }
    }
    json_decref(bad);
    tokenizer_close(tok);
    model_close(m);
    battery_free(b);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {.tokens = "64"};
    const struct option_spec spec[] = {{"text", "FILE", &o.text},     {"model", "M", &o.model},
                                       {"name", "N", &o.name},        {"tokens", "T", &o.tokens},
                                       {"output", "FILE", &o.output}, {0}};
    char *words[64];
    int status = 0, n = argc <= 64 ? tool_options(t, &command_battery, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    if (n < 0)
        return argc <= 64 ? status : 2;
    const char *verb = n ? words[0] : "";
    status = 0;
    if (!strcmp(verb, "list") && n == 1)
        list(t, &e);
    else if (!strcmp(verb, "show") && n == 2)
        show(t, words[1], &e);
    else if (!strcmp(verb, "lint") && n == 2)
        lint(t, words[1], &o, &status, &e);
    else if (!strcmp(verb, "new") && n == 1 && o.text && o.model && o.name)
        make(t, &o, &e);
    else
        FAIL(&e, E_USAGE, "list, show NAME, lint NAME, or new --text FILE --model M --name N is expected");
    return e.code ? tool_fail(t, "battery", &e) : status;
}

COMMAND(battery) = {
    .name = "battery",
    .summary = "list, show, make and check batteries of prompts",
    .usage =
        "usage: assay battery list\n"
        "       assay battery show NAME|FILE.json\n"
        "       assay battery new --text FILE --model M --name N [--tokens 64] [--output FILE.json]\n"
        "       assay battery lint NAME|FILE.json [--model M]\n"
        "\nnew   a prompt a paragraph (parted by empty lines), or JSON Lines {\"name\",\"text\"}; ids by the model's\n"
        "      tokenizer.json, no special tokens added\n"
        "lint  duplicate prompts, ids outside the vocabulary, prompts too long for the model, another tokenizer, "
        "empty\n"
        "      prompts, ids that do not match the text; exit status 1 when there is a complaint\n"
        "Options: --store FILE, --json.\n",
    .order = 16,
    .run = run,
};
