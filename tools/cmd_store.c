/* store - is the store still what was put into it, and how large is it */
#include "goldens/ratify.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_store;

static int print_check(const struct tool *t, const json_t *r)
{
    size_t i, bad = json_array_size(json_object_get(r, "bad"));
    json_t *line;
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        json_array_foreach(json_object_get(r, "bad"), i, line) printf("bad: %s\n", json_string_value(line));
        printf("%s: %lld goldens and %lld streams checked, ", json_string_value(json_object_get(r, "store")),
               (long long)json_integer_value(json_object_get(r, "goldens")),
               (long long)json_integer_value(json_object_get(r, "streams")));
        printf(bad ? "%zu complaints\n" : "all seals and links hold\n", bad);
    }
    return bad ? 3 : 0;
}

static int print_stats(const struct tool *t, const json_t *r)
{
    const char *name;
    json_t *row;
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT);
        putchar('\n');
        return 0;
    }
    printf("%s: %lld bytes\n%-10s %10s %12s\n", json_string_value(json_object_get(r, "store")),
           (long long)json_integer_value(json_object_get(r, "bytes")), "table", "rows", "bytes");
    json_object_foreach(json_object_get(r, "tables"), name, row)
        printf("%-10s %10lld %12lld\n", name, (long long)json_integer_value(json_object_get(row, "rows")),
               (long long)json_integer_value(json_object_get(row, "bytes")));
    return 0;
}

/* One line a sub-verb. print returns the exit status and leaves the report to its caller. */
static const struct action {
    const char *name;
    int (*gather)(struct store *, json_t **, struct err *);
    int (*print)(const struct tool *, const json_t *);
} actions[] = {
    {"check", store_check, print_check},
    {"stats", store_stats, print_stats},
};

static void show(void *arg, int done, int total)
{
    tool_progress(arg, "stores merged", done, total);
}

/* "1-3,5 of 8": the shards that came. */
static void print_shards(const json_t *shards)
{
    size_t i, n = json_array_size(shards);
    int first = 0, last = -1, at = 0, of = 0, before = 0;
    for (i = 0; i <= n; i++) {
        if (i < n)
            sscanf(json_string_value(json_array_get(shards, i)), "%d/%d", &at, &of);
        if (i < n && first && at == last + 1 && of == before) {
            last = at;
            continue;
        }
        if (first)
            printf(first == last ? "%d" : "%d-%d", first, last);
        if (first)
            printf(i < n && of == before ? "," : " of %d%s", before, i < n ? ", " : "");
        first = last = at, before = of;
    }
}

static void print_joined(const json_t *o)
{
    const json_t *missing = json_object_get(o, "missing"), *shards = json_object_get(o, "shards");
    size_t n = json_array_size(missing);
    printf("run %lld  %s, %s, %s: shards ", (long long)json_integer_value(json_object_get(o, "run")),
           json_string_value(json_object_get(o, "model")), json_string_value(json_object_get(o, "battery")),
           json_string_value(json_object_get(o, "arm")));
    json_array_size(shards) ? print_shards(shards) : (void)fputs("none", stdout);
    printf("; %lld/%lld prompts answered%s\n", (long long)json_integer_value(json_object_get(o, "answered")),
           (long long)json_integer_value(json_object_get(o, "prompts")),
           json_is_true(json_object_get(o, "judged")) ? ", judged already, and nothing contradicts it" : "");
    if (n) {
        fputs("  NO_EVIDENCE: no answer to", stdout);
        for (size_t i = 0; i < n && i < 10; i++)
            printf(" %s", json_string_value(json_array_get(missing, i)));
        printf(n > 10 ? " and %zu more\n" : "\n", n - 10);
    }
}

/* 0 all prompts of all joined runs are answered; 3 refused; 4 some are missing. */
static int print_merge(const struct tool *t, const json_t *r)
{
    size_t i, missing = 0, conflicts = json_array_size(json_object_get(r, "conflicts"));
    json_t *o;
    json_array_foreach(json_object_get(r, "joined"), i, o) missing += json_array_size(json_object_get(o, "missing"));
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (conflicts) {
        json_array_foreach(json_object_get(r, "conflicts"), i, o) printf("conflict: %s\n", json_string_value(o));
        printf("%s: refused and left as it was, %zu conflicts\n", json_string_value(json_object_get(r, "store")),
               conflicts);
    } else {
        json_array_foreach(json_object_get(r, "joined"), i, o) print_joined(o);
        printf("%s: %lld stores merged: %lld goldens, %lld batteries, %lld finished runs, %lld answers are new\n",
               json_string_value(json_object_get(r, "store")),
               (long long)json_integer_value(json_object_get(r, "stores")),
               (long long)json_integer_value(json_object_get(r, "goldens")),
               (long long)json_integer_value(json_object_get(r, "batteries")),
               (long long)json_integer_value(json_object_get(r, "runs_copied")),
               (long long)json_integer_value(json_object_get(r, "answers")));
        if (json_integer_value(json_object_get(r, "decisions_left")))
            printf("note      %lld ratifications, records and other signed rows stay in their own stores\n",
                   (long long)json_integer_value(json_object_get(r, "decisions_left")));
        if (json_array_size(json_object_get(r, "joined")))
            puts("judge     the command of the shards without --shard, with --store set to this store");
    }
    return conflicts ? 3 : missing ? 4 : 0;
}

static int merge(const struct tool *t, int n, char **words, struct err *e)
{
    struct store *s = NULL;
    json_t *report = NULL;
    int status = 3;
    if (n < 3)
        return err_exit_status(FAIL(e, E_USAGE, "merge OUT IN...: one store to write and at least one to read"));
    if (!store_open(words[1], &s, e) &&
        !store_merge(s, (const char *const *)words + 2, n - 2, MERGE_ANY, show, (void *)t, &report, e))
        status = print_merge(t, report);
    json_decref(report);
    store_close(s);
    return status;
}

static int mirror(const struct tool *t, int n, char **words, struct err *e)
{
    struct store *s = NULL;
    int files = 0;
    if (n > 2)
        FAIL(e, E_USAGE, "mirror takes one folder at most");
    else if (access(t->store_path, F_OK))
        FAIL(e, E_MISSING, "no store at %s", t->store_path);
    else if (!store_open(t->store_path, &s, e) && !store_mirror(s, n > 1 ? words[1] : NULL, &files, e))
        printf(t->json ? "{\"anchors\":%d}\n" : "%d anchors in force are mirrored\n", files);
    store_close(s);
    return err_exit_status(e->code);
}

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, name))
            return &actions[i];
    return NULL;
}

static int look(const struct tool *t, const struct action *action, struct err *e)
{
    struct store *s = NULL;
    json_t *report = NULL;
    int status = 3;
    if (access(t->store_path, F_OK)) /* a store made only to be looked at would look fine */
        FAIL(e, E_MISSING, "no store at %s; `assay run` or `assay import` makes one", t->store_path);
    else if (!store_open(t->store_path, &s, e) && !action->gather(s, &report, e))
        status = action->print(t, report);
    json_decref(report);
    store_close(s);
    return status;
}

static int run(struct tool *t, int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_store, argc, argv, NULL, words, &status) : -1;
    struct err e = {0};
    if (n < 0)
        goto out;
    const struct action *action = n == 1 ? find_action(words[0]) : NULL;
    if (action)
        status = look(t, action, &e);
    else if (n && !strcmp(words[0], "merge"))
        status = merge(t, n, words, &e);
    else if (n && !strcmp(words[0], "mirror"))
        status = mirror(t, n, words, &e);
    else
        FAIL(&e, E_USAGE, "check, stats, mirror or merge is expected");
    if (e.code)
        status = tool_fail(t, "store", &e);
out:
    free(words);
    return status;
}

COMMAND(store) = {
    .name = "store",
    .summary = "check, measure or merge stores",
    .usage = "usage: assay store check|stats\n"
             "       assay store mirror [DIR]\n"
             "       assay store merge OUT IN...\n"
             "\ncheck  SQLite's own check, foreign keys, every seal (goldens, runs, batteries, records), the ledger's "
             "chain and\n"
             "       its end, every stored answer, anchors that are stale, mirrors; names each bad row; exit status 3 "
             "when there is one, 4 when there is no store\n"
             "stats  rows and bytes of every table\n"
             "mirror writes the text of every anchor in force beside the store, and into DIR for a pull request\n"
             "merge  brings goldens, batteries and runs of the stores IN into OUT and joins shards of one run, all or\n"
             "       nothing: answers that contradict each other, and shards of another model, battery, golden or\n"
             "       commit, are named and refused (exit status 3); 4 when prompts are still without an answer\n"
             "Options: --store FILE, --json.\n",
    .order = 70,
    .run = run,
};
