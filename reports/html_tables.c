/* Differences, and where everything comes from. */
#include "reports/escape.h"
#include "reports/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 400 /* of the table of differences; the strips show all */
#define TOP_MAX  10

const char *html_mark(enum verdict v)
{
    switch (v) {
    case V_EQUAL: return "c-equal";
    case V_TIE_EXACT:
    case V_ORACLE_SPLIT: return "c-tie";
    case V_NEAR_TIE: return "c-near";
    case V_DIVERGENT: return "c-far";
    case V_CASCADE: return "c-cascade";
    default: return "c-odd";
    }
}

const char *html_token(const struct verdict_row *v)
{
    if (v->verdict == V_NEAR_TIE)
        return v->gap_nats <= v->razor_nats / 2 ? "nearer" : "near";
    return html_mark(v->verdict) + 2;
}

static void put_number(FILE *f, double v)
{
    if (isfinite(v))
        fprintf(f, "<td class=\"n\">%.5g", v);
    else
        fputs("<td class=\"n\">-", f);
}

static void put_token(FILE *f, const struct report *r, int32_t id)
{
    const char *text = report_text(r, id);
    if (id < 0) {
        fputs("<td>nothing", f);
        return;
    }
    fprintf(f, "<td><code>%d", id);
    if (*text) {
        fputs(" \u201c<bdi>", f);
        put_html(f, text);
        fputs("</bdi>\u201d", f);
    }
    fputs("</code>", f);
}

static void put_top(FILE *f, const struct report *r, const char *title, const struct view *v,
                    const struct verdict_row *row)
{
    fprintf(f, "<div><h4>%s</h4>", title);
    if (!v) {
        fputs("<p class=\"soft\">no row stored on this prefix</p></div>", f);
        return;
    }
    fputs("<table><tr><th class=\"n\">id<th class=\"n\">value<th class=\"n\">log-prob<th>text\n", f);
    for (int i = 0; i < v->top_k && i < TOP_MAX; i++) {
        size_t at = (size_t)row->position * (size_t)v->top_k + (size_t)i;
        int32_t id = v->top_ids[at];
        if (id < 0)
            break;
        fprintf(f, "<tr%s><td class=\"n\">%d<td class=\"n\">%.7g<td class=\"n\">%.4f<td class=\"mono\"><bdi>",
                id == row->golden_id ? " class=\"golden\""
                : id == row->arm_id  ? " class=\"arm\""
                                     : "",
                id, (double)v->top_values[at], (double)v->top_values[at] - v->logsumexp[row->position]);
        put_html(f, report_text(r, id));
        fputs("</bdi>\n", f);
    }
    fputs("</table></div>", f);
}

static const struct report_prompt *prompt_of(const struct report *r, const struct verdict_row *v, int *number)
{
    for (*number = 0; *number < r->prompts; ++*number)
        if (!strcmp(r->prompt[*number].name, v->prompt))
            return &r->prompt[*number];
    return NULL;
}

static void put_lists(FILE *f, const struct report *r, const struct report_prompt *p, const struct verdict_row *v)
{
    const struct view *oracle, *arm;
    if (!p || v->position >= p->positions || v->verdict == V_TOKENISATION)
        return;
    report_rows(p, v->position, v->forced == 2, &oracle, &arm);
    if (!oracle && !arm)
        return;
    fputs("<tr class=\"lists\"><td colspan=\"10\"><details><summary>both lists</summary><div class=\"tops\">", f);
    put_top(f, r, "oracle", oracle, v);
    put_top(f, r, "arm", arm, v);
    fputs("</div></details>\n", f);
}

static void put_difference(FILE *f, const struct report *r, const struct verdict_row *v)
{
    static const char *const shape[] = {"free", "forced decode", "forced prefill"};
    int number;
    const struct report_prompt *p = prompt_of(r, v, &number);
    fprintf(f, "<tr><td><a href=\"#prompt-%lld-%d\" data-token=\"%d\"><bdi>", (long long)r->id, number, v->position);
    put_html(f, v->prompt);
    fprintf(f, "</bdi>:%d</a><td>%s%s<td><span class=\"tag %s\">%s</span>", v->position,
            v->verdict == V_TOKENISATION ? "prompt" : shape[v->forced], v->root ? ", root" : "", html_token(v),
            verdict_name(v->verdict));
    put_token(f, r, v->arm_id);
    put_token(f, r, v->golden_id);
    put_number(f, isnan(v->gap_nats) ? v->gap_bound_nats : v->gap_nats);
    fputs(isnan(v->gap_nats) && isfinite(v->gap_bound_nats) ? " or more" : "", f);
    put_number(f, v->gap_ulp);
    put_number(f, v->razor_nats);
    put_number(f, v->jitter_nats);
    fprintf(f, "<td class=\"n\">%d\n", v->ties);
    put_lists(f, r, p, v);
}

static int is_listed(const struct verdict_row *v)
{
    return v->verdict != V_CASCADE || v->root || v->forced;
}

void html_differences(FILE *f, const struct report *r)
{
    int n = 0, shown = 0;
    for (int i = 0; i < r->rows; i++)
        n += is_listed(&r->row[i]);
    if (!n)
        return;
    fprintf(f,
            "<h2>Differences (%d)</h2>\n<div class=\"scroll\"><table><thead><tr><th>prompt:token<th>evidence"
            "<th>verdict<th>arm<th>oracle<th class=\"n\">gap, nat<th class=\"n\">ULP<th class=\"n\">razor, nat"
            "<th class=\"n\">jitter, nat<th class=\"n\">tied</thead>\n<tbody>\n",
            n);
    /* What fails comes first, so that a shortened list never hides it. */
    for (int benign = 0; benign < 2; benign++)
        for (int i = 0; i < r->rows; i++)
            if (is_listed(&r->row[i]) && verdict_is_benign(r->row[i].verdict) == benign && shown < ROWS_MAX) {
                put_difference(f, r, &r->row[i]);
                shown++;
            }
    fputs("</tbody></table></div>\n", f);
    if (n > shown)
        fprintf(f, "<p class=\"soft\">and %d more in the strips below</p>\n", n - shown);
}

static void put_row(FILE *f, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    fputs("<tr><th scope=\"row\"><bdi>", f);
    put_html(f, name);
    fputs("</bdi><td><code><bdi>", f);
    put_html(f, text);
    fputs("</bdi></code>\n", f);
}

static void put_value(FILE *f, const char *name, const json_t *v)
{
    char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!json_is_null(v))
        put_row(f, name, json_is_string(v) ? json_string_value(v) : text);
    free(text);
}

static void put_counters(FILE *f, const struct report *r)
{
    const char *name;
    json_t *c, *all = json_object_get(r->summary, "counters");
    if (!json_object_size(all))
        return;
    fputs("<h2>Route counters</h2>\n<div class=\"scroll\"><table><thead><tr><th>counter<th class=\"n\">ran"
          "<th class=\"n\">expected<th></thead><tbody>\n",
          f);
    json_object_foreach(all, name, c)
    {
        const json_t *expected = json_object_get(c, "expected");
        json_int_t ran = json_integer_value(json_object_get(c, "ran"));
        fputs("<tr><td><code><bdi>", f);
        put_html(f, name);
        fprintf(f, "</bdi></code><td class=\"n\">%lld<td class=\"n\">", (long long)ran);
        if (!json_is_integer(expected))
            fputs("unknown<td>\n", f);
        else
            fprintf(f, "%lld<td>%s\n", (long long)json_integer_value(expected),
                    ran == json_integer_value(expected) ? "exact" : "<span class=\"tag far\">differs</span>");
    }
    fputs("</tbody></table></div>\n", f);
}

static void put_oracle(FILE *f, const struct report *r)
{
    const char *name;
    json_t *v;
    char line[160];
    fputs("<h2>Provenance</h2>\n<div class=\"scroll\"><table><tbody>\n", f);
    json_object_foreach(json_object_get(r->summary, "oracle"), name, v)
    {
        snprintf(line, sizeof line, "oracle %.100s", name);
        put_value(f, line, v);
    }
    put_value(f, "golden", json_object_get(r->summary, "golden"));
    static const char *const keys[] = {"golden_sha256", "battery_sha256", "model_sha256",
                                       "commit",        "started",        "finished"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_value(f, keys[i], json_object_get(r->run, keys[i]));
    json_object_foreach(json_object_get(r->summary, "oracle_noise"), name, v)
    {
        snprintf(line, sizeof line, "oracle's noise: %.100s", name);
        put_value(f, line, v);
    }
    json_object_foreach(json_object_get(r->summary, "razor"), name, v)
    {
        snprintf(line, sizeof line, "razor %.100s", name);
        put_value(f, line, v);
    }
    fputs("</tbody></table></div>\n", f);
}

void html_provenance(FILE *f, const struct report *r)
{
    const char *again = json_string_value(json_object_get(r->summary, "again"));
    const json_t *engine = json_object_get(r->summary, "engine");
    put_counters(f, r);
    put_oracle(f, r);
    if (json_is_object(engine)) {
        char *text = json_dumps(engine, JSON_INDENT(1));
        fputs("<details><summary>The engine in its own words</summary><pre>", f);
        /* Line by line: a newline inside a text would come out as an escape, these are the layout's own. */
        for (char *line = text, *end; line && *line; line = end) {
            end = line + strcspn(line, "\n");
            char *next = *end ? end + 1 : end;
            *end = 0;
            put_html(f, line);
            fputc('\n', f);
            end = next;
        }
        fputs("</pre></details>\n", f);
        free(text);
    }
    if (again && *again) {
        fputs("<h2>How to run it again</h2>\n<pre><bdi>", f);
        put_html(f, again);
        fputs("</bdi></pre>\n", f);
    }
    fprintf(f, "<p class=\"soft\">Closer, on a terminal: <code>assay explain %lld PROMPT:TOKEN</code></p>\n",
            (long long)r->id);
}
