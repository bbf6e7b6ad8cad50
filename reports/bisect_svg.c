/* How a difference grows from op to op: three panels over the same axis of ops, in their order of execution. */
#include "reports/bisect.h"
#include "reports/escape.h"

#include <limits.h>
#include <math.h>

enum { LEFT = 62, TOP = 30, WIDTH = 880, PANEL = 118, GAP = 34, RIGHT = 18, DOTS_MAX = 1500 };

struct panel {
    const char *title;
    double lo, hi; /* of the axis: powers of ten, or per cent */
    int log;
    double (*value)(const struct op_difference *d); /* NaN: off the scale */
};

static double relative(const struct op_difference *d)
{
    return d->other_shape ? NAN : d->relative;
}

static double ulps(const struct op_difference *d)
{
    return d->other_shape || d->max_ulp == INT_MAX ? NAN : d->max_ulp;
}

static double share(const struct op_difference *d)
{
    return d->other_shape ? NAN : 100.0 * (double)d->differ / (double)(d->elements ? d->elements : 1);
}

static const struct panel panels[] = {
    {"L2 of the difference over that of a", -5, 1, 1, relative},
    {"largest distance in ULP of bf16", 0, 5, 1, ulps},
    {"share of values that differ, %", 0, 100, 0, share},
};
#define PANELS ((int)(sizeof panels / sizeof *panels))

static double x_of(const struct bisect *b, int i)
{
    return LEFT + WIDTH * (i + 0.5) / b->growns;
}

/* Equal is the floor, what is not finite the ceiling. */
static double y_of(const struct panel *p, const struct op_difference *d, int top)
{
    double v = p->value(d), at;
    if (!op_differs(d))
        return top + PANEL;
    if (!isfinite(v))
        return top;
    at = ((p->log ? log10(v > 0 ? v : 1e-9) : v) - p->lo) / (p->hi - p->lo);
    return top + PANEL * (1 - (at < 0.03 ? 0.03 : at > 1 ? 1 : at));
}

static void put_axis(FILE *f, const struct panel *p, int top)
{
    int lines = p->log ? (int)(p->hi - p->lo) : 4;
    fprintf(f, "<text class=\"b-head\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT, top - 8, p->title);
    for (int i = 0; i <= lines; i++) {
        double y = top + PANEL - (double)PANEL * i / lines, at = p->lo + (p->hi - p->lo) * i / lines;
        fprintf(f,
                "<path class=\"b-grid\" d=\"M%d %.1fh%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, y, WIDTH, LEFT - 7, y + 4, p->log ? pow(10, at) : at);
    }
}

static void put_line(FILE *f, const struct bisect *b, const struct panel *p, int top)
{
    fputs("<path class=\"b-line\" d=\"", f);
    for (int i = 0; i < b->growns; i++)
        fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x_of(b, i), y_of(p, &b->grown[i], top));
    fputs("\"/>\n", f);
    for (int i = 0; i < b->growns && b->growns <= DOTS_MAX; i++) {
        const struct op_difference *d = &b->grown[i];
        char place[128];
        if (!op_differs(d))
            continue;
        fprintf(f, "<circle class=\"b-dot%s\" r=\"%s\" cx=\"%.1f\" cy=\"%.1f\"><title>%s: %ld of %ld differ",
                i == b->first ? " b-first" : "", i == b->first ? "5" : "2.2", x_of(b, i), y_of(p, d, top),
                bisect_place(d->b, place, sizeof place), d->differ, d->elements);
        if (d->other_shape || d->max_ulp == INT_MAX)
            fputs(d->other_shape ? ", other shape</title></circle>\n" : ", not finite</title></circle>\n", f);
        else
            fprintf(f, ", at most %d ULP, relative %.3g</title></circle>\n", d->max_ulp, d->relative);
    }
}

/* Lines between steps, names of steps; thinner ones between layers while there is room for them. */
static void put_steps(FILE *f, const struct bisect *b, int bottom)
{
    double last = -100;
    for (int i = 0; i < b->growns; i++) {
        const struct op_record *x = b->grown[i].b, *before = i ? b->grown[i - 1].b : NULL;
        double at = LEFT + (double)WIDTH * i / b->growns;
        if (before && before->step == x->step) {
            if (before->layer != x->layer && WIDTH / b->growns >= 2)
                fprintf(f, "<path class=\"b-layer\" d=\"M%.1f %dV%d\"/>\n", at, TOP, bottom);
            continue;
        }
        fprintf(f, "<path class=\"b-step\" d=\"M%.1f %dV%d\"/>\n", at, TOP, bottom + 6);
        if (at - last > 46)
            fprintf(f, "<text x=\"%.1f\" y=\"%d\">%s%.0d</text>\n", last = at, bottom + 20,
                    x->step ? "step " : "the prompt", x->step);
    }
}

/* A mark below the axis for each op that gives other bytes for the same inputs. */
static void put_wrong(FILE *f, const struct bisect *b, int bottom)
{
    int n = 0;
    for (int i = 0; i < b->growns; i++) {
        const struct op_difference *d = bisect_same(b, i);
        char place[128];
        if (!d || !op_differs(d))
            continue;
        n++;
        fprintf(f,
                "<path class=\"b-wrong\" d=\"M%.1f %dl3.5 5.5l-3.5 5.5l-3.5-5.5z\"><title>%s: wrong by itself</title>"
                "</path>\n",
                x_of(b, i), bottom + 27, bisect_place(d->b, place, sizeof place));
    }
    if (b->could_feed && b->first >= 0)
        fprintf(
            f,
            "<text x=\"%d\" y=\"%d\"><tspan class=\"b-wrong\">\u25c6</tspan> other bytes for the same inputs: %d op%s"
            "</text>\n",
            LEFT, bottom + 58, n, n == 1 ? "" : "s");
}

void bisect_svg(FILE *f, const struct bisect_report *r)
{
    int bottom = TOP + PANELS * PANEL + (PANELS - 1) * GAP, height = bottom + 68;
    fprintf(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"How the difference "
        "grows from op to op\">\n<style>.b-back{fill:#fff}svg text{font:11px system-ui,'DejaVu Sans',sans-serif;"
        "fill:#57606a}svg text.b-head{fill:#1b1f24;font-weight:600}.b-grid{stroke:#d5dae1}.b-layer{stroke:#e4e8ed}"
        ".b-step{stroke:#8a93a0}.b-line{fill:none;stroke:#0b4f9e;stroke-width:1.4}.b-dot{fill:#0b4f9e}"
        ".b-first{fill:#a40e26}svg .b-wrong{fill:#a40e26}\n"
        "@media(prefers-color-scheme:dark){.b-back{fill:#0f1318}svg text{fill:#a3adb9}svg text.b-head{fill:#e8ecf1}"
        ".b-grid{stroke:#2a323c}.b-layer{stroke:#20262e}.b-step{stroke:#6b7685}.b-line{stroke:#7db4ff}"
        ".b-dot{fill:#7db4ff}.b-first{fill:#ffa3ad}svg .b-wrong{fill:#ffa3ad}}</style>\n"
        "<rect class=\"b-back\" width=\"100%%\" height=\"100%%\" rx=\"6\"/>\n",
        LEFT + WIDTH + RIGHT, height);
    put_steps(f, r->found, bottom);
    for (int i = 0; i < PANELS; i++) {
        int top = TOP + i * (PANEL + GAP);
        put_axis(f, &panels[i], top);
        put_line(f, r->found, &panels[i], top);
    }
    put_wrong(f, r->found, bottom);
    fputs("</svg>\n", f);
}
