#include "reports/flip.h"

#include "reports/escape.h"

#include <stdlib.h>
#include <string.h>

#define COMMENT_MAX 60000
#define TEXT_MAX    200

extern const char page_css[];

/* What the forms show, borrowed from the row. */
struct decision {
    const json_t *row, *what, *evidence;
    const char *flag, *from, *to, *decision, *policy, *by;
    int granted, applied;
};

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int read_decision(const json_t *row, struct decision *d, struct err *e)
{
    const json_t *w = json_object_get(row, "what");
    *d = (struct decision){row,
                           w,
                           json_object_get(w, "evidence"),
                           str(w, "flag"),
                           str(w, "from"),
                           str(w, "to"),
                           str(w, "decision"),
                           str(w, "policy"),
                           str(w, "by"),
                           0,
                           0};
    d->granted = !strcmp(d->decision, "granted");
    d->applied = json_is_true(json_object_get(w, "applied"));
    if (!*d->flag || !*d->decision || !json_is_array(d->evidence))
        return FAIL(e, E_INPUT, "ledger row %lld is no decision about a flag",
                    (long long)json_integer_value(json_object_get(row, "seq")));
    return OK;
}

static int is_asked(const json_t *item)
{
    return strcmp(str(item, "outcome"), "not applicable") != 0;
}

static int has_failed(const json_t *item)
{
    return !strcmp(str(item, "outcome"), "FAILED");
}

static int stands_in_the_way(const json_t *item)
{
    return strcmp(str(item, "outcome"), "ok") && is_asked(item);
}

static const char *tone(const json_t *item)
{
    const char *o = str(item, "outcome");
    return !strcmp(o, "ok") ? "v-pass" : has_failed(item) ? "far" : stands_in_the_way(item) ? "near" : "v-none";
}

static long seq(const struct decision *d)
{
    return (long)json_integer_value(json_object_get(d->row, "seq"));
}

static void put_fact(FILE *f, const char *name, const char *text)
{
    fprintf(f, "<tr><th scope=\"row\">%s<td><code><bdi>", name);
    put_html(f, *text ? text : "-");
    fputs("</bdi></code>\n", f);
}

static void put_item_html(FILE *f, const json_t *item)
{
    const char *const key[] = {"check", "set", "about"};
    long run = (long)json_integer_value(json_object_get(item, "run_number"));
    fputs("<tr>", f);
    for (int i = 0; i < 3; i++) {
        fputs(i ? "<td><code><bdi>" : "<td><b><bdi>", f);
        put_html(f, str(item, key[i]));
        fputs(i ? "</bdi></code>" : "</bdi></b>", f);
    }
    fprintf(f, "<td><span class=\"tag %s\">", tone(item));
    put_html(f, str(item, "outcome"));
    fputs("</span><td><bdi>", f);
    put_html(f, str(item, "text"));
    fputs(json_is_true(json_object_get(item, "reused")) ? "</bdi> <span class=\"soft\">(from the store)</span>"
                                                        : "</bdi>",
          f);
    fprintf(f, run ? "<td class=\"n\">%ld\n" : "<td class=\"n\">\n", run);
}

static void put_html_page(FILE *f, const struct decision *d)
{
    size_t i;
    json_t *item;
    const char *name;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>flip: ",
          f);
    put_html(f, d->flag);
    fprintf(f, " - assay</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>assay flip</h1>\n", page_css);
    fprintf(
        f,
        "<div class=\"banner %s\" role=\"status\"><strong><span aria-hidden=\"true\">%s</span> %s</strong>\n<p><bdi>",
        d->granted ? "v-pass" : "v-fail", d->granted ? "\u2713" : "\u2717", d->granted ? "GRANTED" : "REFUSED");
    put_html(f, d->flag);
    fputs("</bdi>: ", f);
    put_html(f, d->from);
    fputs(" \u2192 ", f);
    put_html(f, d->to);
    fputs(d->applied ? ", changed</p>\n</div>\n" : ", nothing was changed</p>\n</div>\n", f);
    fputs("<div class=\"scroll\"><table class=\"facts\"><tbody>\n", f);
    put_fact(f, "policy", d->policy);
    put_fact(f, "policy SHA-256", str(d->what, "policy_sha256"));
    put_fact(f, "by", d->by);
    put_fact(f, "at", str(d->row, "at"));
    fprintf(f, "<tr><th scope=\"row\">ledger<td>row %ld, <code>%.64s</code>\n", seq(d), str(d->row, "sha256"));
    fputs("</tbody></table></div>\n<h2>What was asked</h2>\n<div class=\"scroll\"><table><thead><tr><th>check<th>flags"
          "<th>about<th>outcome<th>evidence<th class=\"n\">run</thead>\n<tbody>\n",
          f);
    json_array_foreach((json_t *)d->evidence, i, item) put_item_html(f, item);
    fputs("</tbody></table></div>\n<h2>The defaults that were tried</h2>\n<div class=\"scroll\"><table><tbody>\n", f);
    json_object_foreach(json_object_get(d->what, "defaults"), name, item)
    {
        fputs("<tr><th scope=\"row\"><bdi>", f);
        put_html(f, name);
        fputs("</bdi><td><code>", f);
        put_html(f, json_string_value(item));
        fputs("</code>\n", f);
    }
    fputs("</tbody></table></div>\n</main>\n</body>\n</html>\n", f);
}

static void put_code(FILE *f, const char *text)
{
    char *visible = text_visible(text, strnlen(text, TEXT_MAX), 0);
    fputs("<code>", f);
    put_markdown(f, visible && *visible ? visible : "-");
    fputs(strlen(text) > TEXT_MAX ? "\u2026</code>" : "</code>", f);
    free(visible);
}

static void put_item_markdown(FILE *f, const json_t *item)
{
    static const char *const key[] = {"check", "set", "about", "outcome", "text"};
    fprintf(f, "| %s", stands_in_the_way(item) ? "\u274c" : is_asked(item) ? "\u2705" : "\u2796");
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        fputs(" | ", f);
        put_code(f, str(item, key[i]));
    }
    fputs(" |\n", f);
}

/* What stands in the way first, so that a list cut short never hides it. */
static void put_markdown_comment(FILE *f, const struct decision *d)
{
    int cut = 0;
    fprintf(f, "### %s %s: ", d->granted ? "\u2705" : "\u274c", d->granted ? "GRANTED" : "REFUSED");
    put_code(f, d->flag);
    fputs(" from ", f);
    put_code(f, d->from);
    fputs(" to ", f);
    put_code(f, d->to);
    fputs("\n\nPolicy ", f);
    put_code(f, d->policy);
    fputs(", by ", f);
    put_code(f, d->by);
    fprintf(f, ", ledger row %ld, %s.\n\n| | check | flags | about | outcome | evidence |\n|---|---|---|---|---|---|\n",
            seq(d), d->applied ? "the default is changed" : "nothing was changed");
    for (int way = 1; way >= 0; way--) {
        size_t i;
        json_t *item;
        json_array_foreach((json_t *)d->evidence, i, item)
        {
            if (stands_in_the_way(item) == way && ftell(f) > COMMENT_MAX - 16000)
                cut++;
            else if (stands_in_the_way(item) == way)
                put_item_markdown(f, item);
        }
    }
    if (cut)
        fprintf(f, "\n%d more: `assay report flip:%ld --html`\n", cut, seq(d));
}

/* What failed is a failure, what could not be told an error, what the policy excuses is skipped: none of them passed.
 */
static void put_case(FILE *f, const json_t *item)
{
    const char *kind = has_failed(item) ? "failure" : stands_in_the_way(item) ? "error" : "skipped";
    fputs("<testcase classname=\"", f);
    put_xml(f, str(item, "check"));
    fputs("\" name=\"", f);
    put_xml(f, str(item, "set"));
    fputs(", ", f);
    put_xml(f, str(item, "about"));
    fputs("\">", f);
    if (stands_in_the_way(item) || !is_asked(item)) {
        fprintf(f, "<%s", kind);
        if (stands_in_the_way(item)) {
            fputs(" type=\"", f);
            put_xml(f, str(item, "outcome"));
            fputs("\"", f);
        }
        fputs(" message=\"", f);
        put_xml(f, str(item, "text"));
        fputs("\"/>", f);
    }
    fputs("</testcase>\n", f);
}

static void put_junit(FILE *f, const struct decision *d)
{
    size_t i, n = json_array_size(d->evidence), failed = 0, errors = 0, skipped = 0;
    json_t *item;
    json_array_foreach((json_t *)d->evidence, i, item)
    {
        failed += (size_t)has_failed(item);
        errors += stands_in_the_way(item) && !has_failed(item);
        skipped += !is_asked(item);
    }
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite tests=\"%zu\" failures=\"%zu\" "
            "errors=\"%zu\" skipped=\"%zu\" name=\"flip ",
            n, failed, errors, skipped);
    put_xml(f, d->flag);
    fputs("\">\n", f);
    json_array_foreach((json_t *)d->evidence, i, item) put_case(f, item);
    fputs("</testsuite>\n</testsuites>\n", f);
}

static void put_lines(FILE *f, const struct decision *d)
{
    static const char *const key[] = {"check", "set", "about", "outcome", "text"};
    size_t i;
    json_t *item;
    fputs("ledger,flag,decision,check,flags,about,outcome,evidence,run\n", f);
    json_array_foreach((json_t *)d->evidence, i, item)
    {
        fprintf(f, "%ld,", seq(d));
        put_csv(f, d->flag);
        fputc(',', f);
        put_csv(f, d->decision);
        for (size_t k = 0; k < sizeof key / sizeof *key; k++) {
            fputc(',', f);
            put_csv(f, str(item, key[k]));
        }
        fprintf(f, ",%lld\n", (long long)json_integer_value(json_object_get(item, "run_number")));
    }
}

static int put_json(FILE *f, const struct decision *d)
{
    json_t *o = json_pack("{s:s,s:I,s:O,s:O,s:O}", "schema", "assay-flip/1", "ledger", (json_int_t)seq(d), "at",
                          json_object_get(d->row, "at"), "sha256", json_object_get(d->row, "sha256"), "flip", d->what);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17)) : NULL;
    if (text)
        fprintf(f, "%s\n", text);
    free(text);
    json_decref(o);
    return text != NULL;
}

int flip_write(FILE *f, const char *form, const json_t *row, struct err *e)
{
    struct decision d;
    if (read_decision(row, &d, e))
        return e->code;
    if (!strcmp(form, "json"))
        return put_json(f, &d) ? OK : FAIL(e, E_NOMEM, "out of memory for the report");
    (!strcmp(form, "html")       ? put_html_page
     : !strcmp(form, "markdown") ? put_markdown_comment
     : !strcmp(form, "junit")    ? put_junit
                                 : put_lines)(f, &d);
    return OK;
}
