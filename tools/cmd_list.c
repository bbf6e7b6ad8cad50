/* assay list - the runs of the store */
#include "goldens/store.h"
#include "reports/escape.h"
#include "tools/run_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: assay list [--model M] [--battery B] [--verdict V] [--since TIME] [--limit N]\n"
                            "\n"
                            "Lists stored runs, newest first.\n"
                            "\n"
                            "  --verdict V   PASS, PASS_BY_RAZOR, FAIL, NO_EVIDENCE or VOID\n"
                            "  --since TIME  started at that time or later, as the list writes it\n"
                            "  --limit N     at most N runs (50)\n";

#define WIDE 100 /* columns that a line for a run wants, its arm not counted in full */

static int run(struct tool *t, int argc, char **argv);

COMMAND(list) = {.name = "list", .summary = "the runs of the store", .usage = usage, .order = 44, .run = run};

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long num(const json_t *o, const char *key)
{
    return (long)json_integer_value(json_object_get(o, key));
}

/* A column a field; where the terminal is too narrow for them, a run takes three lines. */
static void print_line(const struct tool *t, const json_t *o, int narrow)
{
    const json_t *s = json_object_get(o, "summary");
    char prompts[32] = "-", tokens[32] = "-";
    const char *verdict = *str(o, "verdict") ? str(o, "verdict") : "unfinished";
    if (json_is_object(s)) {
        snprintf(prompts, sizeof prompts, "%ld/%ld", num(s, "prompts_exact"), num(s, "prompts"));
        snprintf(tokens, sizeof tokens, "%ld/%ld", num(s, "tokens_equal"), num(s, "tokens"));
    }
    printf("%5ld  ", num(o, "run"));
    if (!narrow)
        printf("%-19.19s  %-20s %-9s %-9s %-11s  ", str(o, "started"), str(o, "model"), str(o, "battery"), prompts,
               tokens);
    run_text_verdict(stdout, t, verdict);
    if (narrow) {
        int room = t->width - 7;
        printf("%*s %s, %s\n%7s%.*s\n", strlen(verdict) < 13 ? (int)(13 - strlen(verdict)) : 0, "", str(o, "model"),
               str(o, "battery"), "", room, str(o, "arm"));
        printf("%7s%.16s, prompts %s, tokens %s\n", "", str(o, "started"), prompts, tokens);
        return;
    }
    printf("%*s  %s\n", strlen(verdict) < 13 ? (int)(13 - strlen(verdict)) : 0, "", str(o, "arm"));
}

static void print(const struct tool *t, const json_t *list)
{
    size_t i;
    json_t *o;
    int narrow = t->width < WIDE;
    if (!json_array_size(list)) {
        puts("no runs yet: `assay run --help`, or `assay demo` for the shipped models");
        return;
    }
    if (!narrow)
        printf("%5s  %-19.19s  %-20s %-9s %-9s %-11s  %-13s  %s\n", "run", "started", "model", "battery", "prompts",
               "tokens", "verdict", "arm");
    json_array_foreach(list, i, o) print_line(t, o, narrow);
}

static int check(const char *verdict, const char *limit, int n, char **words, struct run_filter *f, struct err *e)
{
    char *end = "";
    long v = limit ? strtol(limit, &end, 10) : 50;
    if (n)
        return FAIL(e, E_USAGE, "unexpected word \"%s\"", words[0]);
    if (*end || v < 1 || v > 1000000)
        return FAIL(e, E_USAGE, "--limit %s: a number from 1 to 1000000 is needed", limit);
    if (verdict && run_verdict_by_name(verdict) == RV_COUNT)
        return FAIL(e, E_USAGE, "--verdict %s: must be PASS, PASS_BY_RAZOR, FAIL, NO_EVIDENCE or VOID", verdict);
    f->limit = (int)v;
    f->verdict = verdict;
    return OK;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *limit = NULL, *verdict = NULL;
    struct run_filter f = {0};
    const struct option_spec spec[] = {{"model", "M", &f.model},   {"battery", "B", &f.battery},
                                       {"verdict", "V", &verdict}, {"since", "TIME", &f.since},
                                       {"limit", "N", &limit},     {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_list, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    json_t *list = NULL;
    if (n < 0)
        goto out;
    if (check(verdict, limit, n, words, &f, &e) || store_open(t->store_path, &s, &e) ||
        store_run_list(s, &f, &list, &e)) {
        status = tool_fail(t, "list", &e);
        goto out;
    }
    if (t->json) {
        json_dumpf(list, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
    } else {
        json_visible(list);
        print(t, list);
    }
    status = 0;
out:
    json_decref(list);
    store_close(s);
    free(words);
    return status;
}
