/* bisect - where two sides part, for people and programs: text, assay-bisect/1, a drawing, a page */
#ifndef ASSAY_REPORTS_BISECT_H
#define ASSAY_REPORTS_BISECT_H

#include "harness/bisect/bisect.h"

#include <stdio.h>

struct bisect_report {
    const struct bisect *found;
    const char *a, *b;                    /* the arms, or the file that was recorded */
    const char *model, *battery, *prompt; /* battery NULL: the ids are the trace's */
    int prompt_ids, tried;                /* tried: prompts that were looked at, this one included */
    const char *again;                    /* the command line */
};

/* "step 0 (the prompt, 21 rows), layer 0, rotary_q"; returns buf. */
const char *bisect_place(const struct op_record *r, char *buf, size_t size);

/* What grown[i]'s op gives when it is fed the other side's values; NULL: not known. */
const struct op_difference *bisect_same(const struct bisect *b, int i);

void bisect_text(FILE *f, const struct bisect_report *r, int width, int all_ops);
json_t *bisect_json(const struct bisect_report *r); /* NULL without memory; caller releases */
void bisect_svg(FILE *f, const struct bisect_report *r);
void bisect_html(FILE *f, const struct bisect_report *r);

#endif
