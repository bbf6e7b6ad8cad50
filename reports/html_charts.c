/* Drawings: the gap histogram on a log axis with the razor, and gaps over positions. Inline SVG, no script. */
#include "reports/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH   640
#define HEIGHT  250
#define LEFT    46
#define RIGHT   12
#define TOP     18
#define BOTTOM  40
#define ZERO    34 /* width of the place for gaps of exactly 0 */
#define OCTAVES 40

/* A log axis of whole octaves, with a place of its own for 0. */
struct axis {
    int low, high;       /* exponents of two */
    double from, length; /* of the logarithmic part, in units of the drawing */
};

struct chart {
    struct axis gap;
    double razor_low, razor_high; /* nats; NaN: not known */
    int oracle[OCTAVES + 1];      /* bin 0: exactly 0; bin 1+k: (2^(low+k-1), 2^(low+k)] */
    int arm[OCTAVES + 1][V_COUNT];
    int last_position, points;
};

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double along(const struct axis *a, double nats)
{
    double octave = clamp(log2(nats), a->low, a->high);
    return a->from + a->length * (octave - a->low) / (a->high - a->low);
}

static int bin_of(const struct axis *a, double nats)
{
    return nats <= 0 ? 0 : 1 + (int)clamp(ceil(log2(nats)) - a->low, 0, a->high - a->low);
}

static double shown_gap(const struct verdict_row *v)
{
    return isnan(v->gap_nats) ? v->gap_bound_nats : v->gap_nats;
}

static int is_point(const struct verdict_row *v)
{
    return v->verdict != V_EQUAL && v->verdict != V_TOKENISATION && isfinite(shown_gap(v));
}

static void widen(double v, double *least, double *most)
{
    if (v > 0 && isfinite(v)) {
        *least = fmin(*least, v);
        *most = fmax(*most, v);
    }
}

static void measure(const struct report *r, struct chart *c)
{
    double least = 0.0625, most = 4;
    c->razor_low = c->razor_high = NAN;
    for (int i = 0; i < r->rows; i++)
        widen(shown_gap(&r->row[i]), &least, &most);
    for (int i = 0; i < r->prompts; i++)
        for (int k = 0; k < r->prompt[i].positions; k++) {
            const struct report_position *at = &r->prompt[i].position[k];
            widen(at->margin_nats, &least, &most);
            c->razor_low = fmin(c->razor_low, at->row.razor_nats);
            c->razor_high = fmax(c->razor_high, at->row.razor_nats);
            c->last_position = k > c->last_position ? k : c->last_position;
        }
    c->gap.low = (int)clamp(floor(log2(least)) - 1, -24, -4);
    c->gap.high = (int)clamp(ceil(log2(most)), 2, 8);
}

static void count(const struct report *r, struct chart *c)
{
    for (int i = 0; i < r->prompts; i++)
        for (int k = 0; k < r->prompt[i].positions; k++)
            if (!isnan(r->prompt[i].position[k].margin_nats))
                c->oracle[bin_of(&c->gap, r->prompt[i].position[k].margin_nats)]++;
    for (int i = 0; i < r->rows; i++)
        if (is_point(&r->row[i])) {
            c->arm[bin_of(&c->gap, shown_gap(&r->row[i]))][r->row[i].verdict]++;
            c->points++;
        }
}

static int arm_count(const struct chart *c, int bin)
{
    int n = 0;
    for (int v = 0; v < V_COUNT; v++)
        n += c->arm[bin][v];
    return n;
}

static int tallest(const struct chart *c)
{
    int most = 1;
    for (int bin = 0; bin <= c->gap.high - c->gap.low + 1; bin++) {
        most = c->oracle[bin] > most ? c->oracle[bin] : most;
        most = arm_count(c, bin) > most ? arm_count(c, bin) : most;
    }
    return most;
}

/* Counts of 1 and of thousands must both be seen: heights grow with the logarithm. */
static double height_of(int n, int most)
{
    return n ? (HEIGHT - TOP - BOTTOM) * (log10(n) + 0.35) / (log10(most) + 0.35) : 0;
}

static void open_drawing(FILE *f, const char *label)
{
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT, label);
}

static void text_at(FILE *f, double x, double y, const char *anchor, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

static int has_razor(const struct chart *c)
{
    return c->razor_high > 0 && isfinite(c->razor_high);
}

static void put_gap_labels(FILE *f, const struct chart *c, int vertical)
{
    char text[24];
    text_at(f, vertical ? LEFT - 6 : LEFT + ZERO / 2.0, vertical ? HEIGHT - BOTTOM - 5 : HEIGHT - BOTTOM + 15,
            vertical ? "end" : "middle", "0");
    for (double nats = 1e-7; nats < 1000; nats *= 10) {
        if (log2(nats) < c->gap.low || log2(nats) > c->gap.high)
            continue;
        double at = along(&c->gap, nats);
        snprintf(text, sizeof text, "%g", nats);
        if (vertical)
            fprintf(f, "<path class=\"axis\" d=\"M%d %.1fh-4\"/>\n", LEFT, at);
        else
            fprintf(f, "<path class=\"axis\" d=\"M%.1f %dv4\"/>\n", at, HEIGHT - BOTTOM);
        text_at(f, vertical ? LEFT - 6 : at, vertical ? at + 4 : HEIGHT - BOTTOM + 15, vertical ? "end" : "middle",
                text);
    }
}

static void put_stack(FILE *f, const struct chart *c, int bin, double x, double width, int most)
{
    double full = height_of(arm_count(c, bin), most), y = HEIGHT - BOTTOM;
    for (int v = 0; v < V_COUNT; v++) {
        if (!c->arm[bin][v])
            continue;
        double part = full * c->arm[bin][v] / arm_count(c, bin);
        y -= part;
        fprintf(f,
                "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%d %s</title></rect>\n",
                html_mark((enum verdict)v), x, y, width, part, c->arm[bin][v], verdict_name((enum verdict)v));
    }
}

static void put_bars(FILE *f, const struct chart *c)
{
    int most = tallest(c), bins = c->gap.high - c->gap.low + 1;
    double octave = c->gap.length / (c->gap.high - c->gap.low);
    for (int bin = 0; bin <= bins; bin++) {
        /* The first bin holds all that is smaller: it has no place of its own left of the axis' low end. */
        double width = bin ? octave : ZERO - 8;
        double x = bin ? c->gap.from + octave * (bin - 2) : LEFT + 4;
        if (bin == 1)
            x = c->gap.from - 6, width = 6;
        double h = height_of(c->oracle[bin], most);
        if (c->oracle[bin])
            fprintf(f,
                    "<rect class=\"oracle\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%d tokens"
                    "</title></rect>\n",
                    x + 0.5, HEIGHT - BOTTOM - h, width - 1, h, c->oracle[bin]);
        put_stack(f, c, bin, x + width * 0.25, width * 0.5, most);
    }
    for (int n = 1; n <= most; n *= 10) {
        char text[24];
        snprintf(text, sizeof text, "%d", n);
        text_at(f, LEFT - 6, HEIGHT - BOTTOM - height_of(n, most) + 4, "end", text);
    }
}

static void put_razor_upright(FILE *f, const struct chart *c)
{
    if (!has_razor(c))
        return;
    double low = along(&c->gap, c->razor_low), high = along(&c->gap, c->razor_high);
    fprintf(f, "<rect class=\"razor\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", low, TOP,
            fmax(high - low, 1), HEIGHT - TOP - BOTTOM);
}

static void put_razor_edges(FILE *f, const struct chart *c)
{
    if (!has_razor(c))
        return;
    double high = along(&c->gap, c->razor_high), low = along(&c->gap, c->razor_low);
    fprintf(f, "<path class=\"edge\" d=\"M%.1f %dV%dM%.1f %dV%d\"/>\n", high, TOP - 4, HEIGHT - BOTTOM, low, TOP - 4,
            HEIGHT - BOTTOM);
    fprintf(f, "<text class=\"edge\" x=\"%.1f\" y=\"%d\">%srazor</text>\n", high + 4, TOP + 4,
            low < high ? "widest " : "");
}

static void say_razor(FILE *f, const struct chart *c)
{
    if (!has_razor(c))
        fputs("The razor is not known.", f);
    else if (c->razor_low < c->razor_high)
        fprintf(f, "The razor lies between %.4g and %.4g nat, token by token (shaded).", c->razor_low, c->razor_high);
    else
        fprintf(f, "The razor is %.4g nat.", c->razor_high);
}

static void put_histogram(FILE *f, const struct chart *c)
{
    fputs("<figure><figcaption><b>Gaps of what differs</b> (coloured), before the oracle's own lead over its runner-up "
          "at "
          "every token (grey). ",
          f);
    say_razor(f, c);
    fputs(c->points ? "</figcaption>\n" : " Nothing differs.</figcaption>\n", f);
    open_drawing(f, "histogram of gaps in nats on a logarithmic axis, with the razor");
    put_razor_upright(f, c);
    put_bars(f, c);
    put_razor_edges(f, c);
    fprintf(f, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
    put_gap_labels(f, c, 0);
    text_at(f, WIDTH - RIGHT, HEIGHT - 6, "end", "gap, nat");
    text_at(f, LEFT - 40, TOP - 6, "start", "tokens");
    fputs("</svg></figure>\n", f);
}

/* A mark for each difference; marks that would hide one another are drawn once. */
static void put_points(FILE *f, const struct report *r, const struct chart *c)
{
    static const int columns = WIDTH / 4, lines = HEIGHT / 4;
    unsigned short *taken = calloc((size_t)(columns * lines), sizeof *taken);
    for (int i = 0; i < r->rows && taken; i++) {
        const struct verdict_row *v = &r->row[i];
        double nats = shown_gap(v);
        if (!is_point(v))
            continue;
        double x =
            LEFT + 10 + (WIDTH - RIGHT - LEFT - 20.0) * v->position / (c->last_position > 0 ? c->last_position : 1);
        double y = nats > 0 ? along(&c->gap, nats) : HEIGHT - BOTTOM - 10.0;
        unsigned short *cell = &taken[(int)y / 4 * columns + (int)x / 4], mark = (unsigned short)(1u << v->verdict);
        if (*cell & mark)
            continue;
        *cell |= mark;
        if (v->razor_nats > 0 && isfinite(v->razor_nats)) {
            double own = along(&c->gap, v->razor_nats);
            fprintf(f, "<path class=\"reach\" d=\"M%.1f %.1fV%.1f\"/><path class=\"own\" d=\"M%.1f %.1fh8\"/>", x, y,
                    own, x - 4, own);
        }
        if (v->forced)
            fprintf(f, "<circle class=\"hollow %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", html_mark(v->verdict), x, y);
        else
            fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fl5 5 -5 5 -5 -5z\"/>\n", html_mark(v->verdict), x, y - 5);
    }
    free(taken);
}

static void put_scatter(FILE *f, const struct report *r, const struct chart *c)
{
    char last[16];
    struct chart up = *c;
    up.gap.from = HEIGHT - BOTTOM - 22;
    up.gap.length = -(HEIGHT - BOTTOM - 22 - TOP);
    fputs("<figure><figcaption><b>Gap over position</b>: \u25c6 free run, \u25cb forced run, \u2013 the razor at that "
          "token. "
          "Gaps that grow with the position speak for an error that adds up.</figcaption>\n",
          f);
    open_drawing(f, "gaps in nats over the position of the token");
    if (has_razor(c)) {
        double low = along(&up.gap, c->razor_low), high = along(&up.gap, c->razor_high);
        fprintf(f,
                "<rect class=\"razor\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n<path class=\"edge\" "
                "d=\"M%d %.1fH%dM%d %.1fH%d\"/>\n",
                LEFT, high, WIDTH - RIGHT - LEFT, fmax(low - high, 1), LEFT, high, WIDTH - RIGHT, LEFT, low,
                WIDTH - RIGHT);
    }
    put_points(f, r, &up);
    fprintf(f, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    put_gap_labels(f, &up, 1);
    snprintf(last, sizeof last, "%d", c->last_position);
    text_at(f, LEFT + 10, HEIGHT - BOTTOM + 15, "middle", "0");
    text_at(f, WIDTH - RIGHT - 10, HEIGHT - BOTTOM + 15, "middle", last);
    text_at(f, (LEFT + WIDTH) / 2.0, HEIGHT - 6, "middle", "token of the prompt's answer");
    text_at(f, LEFT - 40, TOP - 6, "start", "nat");
    fputs("</svg></figure>\n", f);
}

void html_charts(FILE *f, const struct report *r)
{
    struct chart c = {.gap = {.from = LEFT + ZERO + 8, .length = WIDTH - RIGHT - LEFT - ZERO - 8}};
    measure(r, &c);
    count(r, &c);
    if (!r->summary)
        return;
    fputs("<h2>Gaps</h2>\n<div class=\"charts\">\n", f);
    put_histogram(f, &c);
    if (c.points)
        put_scatter(f, r, &c);
    fputs("</div>\n", f);
}
