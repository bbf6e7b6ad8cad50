/* Draws a launch: a column is a column tile, downwards is k, a colour is a CTA, a number is the place in the sum. */
#include "tools/plan_view.h"

#include "kernels/plan_compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 74, TOP = 112, HEIGHT = 520, WIDEST = 1180, TILES_MAX = 512 };

struct drawing {
    FILE *f;
    const struct gemm_launch *l;
    int tiles;     /* drawn */
    double column; /* width */
};

/* Neighbouring CTAs get far hues: the golden angle. Middling lightness reads on white and on black. */
static unsigned colour(int cta)
{
    double hue = fmod(cta * 137.50776, 360) / 60, light = cta % 3 == 0 ? 0.74 : cta % 3 == 1 ? 0.80 : 0.68;
    double chroma = (1 - fabs(2 * light - 1)) * 0.60, x = chroma * (1 - fabs(fmod(hue, 2) - 1)),
           low = light - chroma / 2;
    static const int order[6][3] = {{2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {0, 1, 2}, {1, 0, 2}, {2, 0, 1}};
    unsigned rgb = 0;
    for (int i = 0; i < 3; i++) {
        int part = order[(int)hue][i];
        rgb = rgb << 8 | (unsigned)lround(255 * (low + (part == 2 ? chroma : part == 1 ? x : 0)));
    }
    return rgb;
}

static void draw_slice(const struct drawing *d, int tile, const struct gemm_slice *s, int place, int count)
{
    double x = LEFT + tile * d->column, scale = (double)HEIGHT / d->l->T;
    double y = TOP + s->t0 * scale, h = (s->t1 - s->t0) * scale, gap = d->column > 10 ? 2 : d->column > 5 ? 1 : 0.4;
    fprintf(
        d->f,
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"%s\" fill=\"#%06x\"><title>tile %d, CTA %d, "
        "k %d..%d, number %d of %d in the sum%s</title></rect>\n",
        x + gap / 2, y + 0.5, d->column - gap, h > 1.6 ? h - 1 : h, d->column > 10 && h > 8 ? "2" : "0", colour(s->cta),
        tile, s->cta, s->t0 * d->l->tk, s->t1 * d->l->tk - 1, place, count, place == count ? ", writes" : "");
    double size = fmin(11, fmin(h * 0.62, d->column / 4.6));
    if (size >= 5.5 && count > 1)
        fprintf(d->f,
                "<text class=\"on\" x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\">%d&#183;<tspan font-weight=\"700\">%d"
                "</tspan></text>\n",
                x + d->column / 2, y + h / 2 + size * 0.35, size, s->cta, place);
    else if (size >= 5.5)
        fprintf(d->f, "<text class=\"on\" x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\">%d</text>\n", x + d->column / 2,
                y + h / 2 + size * 0.35, size, s->cta);
    if (place == count && count > 1)
        fprintf(d->f, "<rect class=\"write\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"3\"/>\n", x + gap / 2, TOP - 5,
                d->column - gap);
}

static void draw_axis(const struct drawing *d)
{
    int k = d->l->T * d->l->tk, right = LEFT + (int)(d->column * d->tiles);
    for (int i = 0; i <= 4; i++) {
        double y = TOP + HEIGHT * i / 4.0;
        fprintf(d->f, "<text class=\"axis\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", LEFT - 8, y + 4,
                (int)((long)k * i / 4));
    }
    fprintf(d->f, "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"end\" font-style=\"italic\">k</text>\n",
            LEFT - 8, TOP - 14);
    int step = (int)ceil(44 / d->column);
    for (int t = 0; t < d->tiles; t += step)
        fprintf(d->f, "<text class=\"axis\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                LEFT + (t + 0.5) * d->column, TOP + HEIGHT + 18, t);
    fprintf(d->f,
            "<text class=\"axis\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">tile (row block x %d + column tile of %d "
            "columns)</text>\n",
            (LEFT + right) / 2.0, TOP + HEIGHT + 38, d->l->NT, d->l->tn);
    for (int t = d->l->NT; t < d->tiles; t += d->l->NT)
        fprintf(d->f, "<line class=\"block\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\"/>\n", LEFT + t * d->column,
                LEFT + t * d->column, TOP - 8, TOP + HEIGHT + 4);
}

static void draw_head(const struct drawing *d, const struct gemm_plan *p, const struct gpu_profile *g, int index,
                      int width)
{
    char title[256];
    const struct gemm_launch *l = d->l;
    plan_title(p, title, sizeof title);
    fprintf(d->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n"
            "<title>%s on %s</title>\n"
            "<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#1c2128}.page{fill:#ffffff}"
            ".axis,.small{font-size:12px;fill:#57606a}.head{font-size:17px;font-weight:600}"
            ".on{fill:#10141a;text-anchor:middle}.write{fill:#1c2128}.block{stroke:#1c2128;stroke-dasharray:3 3}\n"
            "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.axis,.small{fill:#9aa4af}"
            ".on{fill:#10141a}.write{fill:#e6edf3}.block{stroke:#e6edf3}}</style>\n"
            "<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n",
            width, TOP + HEIGHT + 108, width, TOP + HEIGHT + 108, title, g->name);
    fprintf(d->f, "<text class=\"head\" x=\"20\" y=\"30\">%s</text>\n", title);
    fprintf(
        d->f,
        "<text class=\"small\" x=\"20\" y=\"52\">%s (%s), launch %d of %d: tile k %d x n %d, %d threads; grid %d CTAs, "
        "%d with work; %d k-tiles a CTA</text>\n",
        g->name, evidence_name(g->evidence), index + 1, p->launches, l->tk, l->tn, l->threads, l->grid,
        plan_working_ctas(l), l->iters);
    fprintf(d->f, "<text class=\"small\" x=\"20\" y=\"72\">A colour is a CTA. %s</text>\n",
            plan_is_atomic(p, l)
                ? "Numbers: CTA&#183;slice; atomic adds come in any order."
                : "Numbers: CTA&#183;place in the sum, from the bottom up; the bar on top marks the slice "
                  "that writes.");
}

/* What the figures rest on, in as many lines as the width needs. */
static void draw_evidence(FILE *f, const struct gpu_profile *g, int width)
{
    char text[400];
    size_t most = (size_t)(width - 40) / 7;
    snprintf(text, sizeof text, "Evidence: %s: %s", evidence_name(g->evidence), g->source);
    const char *at = text;
    for (int y = TOP + HEIGHT + 62; *at; y += 17) {
        size_t n = strlen(at), cut = n;
        if (n > most)
            for (cut = most; cut > 1 && at[cut] != ' ';)
                cut--;
        fprintf(f, "<text class=\"small\" x=\"20\" y=\"%d\">%.*s</text>\n", y, (int)cut, at);
        at += cut;
        while (*at == ' ')
            at++;
    }
}

int plan_draw(const char *path, const struct gemm_plan *p, const struct gpu_profile *g, int index, struct err *e)
{
    struct drawing d = {.l = &p->launch[index]};
    int tiles = d.l->par * d.l->NT;
    d.tiles = tiles < TILES_MAX ? tiles : TILES_MAX;
    d.column = fmin(92, (double)WIDEST / d.tiles);
    int right = LEFT + (int)(d.column * d.tiles), width = right + 24 > 860 ? right + 24 : 860;
    if (!(d.f = fopen(path, "w")))
        return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    draw_head(&d, p, g, index, width);
    for (int t = 0; t < d.tiles; t++) {
        struct gemm_slice s[VIEW_SLICES_MAX];
        int n = plan_slices(d.l, t, s, VIEW_SLICES_MAX);
        for (int i = 0; i < n && i < VIEW_SLICES_MAX; i++)
            draw_slice(&d, t, &s[i], i + 1, n);
    }
    draw_axis(&d);
    if (d.tiles < tiles)
        fprintf(d.f, "<text class=\"small\" x=\"20\" y=\"%d\">The first %d of %d tiles are drawn.</text>\n",
                TOP + HEIGHT + 66, d.tiles, tiles);
    else
        draw_evidence(d.f, g, width);
    fputs("</svg>\n", d.f);
    int bad = ferror(d.f);
    if (fclose(d.f) || bad)
        return FAIL(e, E_IO, "%s: could not be written", path);
    return OK;
}
