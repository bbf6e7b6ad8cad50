#include "tools/growth_svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 64, TOP = 56, WIDTH = 520, HEIGHT = 330, RIGHT = 170 };

static const struct line {
    const char *key, *name, *unit, *colour;
    double scale; /* to the unit */
} lines[] = {
    {"store_bytes", "store", "MiB", "#2a6fbb", 1.0 / (1 << 20)},
    {"memory_bytes", "memory", "MiB", "#b2452f", 1.0 / (1 << 20)},
    {"seconds", "time", "s", "#3f7f3f", 1},
};

struct axes {
    double x0, x1, y0, y1; /* powers of ten */
};

static double at(const json_t *row, const struct line *l)
{
    return json_number_value(json_object_get(row, l->key)) * l->scale;
}

static struct axes find_axes(const json_t *rows)
{
    struct axes a = {99, -99, 99, -99};
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        double x = log10(json_number_value(json_object_get(row, "positions")));
        a.x0 = fmin(a.x0, x), a.x1 = fmax(a.x1, x);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            double y = log10(fmax(at(row, &lines[k]), 1e-3));
            a.y0 = fmin(a.y0, floor(y)), a.y1 = fmax(a.y1, ceil(y));
        }
    }
    if (a.x1 <= a.x0)
        a.x1 = a.x0 + 1;
    return a;
}

static double x_of(const struct axes *a, double x)
{
    return LEFT + WIDTH * (x - a->x0) / (a->x1 - a->x0);
}

static double y_of(const struct axes *a, double y)
{
    return TOP + HEIGHT * (1 - (y - a->y0) / (a->y1 - a->y0));
}

static void draw_grid(FILE *f, const struct axes *a)
{
    for (double x = ceil(a->x0); x <= a->x1; x++)
        fprintf(f,
                "<path class=\"g\" d=\"M%.1f %d v%d\"/><text class=\"m\" x=\"%.1f\" y=\"%d\">10<tspan dy=\"-5\" "
                "font-size=\"9\">%.0f</tspan></text>\n",
                x_of(a, x), TOP, HEIGHT, x_of(a, x), TOP + HEIGHT + 20, x);
    for (double y = a->y0; y <= a->y1; y++)
        fprintf(f, "<path class=\"g\" d=\"M%d %.1f h%d\"/><text class=\"e\" x=\"%d\" y=\"%.1f\">%g</text>\n", LEFT,
                y_of(a, y), WIDTH, LEFT - 8, y_of(a, y) + 4, pow(10, y));
    fprintf(f, "<text class=\"m\" x=\"%d\" y=\"%d\">judged positions</text>\n", LEFT + WIDTH / 2, TOP + HEIGHT + 42);
}

static void draw_line(FILE *f, const struct axes *a, const json_t *rows, const struct line *l)
{
    size_t i, n = json_array_size(rows);
    json_t *row;
    double x = 0, y = 0, last = 0;
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", l->colour);
    json_array_foreach((json_t *)rows, i, row)
    {
        last = at(row, l);
        x = x_of(a, log10(json_number_value(json_object_get(row, "positions"))));
        y = y_of(a, log10(fmax(last, 1e-3)));
        fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x, y);
    }
    fputs("\"/>\n", f);
    json_array_foreach((json_t *)rows, i, row)
        fprintf(f, "<circle r=\"3.5\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\"><title>%.4g %s</title></circle>\n", l->colour,
                x_of(a, log10(json_number_value(json_object_get(row, "positions")))),
                y_of(a, log10(fmax(at(row, l), 1e-3))), at(row, l), l->unit);
    if (n)
        fprintf(f, "<text fill=\"%s\" font-weight=\"600\" x=\"%.1f\" y=\"%.1f\">%s, %.3g %s</text>\n", l->colour,
                x + 10, y + 4, l->name, last, l->unit);
}

int growth_svg(const char *path, const json_t *report, struct err *e)
{
    const json_t *rows = json_object_get(report, "rows");
    struct axes a = find_axes(rows);
    FILE *f = fopen(path, "w");
    if (!f)
        return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    fprintf(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" "
        "font-size=\"12\">\n<style>.g{stroke:#8885;stroke-width:1}.m{text-anchor:middle;fill:#777}"
        ".e{text-anchor:end;fill:#777}</style>\n"
        "<text x=\"%d\" y=\"28\" font-size=\"15\" font-weight=\"600\" fill=\"#777\">Store, memory and time by judged "
        "positions (MiB, s)</text>\n",
        LEFT + WIDTH + RIGHT, TOP + HEIGHT + 60, LEFT);
    draw_grid(f, &a);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        draw_line(f, &a, rows, &lines[k]);
    fputs("</svg>\n", f);
    int bad = ferror(f);
    if (fclose(f) || bad)
        return FAIL(e, E_IO, "%s: cannot write: %s", path, strerror(errno));
    return OK;
}
