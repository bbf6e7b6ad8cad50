/* assay unratify - takes a yes back with a new row; nothing is erased */
#include "goldens/ratify.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay unratify ROW --by WHO [--note TEXT] [--mirror DIR]\n"
    "       assay unratify --list\n"
    "\n"
    "ROW is the ledger row that `assay ratify` named. The anchor before it is in force again, a golden that it made\n"
    "active is pending again, goldens that it superseded are active again. Only the last word on an arm can be taken\n"
    "back. --list shows the anchors in force and which of them are stale.\n"
    "Options: --store FILE, --json.\n"
    "\n"
    "Exit status: 0, 2 a row that cannot be taken back, 4 no such row.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(unratify) = {.name = "unratify",
                     .summary = "takes a ratification back with a new row; lists anchors in force",
                     .usage = usage,
                     .order = 46,
                     .run = run};

static int list(const struct tool *t, struct store *s, struct err *e)
{
    json_t *all, *o;
    size_t i;
    if (store_anchor_list(s, &all, e))
        return e->code;
    if (t->json) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_array_foreach(all, i, o)
    {
        const char *stale = json_string_value(json_object_get(o, "stale"));
        if (!t->json)
            printf("row %lld  %s  anchor %.12s, golden %.12s, by %s%s%s\n",
                   (long long)json_integer_value(json_object_get(o, "seq")),
                   json_string_value(json_object_get(o, "key")), json_string_value(json_object_get(o, "anchor")),
                   json_string_value(json_object_get(o, "golden")), json_string_value(json_object_get(o, "by")),
                   stale ? "; stale: " : "", stale ? stale : "");
    }
    if (!t->json && !json_array_size(all))
        puts("no anchor is in force");
    json_decref(all);
    return OK;
}

static int take_back(const struct tool *t, struct store *s, const char *word, const char *by, const char *note,
                     const char *mirror, struct err *e)
{
    char *end;
    int files;
    long long seq = strtoll(word, &end, 10);
    if (*end || seq < 1)
        return FAIL(e, E_USAGE, "\"%s\" is no ledger row; --list shows those in force", word);
    if (store_unratify(s, seq, by, note ? note : "", mirror, &files, e))
        return e->code;
    if (t->json)
        printf("{\"undone\":%lld,\"anchors\":%d}\n", seq, files);
    else
        printf("ratification %lld is taken back; %d anchors are in force\n", seq, files);
    return OK;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *by = NULL, *note = NULL, *show = NULL, *mirror = NULL;
    const struct option_spec spec[] = {
        {"by", "WHO", &by}, {"note", "TEXT", &note}, {"list", NULL, &show}, {"mirror", "DIR", &mirror}, {0}};
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_unratify, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (show ? n != 0 : n != 1 || !by || !*by)
        FAIL(&e, E_USAGE, "a ledger row and --by WHO are expected, or --list");
    else if (!tool_store(t, &s, &e))
        show ? list(t, s, &e) : take_back(t, s, words[0], by, note, mirror, &e);
    store_close(s);
    return e.code ? tool_fail(t, "unratify", &e) : 0;
}
