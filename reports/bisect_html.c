/* A bisection as one page: no network, no script, light and dark. */
#include "reports/bisect.h"
#include "reports/escape.h"

#include <limits.h>
#include <string.h>

extern const char page_css[];

static void put_pair(FILE *f, const char *name, const char *text)
{
    fprintf(f, "<tr><th scope=\"row\">%s<td><code><bdi>", name);
    put_html(f, text);
    fputs("</bdi></code>\n", f);
}

static void put_head(FILE *f, const struct bisect_report *r)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>bisect: ",
          f);
    put_html(f, r->model);
    fprintf(f, " - assay</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>assay bisect</h1>\n", page_css);
}

static void put_amount(FILE *f, const struct op_difference *d)
{
    if (d->other_shape)
        fprintf(f, "%d rows of %d against %d of %d", d->a->rows, d->a->cols, d->b->rows, d->b->cols);
    else if (d->max_ulp == INT_MAX)
        fprintf(f, "%ld of %ld values differ, some are not finite", d->differ, d->elements);
    else
        fprintf(f, "%ld of %ld values differ, at most %d ULP, relative %.3g", d->differ, d->elements, d->max_ulp,
                d->relative);
}

static void put_banner(FILE *f, const struct bisect_report *r)
{
    const struct bisect *b = r->found;
    char place[128];
    fprintf(f, "<div class=\"banner %s\" role=\"status\"><strong><span aria-hidden=\"true\">%s</span> ",
            bisect_found(b) ? "v-fail" : "v-pass", bisect_found(b) ? "\u2717" : "\u2713");
    if (b->first >= 0) {
        const struct op_difference *d = &b->grown[b->first];
        fprintf(f, "%s", d->b->op);
        if (d->b->layer >= 0)
            fprintf(f, ", layer %d", d->b->layer);
        fprintf(f, "</strong>\n<p>The first op that differs: %s: ", bisect_place(d->b, place, sizeof place));
        put_amount(f, d);
    } else if (b->emission >= 0) {
        fprintf(f, "emission</strong>\n<p>Every op gives the same bytes; emitted token %d differs all the same.",
                b->emission);
    } else {
        fprintf(f, "no difference</strong>\n<p>%d ops, every one gives the same bytes.", b->growns);
    }
    fputs("</p>\n</div>\n<div class=\"scroll\"><table class=\"facts\"><tbody>\n", f);
    put_pair(f, "a", r->a);
    put_pair(f, "b", r->b);
    put_pair(f, "model", r->model);
    put_pair(f, "battery", r->battery ? r->battery : "the trace's own ids");
    if (r->battery)
        put_pair(f, "prompt", r->prompt);
    fprintf(f, "<tr><th scope=\"row\">ids<td>%d of the prompt, %d fed after it; %d prompt%s looked at\n", r->prompt_ids,
            b->forceds, r->tried, r->tried == 1 ? "" : "s");
    fputs("</tbody></table></div>\n", f);
}

static void put_kinds(FILE *f, const struct bisect *b)
{
    struct bisect_kind k[64];
    int n = bisect_kinds(b, k, 64);
    if (!b->could_feed || b->first < 0)
        return;
    fprintf(
        f,
        "<h2>Other bytes for the same inputs</h2>\n<p class=\"soft\">Each op of %s was fed what the ops of %s gave, "
        "so that only what is itself different shows here.</p>\n",
        b->fed_is_a ? "a" : "b", b->fed_is_a ? "b" : "a");
    if (!n) {
        fputs("<p>None.</p>\n", f);
        return;
    }
    fputs("<div class=\"scroll\"><table><thead><tr><th>op<th class=\"n\">places<th>first<th>there</thead>\n<tbody>\n",
          f);
    for (int i = 0; i < n; i++) {
        char place[128];
        bisect_place(k[i].first->b, place, sizeof place);
        *strrchr(place, ',') = 0; /* the op's name stands in the first column */
        fprintf(f, "<tr><td><b>%s</b><td class=\"n\">%d of %d<td>%s<td>", k[i].op, k[i].wrong, k[i].all, place);
        put_amount(f, k[i].first);
        fputc('\n', f);
    }
    fputs("</tbody></table></div>\n", f);
    if (b->unrecorded)
        fprintf(f, "<p class=\"note\">%d ops could not be fed: their inputs were not recorded.</p>\n", b->unrecorded);
}

static void put_op(FILE *f, const struct bisect *b, int i)
{
    const struct op_difference *d = &b->grown[i], *same = bisect_same(b, i);
    fprintf(f, "<tr><td class=\"n\">%d<td class=\"n\">", d->b->step);
    if (d->b->layer >= 0)
        fprintf(f, "%d", d->b->layer);
    fprintf(f, "<td>%s<td class=\"n\">", d->b->op);
    if (d->other_shape)
        fputs("shape<td class=\"n\"><td class=\"n\">", f);
    else if (!d->differ)
        fprintf(f, "0 / %ld<td class=\"n\"><td class=\"n\">", d->elements);
    else if (d->max_ulp == INT_MAX)
        fprintf(f, "%ld / %ld<td class=\"n\">not finite<td class=\"n\">", d->differ, d->elements);
    else
        fprintf(f, "%ld / %ld<td class=\"n\">%d<td class=\"n\">%.3g", d->differ, d->elements, d->max_ulp, d->relative);
    fprintf(f, "<td>%s\n", !same ? "" : op_differs(same) ? "<span class=\"tag far\">differs</span>" : "equal");
}

static void put_ops(FILE *f, const struct bisect *b)
{
    fprintf(f,
            "<details><summary>All %d ops</summary>\n<div class=\"scroll\"><table><thead><tr><th class=\"n\">step"
            "<th class=\"n\">layer<th>op<th class=\"n\">differ<th class=\"n\">max ULP<th class=\"n\">relative"
            "<th>same inputs</thead>\n<tbody>\n",
            b->growns);
    for (int i = 0; i < b->growns; i++)
        put_op(f, b, i);
    fputs("</tbody></table></div>\n</details>\n", f);
}

void bisect_html(FILE *f, const struct bisect_report *r)
{
    put_head(f, r);
    put_banner(f, r);
    put_kinds(f, r->found);
    fputs("<h2>How the difference grows</h2>\n<div class=\"scroll\">\n", f);
    bisect_svg(f, r);
    fputs("</div>\n", f);
    put_ops(f, r->found);
    fputs("<h2>Again</h2>\n<pre>", f);
    put_html(f, r->again);
    fputs("</pre>\n</main>\n</body>\n</html>\n", f);
}
