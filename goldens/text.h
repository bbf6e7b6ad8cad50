/* text - a growing buffer for files that must come out the same every time */
#ifndef ASSAY_GOLDENS_TEXT_H
#define ASSAY_GOLDENS_TEXT_H

#include <jansson.h>
#include <stddef.h>

struct text {
    char *data; /* owned, closed by a zero */
    size_t bytes, room;
    int failed; /* out of memory at some point; later calls do nothing */
};

void text_put(struct text *t, const char *s);
void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same double, as Python's repr writes it: 1.0, 0.1, 1e-05. */
void text_real(struct text *t, double x);
/* Any JSON value as Python's json writes it with compact separators: keys in order, ASCII only. NULL fails. */
void text_value(struct text *t, const json_t *v);

#endif
