/* html - one page: no network, light and dark, readable without JavaScript and better with it */
#include "reports/escape.h"
#include "reports/form.h"
#include "reports/html.h"

#include "harness/base/sha256.h"

#include <string.h>

extern const char page_css[], page_js[];

static void put_base64(FILE *f, const uint8_t *data, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = (uint32_t)data[i] << 16;
        word |= i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0;
        word |= i + 2 < n ? data[i + 2] : 0;
        fputc(digit[word >> 18], f);
        fputc(digit[word >> 12 & 63], f);
        fputc(i + 1 < n ? digit[word >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digit[word & 63] : '=', f);
    }
}

/* The page's policy lets its own script run and nothing else, should a text ever get past the escapes. */
static void put_head(FILE *f, const struct report *const *runs, int n)
{
    uint8_t hash[SHA256_BYTES];
    sha256_of(page_js, strlen(page_js), hash);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "base-uri 'none'; form-action 'none'; script-src 'sha256-",
          f);
    put_base64(f, hash, sizeof hash);
    fputs("'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          f);
    if (n == 1) {
        fprintf(f, "%s: ", report_verdict(runs[0]));
        put_html(f, runs[0]->model);
        fputs(", ", f);
        put_html(f, runs[0]->battery_name);
    } else {
        fprintf(f, "%d runs", n);
    }
    fprintf(f, " - assay report</title>\n<style>\n%s</style>\n</head>\n<body>\n", page_css);
}

static void put_overview_row(FILE *f, const struct report *r)
{
    const json_t *s = r->summary;
    fprintf(f, "<tr><td><a href=\"#run-%lld\">%s</a><td class=\"n\">%lld<td><bdi>", (long long)r->id, report_verdict(r),
            (long long)r->id);
    put_html(f, r->model);
    fputs("</bdi><td><bdi>", f);
    put_html(f, r->battery_name);
    fputs("</bdi><td><code><bdi>", f);
    put_html(f, r->arm);
    if (s)
        fprintf(f, "</bdi></code><td class=\"n\">%lld / %lld<td class=\"n\">%lld / %lld<td class=\"n\">%zu\n",
                (long long)json_integer_value(json_object_get(s, "prompts_exact")),
                (long long)json_integer_value(json_object_get(s, "prompts")),
                (long long)json_integer_value(json_object_get(s, "tokens_equal")),
                (long long)json_integer_value(json_object_get(s, "tokens")),
                json_array_size(json_object_get(s, "roots")));
    else
        fputs("</bdi></code><td class=\"n\">-<td class=\"n\">-<td class=\"n\">-\n", f);
}

static void put_overview(FILE *f, const struct report *const *runs, int n)
{
    fputs("<nav class=\"scroll\"><table><thead><tr><th>verdict<th class=\"n\">run<th>model<th>battery<th>arm"
          "<th class=\"n\">prompts exact<th class=\"n\">tokens equal<th class=\"n\">roots</thead>\n<tbody>\n",
          f);
    for (int i = 0; i < n; i++)
        put_overview_row(f, runs[i]);
    fputs("</tbody></table></nav>\n", f);
}

static int put_run(FILE *f, const struct report *r)
{
    fprintf(f, "<section id=\"run-%lld\">\n", (long long)r->id);
    html_banner(f, r);
    html_cards(f, r);
    html_differences(f, r);
    html_charts(f, r);
    int ok = html_prompts(f, r);
    html_provenance(f, r);
    fputs("</section>\n", f);
    return ok;
}

static int write(FILE *f, const struct report *const *runs, int n, struct err *e)
{
    int ok = 1;
    put_head(f, runs, n);
    fputs("<h1>assay report</h1>\n", f);
    if (n > 1)
        put_overview(f, runs, n);
    fputs("<main>\n", f);
    for (int i = 0; i < n && ok; i++)
        ok = put_run(f, runs[i]);
    fprintf(f,
            "</main>\n<footer>A root is the first token of a prompt that differs; what differs after it is a cascade. "
            "The razor tells a tie that the oracle itself cannot separate from a divergence: min(cap, max(n ULP, the "
            "oracle's own jitter)).</footer>\n"
            "<aside id=\"panel\" aria-label=\"token\" aria-live=\"polite\" hidden><button type=\"button\">Close"
            "</button><div class=\"inside\"></div></aside>\n<script>%s</script>\n</body>\n</html>\n",
            page_js);
    return ok ? OK : FAIL(e, E_NOMEM, "out of memory for the report");
}

FORM(html) = {.name = "html", .summary = "one page that needs no network", .ending = ".html", .write = write};
