/* One logit of every row of the golden is one bf16 step off. */
#include "harness/fault.h"

#include <string.h>

static int golden(struct golden *g)
{
    int changed = 0;
    for (int i = 0; i < g->prompts; i++) {
        struct view *v = &g->prompt[i].decode;
        for (int r = 0; r < v->rows && v->top_k; r++) {
            float *x = v->top_values + (size_t)(r + 1) * (size_t)v->top_k - 1;
            uint32_t bits;
            memcpy(&bits, x, sizeof bits);
            bits += 0x10000;
            memcpy(x, &bits, sizeof bits);
            changed++;
        }
    }
    return changed;
}

FAULT(golden_one_ulp) = {.name = "golden_one_ulp",
                         .summary = "the last logit of every list is one bf16 step off",
                         .where = "golden",
                         .golden = golden};
