/* The top of a run: banner and figures. */
#include "reports/escape.h"
#include "reports/html.h"

#include <math.h>
#include <string.h>

static long num(const json_t *o, const char *key)
{
    return (long)json_integer_value(json_object_get(o, key));
}

static double real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *tone(const struct report *r)
{
    switch (r->verdict) {
    case RV_PASS: return "v-pass";
    case RV_PASS_BY_RAZOR: return "v-razor";
    case RV_FAIL: return "v-fail";
    default: return "v-none";
    }
}

static const char *sign(const struct report *r)
{
    switch (r->verdict) {
    case RV_PASS: return "\u2713";
    case RV_PASS_BY_RAZOR: return "\u2248";
    case RV_FAIL: return "\u2717";
    default: return "\u2026";
    }
}

static void put_pair(FILE *f, const char *name, const char *text)
{
    fprintf(f, "%s <code><bdi>", name);
    put_html(f, text);
    fputs("</bdi></code>", f);
}

void html_banner(FILE *f, const struct report *r)
{
    const char *forecast = json_string_value(json_object_get(r->summary, "forecast"));
    fprintf(f, "<div class=\"banner %s\" role=\"status\"><strong><span aria-hidden=\"true\">%s</span> %s</strong>\n<p>",
            tone(r), sign(r), report_verdict(r));
    put_html(f, r->why);
    fputs("</p>\n<p class=\"about\">", f);
    put_pair(f, "model", r->model);
    put_pair(f, ", battery", r->battery_name);
    put_pair(f, ", arm", r->arm);
    fprintf(f, ", run %lld</p>\n</div>\n", (long long)r->id);
    for (int i = 0; i < r->notes; i++) {
        fputs("<p class=\"note\">", f);
        put_html(f, r->note[i]);
        fputs("</p>\n", f);
    }
    if (forecast && *forecast) {
        fputs("<p class=\"note\">A forecast: ", f);
        put_html(f, forecast);
        fputs("</p>\n", f);
    }
}

static void put_share(FILE *f, const char *name, long part, long whole, const char *more)
{
    fprintf(f, "<div%s><dt>%s</dt><dd>%ld / %ld<small>%s</small></dd></div>\n", part < whole ? " class=\"bad\"" : "",
            name, part, whole, more);
}

static void put_gap(FILE *f, const char *name, double nats, double ulp)
{
    if (isnan(nats))
        return;
    fprintf(f, "<div><dt>%s</dt><dd>%.5g nat<small>%.4g ULP</small></dd></div>\n", name, nats, ulp);
}

static void put_evidence(FILE *f, const json_t *s)
{
    const json_t *forced = json_object_get(s, "forced"), *logits = json_object_get(s, "logits");
    if (num(forced, "positions"))
        put_share(f, "forced argmax equal", num(forced, "argmax_equal"), num(forced, "positions"),
                  "the golden's own tokens fed");
    if (num(logits, "decode_rows"))
        put_share(f, "decode rows, every bit", num(logits, "decode_rows_equal"), num(logits, "decode_rows"),
                  "stored logits rows");
    if (num(logits, "prefill_rows"))
        put_share(f, "prefill rows, every bit", num(logits, "prefill_rows_equal"), num(logits, "prefill_rows"),
                  "stored logits rows");
    if (num(forced, "positions") && num(forced, "argmax_equal") < num(forced, "positions"))
        put_gap(f, "widest forced gap", real(forced, "worst_gap_nats"), real(forced, "worst_gap_ulp"));
}

void html_cards(FILE *f, const struct report *r)
{
    const json_t *s = r->summary;
    char more[120] = "identical from first to last token", power[200];
    fputs("<dl class=\"cards\">\n", f);
    if (!s) {
        put_share(f, "prompts answered", r->answered, r->prompts, "stored, not judged");
        fputs("</dl>\n", f);
        return;
    }
    put_share(f, "prompts exact", num(s, "prompts_exact"), num(s, "prompts"), more);
    if (num(s, "cascades"))
        snprintf(more, sizeof more, "%ld after a root, %ld of them judged", num(s, "cascades"),
                 num(s, "cascades") - num(s, "cascades_unjudged"));
    else
        snprintf(more, sizeof more, "at their positions");
    put_share(f, "tokens equal", num(s, "tokens_equal"), num(s, "tokens"), more);
    fprintf(f, "<div><dt>roots</dt><dd>%zu<small>first differences of a prompt</small></dd></div>\n",
            json_array_size(json_object_get(s, "roots")));
    if (json_array_size(json_object_get(s, "roots")))
        put_gap(f, "widest gap at a root", real(s, "worst_gap_nats"), real(s, "worst_gap_ulp"));
    put_evidence(f, s);
    fputs("</dl>\n", f);
    report_power(r, power, sizeof power);
    if (*power)
        fprintf(f, "<p><b>Power</b> %s</p>\n", power);
}
