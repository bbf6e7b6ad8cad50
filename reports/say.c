#include "reports/escape.h"
#include "reports/gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_MAX (1 << 22)

static int grow(struct report *r, int32_t id)
{
    if (id < r->texts)
        return 1;
    int n = (id | 4095) + 1;
    char **bigger = realloc(r->text, (size_t)n * sizeof *bigger);
    if (!bigger)
        return 0;
    memset(bigger + r->texts, 0, (size_t)(n - r->texts) * sizeof *bigger);
    r->text = bigger;
    r->texts = n;
    return 1;
}

const char *report_text(const struct report *shown, int32_t id)
{
    struct report *r = (struct report *)shown; /* only the cache changes */
    char buf[256];
    if (!r->piece || id < 0 || id >= IDS_MAX || !grow(r, id))
        return "";
    if (!r->text[id]) {
        int n = r->piece(r->piece_arg, id, buf, sizeof buf);
        r->text[id] = n < 0 ? strdup("") : text_visible(buf, n < (int)sizeof buf ? (size_t)n : sizeof buf, 1);
    }
    return r->text[id] ? r->text[id] : "";
}

static void say_id(FILE *f, const struct report *r, int32_t id)
{
    const char *text = report_text(r, id);
    if (id < 0)
        fputs("nothing", f);
    else if (*text)
        fprintf(f, "%d \"%s\"", id, text);
    else
        fprintf(f, "%d", id);
}

static void say_gap(FILE *f, const struct verdict_row *v)
{
    double shown = isnan(v->gap_nats) ? v->gap_bound_nats : v->gap_nats;
    const char *more = isnan(v->gap_nats) ? ">= " : "";
    if (isnan(shown))
        return;
    fprintf(f, ", gap %s%.6g nat", more, shown);
    if (v->ulp > 0)
        fprintf(f, " (%s%.4g ULP, razor %.4g)", more, shown / v->ulp, v->razor_nats / v->ulp);
    if (v->ties > 1)
        fprintf(f, ", %d tied", v->ties);
    if (v->jitter_nats > 0)
        fprintf(f, ", oracle's own jitter %.6g nat", v->jitter_nats);
}

char *report_sentence(const struct report *r, const struct verdict_row *v)
{
    static const char *const shape[] = {"", ", forced decode", ", forced prefill"};
    char *text = NULL, *visible;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fprintf(f, "%s: %s %stoken %d: %s%s: got ", r->battery_name, v->prompt,
            v->verdict == V_TOKENISATION ? "prompt " : "", v->position, verdict_name(v->verdict),
            v->forced >= 0 && v->forced <= 2 ? shape[v->forced] : "");
    say_id(f, r, v->arm_id);
    fputs(", oracle ", f);
    say_id(f, r, v->golden_id);
    say_gap(f, v);
    fclose(f);
    visible = text ? text_visible(text, size, 0) : NULL;
    free(text);
    return visible;
}

const char *report_verdict(const struct report *r)
{
    return r->verdict == RV_COUNT ? "NOT FINISHED" : run_verdict_name(r->verdict);
}

void report_power(const struct report *r, char *buf, size_t size)
{
    const json_t *p = json_object_get(r->summary, "power");
    const json_t *rate = json_object_get(p, "flip_rate_95");
    *buf = 0;
    if (json_is_object(p))
        snprintf(buf, size,
                 "%lld tokens judged, %lld independent roots; a flip rate of %.3g per token would have shown (95 %%)",
                 (long long)json_integer_value(json_object_get(p, "tokens_judged")),
                 (long long)json_integer_value(json_object_get(p, "roots")), json_number_value(rate));
}
