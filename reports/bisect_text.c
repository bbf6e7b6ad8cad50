/* A bisection for a terminal: the op, what is wrong by itself, and a line that shows how the difference grows. */
#include "reports/bisect.h"
#include "reports/escape.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 64
#define OPS_SHOWN 12

const char *bisect_place(const struct op_record *r, char *buf, size_t size)
{
    char step[64], layer[32] = "";
    if (r->step)
        snprintf(step, sizeof step, "step %d", r->step);
    else
        snprintf(step, sizeof step, "step 0 (the prompt, %d row%s)", r->rows, r->rows == 1 ? "" : "s");
    if (r->layer >= 0)
        snprintf(layer, sizeof layer, "layer %d, ", r->layer);
    snprintf(buf, size, "%s, %s%s", step, layer, r->op);
    return buf;
}

const struct op_difference *bisect_same(const struct bisect *b, int i)
{
    const struct op_record *x = b->fed_is_a ? b->grown[i].b : b->grown[i].a;
    for (int k = i < b->sames ? i : b->sames - 1; k >= 0; k--) /* in grown's order, with gaps */
        if (b->same[k].a == x)
            return &b->same[k];
    return NULL;
}

static float value_of(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static void put_visible(FILE *f, const char *text)
{
    char *seen = text_visible(text, strlen(text), 0);
    fputs(seen ? seen : "?", f);
    free(seen);
}

static void put_size(FILE *f, const struct op_difference *d)
{
    if (d->other_shape) {
        fprintf(f, "[%d,%d] against [%d,%d]", d->a->rows, d->a->cols, d->b->rows, d->b->cols);
        return;
    }
    fprintf(f, "%ld of %ld values differ", d->differ, d->elements);
    if (!d->differ)
        return;
    if (d->max_ulp == INT_MAX)
        fputs(", some not finite", f);
    else
        fprintf(f, ", at most %d ULP, relative %.3g", d->max_ulp, d->relative);
}

static void put_first(FILE *f, const struct bisect *b)
{
    char place[128];
    const struct op_difference *d = &b->grown[b->first];
    fprintf(f, "first     %s: ", bisect_place(d->b, place, sizeof place));
    put_size(f, d);
    fputc('\n', f);
    if (d->first < 0)
        return;
    uint16_t x = d->a->data[d->first], y = d->b->data[d->first];
    fprintf(f, "          row %ld column %ld: a %.9g (%04x), b %.9g (%04x)\n", d->first / d->a->cols,
            d->first % d->a->cols, (double)value_of(x), x, (double)value_of(y), y);
}

static void put_kinds(FILE *f, const struct bisect *b)
{
    struct bisect_kind k[KINDS_MAX];
    int n = bisect_kinds(b, k, KINDS_MAX);
    if (!b->could_feed) {
        fputs("itself    not looked at: neither side takes the other's values\n", f);
        return;
    }
    fprintf(f, "itself    fed %s's values, %s%s\n", b->fed_is_a ? "b" : "a", b->fed_is_a ? "a" : "b",
            n ? " gives other bytes in:" : " gives the same bytes everywhere");
    for (int i = 0; i < n; i++) {
        char place[128];
        fprintf(f, "            %-16s %d of %d places, first %s", k[i].op, k[i].wrong, k[i].all,
                bisect_place(k[i].first->b, place, sizeof place));
        fprintf(f, k[i].max_ulp == INT_MAX ? ", not finite\n" : ", at most %d ULP\n", k[i].max_ulp);
    }
    if (b->unrecorded)
        fprintf(f, "            %d op%s could not be fed: their inputs were not recorded\n", b->unrecorded,
                b->unrecorded == 1 ? "" : "s");
}

/* 0: equal, 1..8: relative difference from 1e-5 to 1, 9: not finite or of another shape. */
static int level(const struct op_difference *d)
{
    if (!op_differs(d))
        return 0;
    if (d->other_shape || !isfinite(d->relative))
        return 9;
    double at = (log10(d->relative > 0 ? d->relative : 1e-9) + 5) / 5 * 7;
    return at < 0 ? 1 : at > 7 ? 8 : 1 + (int)at;
}

static void put_growth(FILE *f, const struct bisect *b, int width)
{
    static const char *const mark[] = {"\u00b7", "\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588", "!"};
    int room = width - 10 < 20 ? 20 : width - 10, n = b->growns < room ? b->growns : room;
    fputs("growth    ", f);
    for (int i = 0; i < n; i++) {
        int most = 0, from = (int)((long)i * b->growns / n), to = (int)((long)(i + 1) * b->growns / n);
        for (int k = from; k < to; k++)
            most = level(&b->grown[k]) > most ? level(&b->grown[k]) : most;
        fputs(mark[most], f);
    }
    fprintf(f,
            "\n          %d ops in order; L2 of the difference over that of a, log scale: \u2581 1e-5 \u2588 1, "
            "\u00b7 equal\n",
            b->growns);
}

static void put_ops(FILE *f, const struct bisect *b, int all)
{
    int shown = 0, from = all ? 0 : b->first;
    fprintf(f, "\n%5s %6s  %-17s %16s %10s %10s  %s\n", "step", "layer", "op", "differ", "max ULP", "relative",
            "same inputs");
    for (int i = from; i < b->growns && (all || shown < OPS_SHOWN); i++, shown++) {
        const struct op_difference *d = &b->grown[i], *same = bisect_same(b, i);
        char layer[16] = "-", differ[40], ulp[24] = "-", relative[24] = "-";
        if (d->b->layer >= 0)
            snprintf(layer, sizeof layer, "%d", d->b->layer);
        snprintf(differ, sizeof differ, d->other_shape ? "shape" : "%ld/%ld", d->differ, d->elements);
        if (op_differs(d) && !d->other_shape)
            snprintf(ulp, sizeof ulp, d->max_ulp == INT_MAX ? "inf" : "%d", d->max_ulp);
        if (op_differs(d) && !d->other_shape)
            snprintf(relative, sizeof relative, "%.3g", d->relative);
        fprintf(f, "%5d %6s  %-17s %16s %10s %10s  %s\n", d->b->step, layer, d->b->op, differ, ulp, relative,
                !same              ? ""
                : op_differs(same) ? "differs"
                                   : "equal");
    }
    if (from + shown < b->growns)
        fprintf(f, "%5s %d more ops: --all\n", "", b->growns - from - shown);
}

static void put_emission(FILE *f, const struct bisect *b)
{
    int at = b->emission;
    fprintf(f, "emitted   token %d is the first that differs: ", at);
    if (at < b->emit_a.n)
        fprintf(f, "a %d, ", b->emit_a.ids[at]);
    else
        fputs("a has ended, ", f);
    if (at < b->emit_b.n)
        fprintf(f, "b %d\n", b->emit_b.ids[at]);
    else
        fputs("b has ended\n", f);
    if (b->first < 0)
        fputs("first     no op: logits and all before them agree; what is made of the logits differs\n", f);
}

void bisect_text(FILE *f, const struct bisect_report *r, int width, int all_ops)
{
    const struct bisect *b = r->found;
    fputs("a         ", f);
    put_visible(f, r->a);
    fputs("\nb         ", f);
    put_visible(f, r->b);
    fputs("\nmodel     ", f);
    put_visible(f, r->model);
    fputs("\nprompt    ", f);
    put_visible(f, r->battery ? r->battery : "the trace's");
    if (r->battery)
        fputc(' ', f);
    put_visible(f, r->battery ? r->prompt : "");
    fprintf(f, ", %d ids, %d step%s%s\n", r->prompt_ids, b->forceds + 1, b->forceds ? "s" : "",
            b->free_run ? ", each side on its own" : "");
    if (r->tried > 1)
        fprintf(f, "          no difference in the %d prompt%s before it\n", r->tried - 1, r->tried > 2 ? "s" : "");
    fprintf(f, "ops       %d compared", b->growns);
    if (b->alone_a || b->alone_b)
        fprintf(f, "; %d only a shows, %d only b", b->alone_a, b->alone_b);
    fputs("\n\n", f);
    if (!bisect_found(b)) {
        fputs("first     none: every op gives the same bytes\n", f);
        if (all_ops)
            put_ops(f, b, 1);
        return;
    }
    if (b->emission >= 0)
        put_emission(f, b);
    if (b->first < 0)
        return;
    put_first(f, b);
    if (!b->free_run)
        put_kinds(f, b);
    put_growth(f, b, width);
    put_ops(f, b, all_ops);
}
