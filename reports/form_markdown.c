/* markdown - a comment of a pull request: the verdict first, details folded, cut before a host would refuse it */
#include "reports/escape.h"
#include "reports/form.h"

#include <stdlib.h>
#include <string.h>

#define COMMENT_MAX 60000 /* bytes; GitHub takes 65536 characters */
#define TEXT_MAX    800   /* bytes of one text; one byte may take 13 of Markdown */
#define TEXT_LEAST  8     /* so short are texts cut before a run's details are given up */
#define LIST_TEXT   100   /* of a text in the list of runs */
#define RUN_LEAST   5000  /* with less room a run is not described, only listed */
#define TAIL        4000  /* of a run's room, kept for what follows its differences */

static const char *mark(const struct report *r)
{
    switch (r->verdict) {
    case RV_PASS: return "\u2705";
    case RV_PASS_BY_RAZOR: return "\U0001f7e1";
    case RV_FAIL: return "\u274c";
    default: return "\u26a0\ufe0f";
    }
}

static long num(const json_t *o, const char *key)
{
    return (long)json_integer_value(json_object_get(o, key));
}

/* Hosts look for issue numbers, mentions and commits everywhere but in code. */
static void put_code(FILE *f, const char *text, size_t most)
{
    if (!text || !*text) {
        fputs("-", f);
        return;
    }
    char *visible = text_visible(text, strnlen(text, most), 0);
    fputs("<code>", f);
    put_markdown(f, visible);
    fputs(strlen(text) > most ? "\u2026</code>" : "</code>", f);
    free(visible);
}

static void put_overview(FILE *f, const struct report *const *runs, int n)
{
    fputs("| | verdict | run | model | battery | arm | prompts exact | tokens equal | roots |\n"
          "|---|---|---|---|---|---|---|---|---|\n",
          f);
    for (int i = 0; i < n; i++) {
        const struct report *r = runs[i];
        const json_t *s = r->summary;
        if (ftell(f) > COMMENT_MAX / 2) {
            fprintf(f, "| | and %d more | | | | | | | |\n", n - i);
            break;
        }
        fprintf(f, "| %s | **%s** | %lld | ", mark(r), report_verdict(r), (long long)r->id);
        put_code(f, r->model, LIST_TEXT);
        fputs(" | ", f);
        put_code(f, r->battery_name, LIST_TEXT);
        fputs(" | ", f);
        put_code(f, r->arm, LIST_TEXT);
        if (s)
            fprintf(f, " | %ld/%ld | %ld/%ld | %zu |\n", num(s, "prompts_exact"), num(s, "prompts"),
                    num(s, "tokens_equal"), num(s, "tokens"), json_array_size(json_object_get(s, "roots")));
        else
            fprintf(f, " | %d/%d answered | - | - |\n", r->answered, r->prompts);
    }
    fputc('\n', f);
}

static void put_item(FILE *f, const struct report *r, const struct verdict_row *v, long limit, int *cut, size_t most)
{
    if (ftell(f) > limit) {
        ++*cut;
        return;
    }
    char *text = report_sentence(r, v);
    fputs(verdict_is_benign(v->verdict) ? "- " : "- **", f);
    put_code(f, text, most);
    fputs(verdict_is_benign(v->verdict) ? "\n" : "**\n", f);
    free(text);
}

/* Differences of one kind: what fails comes first, so that a shortened list never hides it. */
static void put_kind(FILE *f, const struct report *r, int benign, long limit, int *cut, size_t most)
{
    for (int i = 0; i < r->rows; i++) {
        const struct verdict_row *v = &r->row[i];
        if (verdict_is_benign(v->verdict) == benign && (v->verdict != V_CASCADE || v->root || v->forced))
            put_item(f, r, v, limit, cut, most);
    }
}

static int listed(const struct report *r)
{
    int n = 0;
    for (int i = 0; i < r->rows; i++)
        n += r->row[i].verdict != V_CASCADE || r->row[i].root || r->row[i].forced;
    return n;
}

static void put_differences(FILE *f, const struct report *r, long limit, size_t most)
{
    int cut = 0, n = listed(r);
    if (!n)
        return;
    fprintf(f, "<details><summary>%d difference%s</summary>\n\n", n, n == 1 ? "" : "s");
    put_kind(f, r, 0, limit, &cut, most);
    put_kind(f, r, 1, limit, &cut, most);
    if (cut)
        fprintf(f, "- and %d more: `assay show %lld --all`\n", cut, (long long)r->id);
    fputs("\n</details>\n\n", f);
}

static void put_counters(FILE *f, const struct report *r, size_t most)
{
    const char *name;
    json_t *c;
    if (!json_object_size(json_object_get(r->summary, "counters")))
        return;
    fputs("| counter | ran | expected |\n|---|---|---|\n", f);
    json_object_foreach(json_object_get(r->summary, "counters"), name, c)
    {
        const json_t *expected = json_object_get(c, "expected");
        fputs("| ", f);
        put_code(f, name, most);
        fprintf(f, " | %ld | ", num(c, "ran"));
        fprintf(f, json_is_integer(expected) ? "%ld |\n" : "unknown |\n", num(c, "expected"));
    }
    fputc('\n', f);
}

static void put_provenance(FILE *f, const struct report *r, size_t most)
{
    static const char *const keys[] = {"golden_sha256", "battery_sha256", "model_sha256",
                                       "commit",        "started",        "finished"};
    const json_t *oracle = json_object_get(r->summary, "oracle");
    static const char *const of_oracle[] = {"name", "version", "gpu", "dtype"};
    fputs("<details><summary>Provenance, counters, how to run it again</summary>\n\n", f);
    put_counters(f, r, most);
    fputs("| | |\n|---|---|\n| oracle |", f);
    for (size_t i = 0; i < sizeof of_oracle / sizeof *of_oracle; i++) {
        fputc(' ', f);
        put_code(f, json_string_value(json_object_get(oracle, of_oracle[i])), most);
    }
    fputs(" |\n", f);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fprintf(f, "| %s | ", keys[i]);
        put_code(f, json_string_value(json_object_get(r->run, keys[i])), most);
        fputs(" |\n", f);
    }
    const char *again = json_string_value(json_object_get(r->summary, "again"));
    if (again && *again) {
        fputs("| again | ", f);
        put_code(f, again, most);
        fputs(" |\n", f);
    }
    fputs("\n</details>\n\n", f);
}

static void put_run(FILE *f, const struct report *r, long limit, size_t most)
{
    char power[200];
    fprintf(f, "### %s %s: ", mark(r), report_verdict(r));
    put_code(f, r->model, most);
    fputs(", ", f);
    put_code(f, r->battery_name, most);
    fputs("\n\nWhy: ", f);
    put_code(f, r->why, most);
    fputs("\n\n", f);
    for (int i = 0; i < r->notes; i++) {
        fputs("> Note: ", f);
        put_code(f, r->note[i], most);
        fputs("\n\n", f);
    }
    put_differences(f, r, limit, most);
    put_provenance(f, r, most);
    report_power(r, power, sizeof power);
    if (*power)
        fprintf(f, "Power: %s\n\n", power);
}

/* One run's part in at most `room` bytes: where the texts are too long for it, they are cut shorter. */
static int put_fitting(FILE *out, const struct report *r, long room)
{
    char *text = NULL;
    size_t size = 0;
    for (size_t most = TEXT_MAX; most >= TEXT_LEAST; most /= 2) {
        FILE *f = open_memstream(&text, &size);
        if (!f)
            return 0;
        put_run(f, r, room - TAIL, most);
        if (fclose(f))
            break;
        if ((long)size <= room) {
            fputs(text, out);
            free(text);
            return 1;
        }
        free(text);
        text = NULL;
    }
    free(text);
    fprintf(out, "No room for the details of run %lld: `assay show %lld`\n\n", (long long)r->id, (long long)r->id);
    return 1;
}

static int write(FILE *f, const struct report *const *runs, int n, struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return FAIL(e, E_NOMEM, "out of memory for the report");
    put_overview(out, runs, n);
    for (int i = 0; i < n; i++) {
        long at = ftell(out), room = (COMMENT_MAX - at) / (n - i);
        if (room < RUN_LEAST && n > 1) {
            fprintf(out, "No room for the details of %d more: `assay report %lld --markdown`, and so on.\n", n - i,
                    (long long)runs[i]->id);
            break;
        }
        if (!put_fitting(out, runs[i], room)) {
            fclose(out);
            free(text);
            return FAIL(e, E_NOMEM, "out of memory for the report");
        }
    }
    fclose(out);
    fputs(text ? text : "", f);
    free(text);
    return OK;
}

FORM(markdown) = {
    .name = "markdown", .summary = "for a comment of a pull request, details folded", .ending = ".md", .write = write};
