/* flags - the flags of the engine, their defaults and stages of life, and how they came to be */
#include "goldens/store.h"
#include "harness/gate/flags.h"
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_flags;

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static json_t *flag_object(const struct flag *f)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:[s,s],s:s,s:s,s:s,s:o,s:{s:s,s:s}}", "name", f->name, "engine", f->engine,
                     "device", f->device, "summary", f->summary, "values", "off", "on", "default", flag_value(f->on),
                     "stage", flag_stage_name(f->stage), "since", f->since, "removal",
                     *f->removal ? json_string(f->removal) : json_null(), "spelling", "off", f->spelling[0], "on",
                     f->spelling[1]);
}

static void print_table(const struct flag_set *s)
{
    for (int i = 0; i < s->flags; i++) {
        const struct flag *f = &s->flag[i];
        char until[32] = "";
        if (*f->removal)
            snprintf(until, sizeof until, ", removed in %s", f->removal);
        if (i == 0)
            printf("%-20s %-8s %-13s %-6s %s\n", "flag", "default", "stage", "since", "what it does");
        printf("%-20s %-8s %-13s %-6s %s%s%s%s%s%s\n", f->name, flag_value(f->on), flag_stage_name(f->stage), f->since,
               f->summary, *f->spelling[1] ? " (" : "", f->spelling[1], *f->spelling[1] ? ")" : "",
               *f->device ? ", CUDA only" : "", until);
    }
}

/* Rows about this flag, or about any when f is NULL. */
static json_t *rows_of(const json_t *ledger, const struct flag *f)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(ledger, i, row) if (!f || !strcmp(text(json_object_get(row, "what"), "flag"), f->name))
        json_array_append(list, row);
    return list;
}

static void print_row(const json_t *row)
{
    const json_t *w = json_object_get(row, "what");
    json_t *m;
    size_t i;
    printf("ledger %-5lld %s  %s %s -> %s  %s, policy %s%s%s\n",
           (long long)json_integer_value(json_object_get(row, "seq")), text(row, "at"), text(w, "flag"),
           text(w, "from"), text(w, "to"), text(w, "decision"), text(w, "policy"), *text(w, "by") ? ", by " : "",
           text(w, "by"));
    json_array_foreach(json_object_get(w, "missing"), i, m) printf("             %s\n", json_string_value(m));
}

/* The last word of the ledger and the file should agree: a process may have died between them. */
static void compare(const json_t *rows, const struct flag *f)
{
    const char *last = "";
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const json_t *w = json_object_get(row, "what");
        if (!strcmp(text(w, "decision"), "granted") && json_is_true(json_object_get(w, "applied")))
            last = text(w, "to");
    }
    if (f && *last && strcmp(last, flag_value(f->on)))
        printf("the ledger granted %s=%s, the file says %s: run `assay flip %s=%s` again\n", f->name, last,
               flag_value(f->on), f->name, last);
}

static int history(const struct tool *t, const struct flag_set *s, const char *name, struct err *e)
{
    const struct flag *f = name ? flags_find(s, name) : NULL;
    struct store *store = NULL;
    json_t *ledger = NULL, *rows;
    if (name && !f)
        return FAIL(e, E_USAGE, "no flag \"%s\" in %s; `assay flags` lists them", name, s->path);
    if (access(t->store_path, F_OK)) /* none is made only to be looked at */
        return FAIL(e, E_MISSING, "no store at %s: nothing was flipped by it", t->store_path);
    if (!store_open(t->store_path, &store, e) && !store_ledger_list(store, "flip", &ledger, e)) {
        rows = rows_of(ledger, f);
        json_t *row;
        size_t i;
        if (t->json)
            json_dumpf(rows, stdout, JSON_COMPACT);
        json_array_foreach(rows, i, row) if (!t->json) print_row(row);
        if (!t->json && !json_array_size(rows))
            printf("no flip of %s was asked for\n", f ? f->name : "any flag");
        if (!t->json)
            compare(rows, f);
        json_decref(rows);
    }
    json_decref(ledger);
    store_close(store);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    char *words[64];
    const struct option_spec none[] = {{0}};
    int status, n = argc <= 64 ? tool_options(t, &command_flags, argc, argv, none, words, &status) : -1;
    struct err e = {0};
    struct flag_set s = {0};
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (flags_read(t->data_dir, &s, &e)) {
        flags_free(&s);
    } else if (n && !strcmp(words[0], "history") && n <= 2) {
        history(t, &s, n == 2 ? words[1] : NULL, &e);
    } else if (n) {
        FAIL(&e, E_USAGE, "nothing, or history [FLAG], is expected");
    } else if (t->json) {
        json_t *list = json_array();
        for (int i = 0; i < s.flags; i++)
            json_array_append_new(list, flag_object(&s.flag[i]));
        json_dumpf(list, stdout, JSON_COMPACT);
        json_decref(list);
    } else {
        print_table(&s);
    }
    flags_free(&s);
    return e.code ? tool_fail(t, "flags", &e) : 0;
}

COMMAND(flags) = {
    .name = "flags",
    .summary = "the engine's flags: default, stage of life, history of flips",
    .usage =
        "usage: assay flags\n"
        "       assay flags history [FLAG]\n"
        "\n"
        "Lists batteries/flags.json, from which the native engine reads its defaults; history shows every flip that "
        "was asked\n"
        "for, granted or refused, with what was missing. A deprecated flag that is set warns once and changes "
        "nothing; a\n"
        "removed one is an error. `assay flip` changes a default. Exit status: 0; 4 when history has no store.\n",
    .order = 61,
    .run = run,
};
