/* store - is the store still what was put into it, and how large is it */
#include "goldens/store.h"
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

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

static void print_stats(const struct tool *t, const json_t *r)
{
    const char *name;
    json_t *row;
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT);
        putchar('\n');
        return;
    }
    printf("%s: %lld bytes\n%-10s %10s %12s\n", json_string_value(json_object_get(r, "store")),
           (long long)json_integer_value(json_object_get(r, "bytes")), "table", "rows", "bytes");
    json_object_foreach(json_object_get(r, "tables"), name, row)
        printf("%-10s %10lld %12lld\n", name, (long long)json_integer_value(json_object_get(row, "rows")),
               (long long)json_integer_value(json_object_get(row, "bytes")));
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
    int check = n == 1 && !strcmp(words[0], "check");
    if (!check && !(n == 1 && !strcmp(words[0], "stats")))
        FAIL(&e, E_USAGE, "check or stats is expected");
    else if (!store_open(t->store_path, &s, &e))
        (check ? store_check : store_stats)(s, &report, &e);
    store_close(s);
    if (e.code)
        return tool_fail(t, "store", &e);
    status = 0;
    if (check)
        status = print_check(t, report);
    else
        print_stats(t, report);
    json_decref(report);
    return status;
}

COMMAND(store) = {
    .name = "store",
    .summary = "check or measure the store",
    .usage = "usage: assay store check|stats\n"
             "\ncheck  SQLite's own check, foreign keys, the seal of every golden, the ledger's chain, every stored "
             "answer;\n"
             "       names each bad row; exit status 3 when there is one\n"
             "stats  rows and bytes of every table\nOptions: --store FILE, --json.\n",
    .order = 70,
    .run = run,
};
