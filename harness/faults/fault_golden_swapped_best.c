/* Each prompt of the golden has the second best id where its two best are furthest apart. */
#include "harness/fault.h"

static int golden(struct golden *g)
{
    int changed = 0;
    for (int i = 0; i < g->prompts; i++) {
        struct golden_prompt *p = &g->prompt[i];
        const struct view *v = &p->decode;
        int at = -1;
        float widest = 0;
        for (int r = 0; r < v->rows && v->top_k > 1; r++) {
            const float *x = v->top_values + (size_t)r * (size_t)v->top_k;
            if (x[0] - x[1] > widest) {
                widest = x[0] - x[1];
                at = r;
            }
        }
        if (at < 0)
            continue;
        p->ids[at] = v->top_ids[(size_t)at * (size_t)v->top_k + 1];
        changed++;
    }
    return changed;
}

FAULT(golden_swapped_best) = {.name = "golden_swapped_best",
                              .summary = "the golden has the second best id at a root",
                              .where = "golden",
                              .golden = golden};
