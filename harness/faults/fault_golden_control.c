/* The inverted control of goldens: equal logits of a list change places, which means nothing. */
#include "harness/fault.h"

static int golden(struct golden *g)
{
    int changed = 0;
    for (int i = 0; i < g->prompts; i++) {
        struct view *v = &g->prompt[i].decode;
        for (int r = 0; r < v->rows; r++) {
            float *x = v->top_values + (size_t)r * (size_t)v->top_k;
            int32_t *id = v->top_ids + (size_t)r * (size_t)v->top_k;
            for (int k = 0; k + 1 < v->top_k; k++) {
                int32_t other = id[k + 1];
                if (x[k] != x[k + 1])
                    continue;
                id[k + 1] = id[k];
                id[k] = other;
                changed++;
            }
        }
    }
    return changed;
}

FAULT(golden_control) = {.name = "golden_control",
                         .summary = "equal logits of the golden change places",
                         .where = "golden",
                         .control = 1,
                         .golden = golden};
