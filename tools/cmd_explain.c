/* assay explain - one token: the oracle's and the arm's largest values side by side, and how the razor decided */
#include "goldens/store.h"
#include "tools/explain.h"
#include "tools/run_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay explain RUN PROMPT[:TOKEN] [--prefill] [--top K]\n"
    "\n"
    "Shows one position of a stored run: the oracle's and the arm's largest values on the same prefix, gap, ULP, "
    "ties,\n"
    "the oracle's own jitter there, and the razor. Without TOKEN: the prompt's first difference, else 0.\n"
    "\n"
    "  --prefill   the prefill-shaped rows (teacher forcing in one pass), not the decode-shaped ones\n"
    "  --top K     K lines (10)\n"
    "\n"
    "Exit status: 0, 2 usage, 4 when the run, the prompt or the golden is not there.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(explain) = {
    .name = "explain", .summary = "one token, oracle and arm side by side", .usage = usage, .order = 43, .run = run};

/* PROMPT[:TOKEN]; *position = -1 when it is not given. */
static int parse_place(char *word, char **prompt, int *position, struct err *e)
{
    char *colon = strrchr(word, ':'), *end;
    *prompt = word;
    *position = -1;
    if (!colon)
        return OK;
    long v = strtol(colon + 1, &end, 10);
    if (!colon[1] || *end || v < 0 || v > 1000000)
        return FAIL(e, E_USAGE, "\"%s\": after the colon stands the number of an emitted token, from 0", word);
    *colon = 0;
    *position = (int)v;
    return OK;
}

static int parse_words(int n, char **words, const char *top, int64_t *id, char **prompt, struct explain *x,
                       struct err *e)
{
    char *end = "";
    long lines = top ? strtol(top, &end, 10) : 10;
    if (n < 2)
        return FAIL(e, E_USAGE, "a run and a prompt are needed: assay explain RUN PROMPT[:TOKEN]");
    if (*end || lines < 1 || lines > 1024)
        return FAIL(e, E_USAGE, "--top %s: a number from 1 to 1024 is needed", top);
    x->lines = (int)lines;
    return run_number(n, words, 0, 2, id, e) ? e->code : parse_place(words[1], prompt, &x->position, e);
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *prefill = NULL, *top = NULL;
    const struct option_spec spec[] = {{"prefill", NULL, &prefill}, {"top", "K", &top}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words), *prompt = NULL;
    int status = 3, n = words ? tool_options(t, &command_explain, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    struct explain x = {0};
    int64_t id = 0;
    if (n < 0)
        goto out;
    if (parse_words(n, words, top, &id, &prompt, &x, &e) || store_open(t->store_path, &s, &e) ||
        explain_load(s, id, prompt, prefill != NULL, &x, &e)) {
        status = tool_fail(t, "explain", &e);
        goto out;
    }
    if (t->json) {
        json_t *o = explain_json(&x);
        json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(o);
    } else {
        struct token_text *tok = token_text_open(t, x.golden->model);
        x.narrow = t->width < 100;
        explain_text(stdout, &x, tok);
        token_text_close(tok);
    }
    status = 0;
out:
    explain_free(&x);
    store_close(s);
    free(words);
    return status;
}
