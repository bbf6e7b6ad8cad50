/* battery - the prompts that a verdict rests on: list, show, make from text, lint */
#include "goldens/exchange.h"
#include "goldens/store.h"
#include "harness/base/json.h"
#include "harness/base/utf8.h"
#include "harness/lint.h"
#include "harness/models/load.h"
#include "harness/prompts.h"
#include "tools/command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_battery;

static void print_json(json_t *o)
{
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

struct options {
    const char *text, *model, *name, *tokens, *output;
};

/* A .json file, a shipped battery, or one that was imported. */
static int open_battery(struct tool *t, const char *name, int unchecked, struct battery **b, struct err *e)
{
    char path[800];
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        return unchecked ? battery_read_unchecked(name, b, e) : battery_read(name, b, e);
    if (strchr(name, '/'))
        return FAIL(e, E_USAGE, "%s: a battery's name or a .json file is expected", name);
    snprintf(path, sizeof path, "%s/batteries/%s.json", t->data_dir, name);
    struct err own = {0};
    if (!battery_read(path, b, &own))
        return OK;
    struct store *s;
    if (own.code != E_MISSING)
        return FAIL(e, own.code, "%s", own.text);
    if (access(t->store_path, F_OK)) /* none is made only to be looked at */
        return FAIL(e, E_MISSING, "no battery \"%s\": not a shipped one, and there is no store at %s", name,
                    t->store_path);
    if (store_open(t->store_path, &s, e))
        return e->code;
    int rc = store_battery_get(s, name, b, e);
    store_close(s);
    return rc;
}

static int is_battery(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".json") && strcmp(d->d_name, "razor.json") &&
           strcmp(d->d_name, "flags.json");
}

/* What cannot be read stands in the list, too. */
static json_t *list_entry(const char *path)
{
    struct battery *b;
    struct err bad = {0};
    if (battery_read(path, &b, &bad))
        return json_pack("{s:s,s:s}", "file", path, "error", bad.text);
    json_t *o =
        json_pack("{s:s,s:i,s:i,s:f,s:f,s:s}", "name", b->name, "prompts", b->prompts, "max_new_tokens",
                  b->max_new_tokens, "razor_ulp", b->razor_ulp, "razor_cap_nats", b->razor_cap_nats, "note", b->note);
    battery_free(b);
    return o;
}

static void print_entry(const json_t *o)
{
    const char *error = json_string_value(json_object_get(o, "error"));
    if (error)
        printf("unreadable: %s\n", error);
    else
        printf("%-12s %3d prompts x %3d tokens, razor %g ULP, at most %g nat  %s\n",
               json_string_value(json_object_get(o, "name")), (int)json_integer_value(json_object_get(o, "prompts")),
               (int)json_integer_value(json_object_get(o, "max_new_tokens")),
               json_real_value(json_object_get(o, "razor_ulp")), json_real_value(json_object_get(o, "razor_cap_nats")),
               json_string_value(json_object_get(o, "note")));
}

static int is_listed(const json_t *all, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach(all, i, o)
    {
        const char *own = json_string_value(json_object_get(o, "name"));
        if (own && !strcmp(own, name))
            return 1;
    }
    return 0;
}

static int add_shipped(const struct tool *t, json_t *all, struct err *e)
{
    char folder[700], path[1000];
    struct dirent **files = NULL;
    snprintf(folder, sizeof folder, "%s/batteries", t->data_dir);
    int n = scandir(folder, &files, is_battery, alphasort);
    if (n <= 0)
        FAIL(e, E_MISSING, "%s: no batteries there", folder);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
        json_t *o = list_entry(path);
        json_object_set_new(o, "where", json_string("shipped"));
        json_array_append_new(all, o);
        free(files[i]);
    }
    free(files);
    return e->code;
}

/* The store holds the shipped ones, too. */
static int add_imported(const struct tool *t, json_t *all, struct err *e)
{
    struct store *s = NULL;
    json_t *own = NULL, *o;
    size_t i;
    if (access(t->store_path, F_OK))
        return OK;
    if (!store_open(t->store_path, &s, e) && !store_battery_list(s, &own, e))
        json_array_foreach(own, i, o)
        {
            if (is_listed(all, json_string_value(json_object_get(o, "name"))))
                continue;
            json_object_set_new(o, "where", json_string("imported"));
            json_array_append(all, o);
        }
    json_decref(own);
    store_close(s);
    return e->code;
}

static int list(struct tool *t, struct err *e)
{
    json_t *all = json_array(), *o;
    size_t i;
    if (!add_shipped(t, all, e) && !add_imported(t, all, e)) {
        if (t->json)
            print_json(json_incref(all));
        else
            json_array_foreach(all, i, o) print_entry(o);
    }
    json_decref(all);
    return e->code;
}

/* The beginning of a prompt's text on one line, with nothing hidden. */
static void print_text(const char *text)
{
    char one[UTF8_UNIT_SIZE];
    size_t left = strlen(text), shown = 0;
    while (left && shown < 80) {
        size_t n = utf8_visible(text, left, 1, one);
        shown += strlen(one);
        fputs(one, stdout);
        text += n;
        left -= n;
    }
    puts(left ? "..." : "");
}

static int show(struct tool *t, const char *name, struct err *e)
{
    struct battery *b;
    if (open_battery(t, name, 0, &b, e))
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
            printf("%-8s %4d ids  ", b->prompt[i].name, b->prompt[i].n);
            print_text(b->prompt[i].text ? b->prompt[i].text : "");
        }
    }
    json_decref(o);
    battery_free(b);
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

static int check_options(const struct options *o, struct battery *b, struct err *e)
{
    char *end;
    long most = strtol(o->tokens, &end, 10);
    if (*end || end == o->tokens || most < 1 || most > 100000)
        return FAIL(e, E_USAGE, "--tokens %s: a number from 1 to 100000 is expected", o->tokens);
    if (strchr(o->name, '/') || !*o->name || strlen(o->name) >= sizeof b->name)
        return FAIL(e, E_USAGE, "--name %s: a name of 1 to %zu bytes without '/' is expected", o->name,
                    sizeof b->name - 1);
    snprintf(b->name, sizeof b->name, "%s", o->name);
    b->max_new_tokens = (int)most;
    b->stop_at_eos = 1;
    b->razor_ulp = 2;
    b->razor_cap_nats = 0.5;
    return OK;
}

static void say_made(const struct tool *t, const struct options *o, const struct battery *b, const char *path)
{
    long ids = 0;
    for (int i = 0; i < b->prompts; i++)
        ids += b->prompt[i].n;
    if (t->json)
        print_json(json_pack("{s:s,s:s,s:i,s:I,s:s}", "battery", b->name, "file", path, "prompts", b->prompts, "ids",
                             (json_int_t)ids, "tokenizer_sha256", b->tokenizer_sha256));
    else
        printf("%s: battery %s, %d prompts, %ld ids; `assay battery lint %s --model %s` checks it\n", path, b->name,
               b->prompts, ids, path, o->model);
}

static int make(struct tool *t, const struct options *o, struct err *e)
{
    struct model *m = NULL;
    struct tokenizer *tok = NULL;
    struct battery *b = calloc(1, sizeof *b);
    void *text = NULL;
    size_t bytes;
    char own[300];
    snprintf(own, sizeof own, "%s.json", o->name);
    const char *path = o->output ? o->output : own;
    if (!b)
        FAIL(e, E_NOMEM, "out of memory");
    else if (!check_options(o, b, e) && !tokenizer_of(t, o->model, &m, &tok, b->tokenizer_sha256, e) &&
             !packed_read(o->text, 64 << 20, &text, &bytes, e) && !prompts_add(b, tok, o->text, text, bytes, e) &&
             !battery_write(path, b, e))
        say_made(t, o, b, path);
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
    if (open_battery(t, name, 1, &b, e))
        return e->code;
    if ((!o->model || !tokenizer_of(t, o->model, &m, &tok, sha256, e)) && !battery_lint(b, m, tok, sha256, &bad, e)) {
        *status = json_array_size(bad) != 0;
        if (t->json) {
            print_json(json_pack("{s:s,s:s?,s:O,s:i}", "battery", b->name, "model", o->model, "complaints", bad, "exit",
                                 *status));
        } else {
            json_array_foreach(bad, i, one) printf("%s: %s\n", name, json_string_value(one));
            printf("%s: %zu complaint%s%s\n", name, json_array_size(bad), json_array_size(bad) == 1 ? "" : "s",
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
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-o"))
            argv[i] = "--output";
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
        "       assay battery new --text FILE --model M --name N [--tokens 64] [-o FILE.json]\n"
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
