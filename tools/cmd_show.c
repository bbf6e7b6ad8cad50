/* assay show - a run of the store, as it was reported */
#include "goldens/store.h"
#include "tools/run_text.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: assay show [RUN] [--all]\n"
                            "\n"
                            "Prints the report of a stored run; without RUN the newest one. `assay list` lists them.\n"
                            "\n"
                            "  --all   every difference, not the first ten\n"
                            "\n"
                            "Exit status: 0, or 4 when there is no such run.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(show) = {.name = "show", .summary = "the report of a stored run", .usage = usage, .order = 41, .run = run};

static void print(const struct tool *t, json_t *o, int shown)
{
    if (t->json) {
        json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
        return;
    }
    const json_t *summary = json_object_get(o, "summary");
    if (json_is_object(summary)) {
        struct token_text *tok = token_text_open(t, json_string_value(json_object_get(summary, "model")));
        run_text(stdout, t, summary, shown, tok);
        token_text_close(tok);
        return;
    }
    printf("run %lld is not finished: the command that started it goes on where it stopped\n",
           (long long)json_integer_value(json_object_get(o, "run")));
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *all = NULL;
    const struct option_spec spec[] = {{"all", NULL, &all}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_show, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    json_t *o = NULL;
    int64_t id = 0;
    if (n < 0)
        goto out;
    if (run_number(n, words, 0, 1, &id, &e) || store_open(t->store_path, &s, &e) || store_run_get(s, id, &o, &e)) {
        status = tool_fail(t, "show", &e);
        goto out;
    }
    print(t, o, all ? 0 : 10);
    status = 0;
out:
    json_decref(o);
    store_close(s);
    free(words);
    return status;
}
