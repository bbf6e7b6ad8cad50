/* assay report - stored runs as a page, a comment, test results, or data */
#include "reports/flip.h"
#include "reports/form.h"
#include "tools/command.h"

#include "goldens/exchange.h"
#include "harness/models/load.h"
#include "harness/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 64

static const char usage[] =
    "usage: assay report RUN [RUN ...] --html|--markdown|--junit|--json|--csv [-o FILE]\n"
    "       assay report flip[:ROW] --html|--markdown|--junit|--json|--csv [-o FILE]\n"
    "\n"
    "Writes one report about stored runs: `assay list` shows their numbers, A..B means all from A to B, 0 the newest.\n"
    "flip is the last decision of the gate about a default, flip:ROW the one in that row of the ledger.\n"
    "\n"
    "  --html          one page that needs no network; light and dark, works without JavaScript\n"
    "  --markdown      fits a comment of a pull request, details folded\n"
    "  --junit         XML, a test case a prompt\n"
    "  --json          assay-report/1, for programs\n"
    "  --csv           a line a judged position\n"
    "  -o, --output F  into file F (complete or not at all); its ending tells the form when none is given\n"
    "\n"
    "Exit status: 0 when the report is written, whatever the verdict in it; 2 usage, 3 error, 4 no such run.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(report) = {.name = "report",
                   .summary = "a run as HTML, Markdown, JUnit, JSON or CSV",
                   .usage = usage,
                   .order = 46,
                   .run = run};

static int parse_number(const char *word, size_t n, int64_t *out)
{
    char text[20], *end;
    if (!n || n >= sizeof text || strspn(word, "0123456789") < n)
        return 0;
    memcpy(text, word, n);
    text[n] = 0;
    *out = strtoll(text, &end, 10);
    return !*end;
}

/* NUMBER or FIRST..LAST. */
static int parse_runs(int n, char **words, int64_t *id, int *ids, struct err *e)
{
    *ids = 0;
    for (int i = 0; i < n; i++) {
        const char *dots = strstr(words[i], "..");
        int64_t first, last;
        size_t head = dots ? (size_t)(dots - words[i]) : strlen(words[i]);
        if (!parse_number(words[i], head, &first) || (dots && !parse_number(dots + 2, strlen(dots + 2), &last)))
            return FAIL(e, E_USAGE, "\"%s\" is not the number of a run; `assay list` shows them", words[i]);
        if (!dots)
            last = first;
        if (last < first || last - first >= RUNS_MAX - *ids)
            return FAIL(e, E_USAGE, "\"%s\": from one to %d runs fit one report", words[i], RUNS_MAX);
        while (first <= last)
            id[(*ids)++] = first++;
    }
    return *ids ? OK : FAIL(e, E_USAGE, "the number of a run is needed; `assay list` shows them, 0 is the newest");
}

static int choose_form(const struct tool *t, const char *const *chosen, const char *output, const struct form **form,
                       struct err *e)
{
    int n = 0;
    for (int i = 0; form_all[i]; i++)
        if (chosen[i] || (t->json && !strcmp(form_all[i]->name, "json"))) {
            *form = form_all[i];
            n++;
        }
    if (n > 1)
        return FAIL(e, E_USAGE, "one form at a time: a report goes to one file");
    if (!n && output)
        *form = form_by_ending(output);
    return *form ? OK : FAIL(e, E_USAGE, "a form is needed: --html, --markdown, --junit, --json or --csv");
}

/* About runs, or about the one decision `flip` when that is not NULL. */
static int write_out(const struct form *form, const struct report *const *r, int n, const json_t *flip,
                     const char *output, struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = !f     ? FAIL(e, E_NOMEM, "out of memory")
             : flip ? flip_write(f, form->name, flip, e)
                    : form->write(f, r, n, e);
    if (f && fclose(f) && rc == OK)
        rc = FAIL(e, E_NOMEM, "out of memory for the report");
    if (rc == OK && output)
        rc = packed_write(output, text, size, e);
    else if (rc == OK && (fwrite(text, 1, size, stdout) != size || fflush(stdout)))
        rc = FAIL(e, E_IO, "standard output: the report could not be written");
    free(text);
    return rc;
}

static int piece(void *arg, int32_t id, char *buf, int size)
{
    char *text;
    size_t n;
    struct err quiet = {0};
    if (id >= tokenizer_vocab(arg) || tokenizer_decode(arg, &id, 1, &text, &n, &quiet))
        return -1;
    n = n < (size_t)size ? n : (size_t)size;
    memcpy(buf, text, n);
    free(text);
    return (int)n;
}

/* The run's own model names its tokenizer; without one at hand the report shows ids. NULL: none. */
static struct tokenizer *find_tokenizer(const struct tool *t, struct store *s, int64_t run)
{
    char folder[1024], path[1100];
    struct err quiet = {0};
    struct tokenizer *tok = NULL;
    json_t *o = NULL;
    if (store_run_get(s, run, &o, &quiet))
        return NULL;
    const char *model = json_string_value(json_object_get(o, "model"));
    if (model && !model_find(model, t->data_dir, t->cache_dir, folder, sizeof folder, &quiet)) {
        snprintf(path, sizeof path, "%s/tokenizer.json", folder);
        if (tokenizer_open_pieces(path, &tok, &quiet))
            tok = NULL;
    }
    json_decref(o);
    return tok;
}

static int report(const struct tool *t, const int64_t *id, int n, const struct form *form, const char *output,
                  struct err *e)
{
    struct report *r[RUNS_MAX] = {0};
    struct tokenizer *tok[RUNS_MAX] = {0};
    struct store *s = NULL;
    int rc = store_open(t->store_path, &s, e);
    for (int i = 0; i < n && rc == OK; i++) {
        tok[i] = find_tokenizer(t, s, id[i]);
        rc = report_gather(s, id[i], tok[i] ? piece : NULL, tok[i], &r[i], e);
    }
    if (rc == OK)
        rc = write_out(form, (const struct report *const *)r, n, NULL, output, e);
    for (int i = 0; i < n; i++) {
        report_free(r[i]);
        tokenizer_close(tok[i]);
    }
    store_close(s);
    return rc;
}

/* "flip" or "flip:ROW" -> the row, 0: the last; -1: it is no such word. */
static int64_t flip_row(int n, char **words)
{
    int64_t row = 0;
    if (n != 1 || strncmp(words[0], "flip", 4) || (words[0][4] && words[0][4] != ':'))
        return -1;
    return !words[0][4] || parse_number(words[0] + 5, strlen(words[0] + 5), &row) ? row : -1;
}

static int report_flip(const struct tool *t, int64_t row, const struct form *form, const char *output, struct err *e)
{
    struct store *s = NULL;
    json_t *list = NULL;
    const json_t *found = NULL;
    int rc;
    if ((rc = store_open(t->store_path, &s, e)) || (rc = store_ledger_list(s, "flip", &list, e)))
        goto out;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        if (!row || json_integer_value(json_object_get(o, "seq")) == row)
            found = o;
    }
    if (!found && row)
        rc = FAIL(e, E_MISSING, "row %lld of the ledger is no decision about a default", (long long)row);
    else if (!found)
        rc = FAIL(e, E_MISSING, "no decision about a default is stored; `assay flip --help`");
    else
        rc = write_out(form, NULL, 0, found, output, e);
out:
    json_decref(list);
    store_close(s);
    return rc;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *output = NULL, *chosen[16] = {0};
    struct option_spec spec[18] = {{"output", "FILE", &output}};
    for (int i = 0, n = 1; form_all[i] && n < 17; i++)
        if (strcmp(form_all[i]->name, "json")) /* known to every verb */
            spec[n++] = (struct option_spec){form_all[i]->name, NULL, &chosen[i]};
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "-o"))
            argv[i] = "--output";
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_report, argc, argv, spec, words, &status) : -1, ids;
    int64_t id[RUNS_MAX];
    const struct form *form = NULL;
    struct err e = {0};
    if (n >= 0) {
        int64_t row = flip_row(n, words);
        status = 0;
        if ((row < 0 && parse_runs(n, words, id, &ids, &e)) || choose_form(t, chosen, output, &form, &e) ||
            (row < 0 ? report(t, id, ids, form, output, &e) : report_flip(t, row, form, output, &e)))
            status = tool_fail(t, "report", &e);
    }
    free(words);
    return status;
}
