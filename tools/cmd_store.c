/* store - is the store still what was put into it, and how large is it */
#include "goldens/store.h"
#include "tools/command.h"

#include <stdio.h>
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

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, name))
            return &actions[i];
    return NULL;
}

static int run(struct tool *t, int argc, char **argv)
{
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_store, argc, argv, NULL, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    json_t *report = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    const struct action *action = n == 1 ? find_action(words[0]) : NULL;
    if (!action)
        FAIL(&e, E_USAGE, "check or stats is expected");
    else if (access(t->store_path, F_OK)) /* a store made only to be looked at would look fine */
        FAIL(&e, E_MISSING, "no store at %s; `assay run` or `assay import` makes one", t->store_path);
    else if (!store_open(t->store_path, &s, &e))
        action->gather(s, &report, &e);
    store_close(s);
    if (e.code)
        return tool_fail(t, "store", &e);
    status = action->print(t, report);
    json_decref(report);
    return status;
}

COMMAND(store) = {
    .name = "store",
    .summary = "check or measure the store",
    .usage = "usage: assay store check|stats\n"
             "\ncheck  SQLite's own check, foreign keys, the seal of every golden, the ledger's chain, every stored "
             "answer;\n"
             "       names each bad row; exit status 3 when there is one, 4 when there is no store\n"
             "stats  rows and bytes of every table\nOptions: --store FILE, --json.\n",
    .order = 70,
    .run = run,
};
