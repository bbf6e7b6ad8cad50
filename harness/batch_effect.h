/* batch_effect - why companions change tokens: every prompt alone and all at once through one engine, op by op
 *
 * A row's arithmetic is the same in every step; what changes is how many rows there are, hence the plans and tiles by
 * which its sums are split. The engine is looked into, so it must have taps; the golden's batch passes are what is to
 * be foretold.
 */
#ifndef ASSAY_BATCH_EFFECT_H
#define ASSAY_BATCH_EFFECT_H

#include "harness/engine.h"

enum { BATCH_PROMPTS = 64 }; /* submitted at once at most */

struct batch_effect {
    int prompt;           /* of the golden */
    int alone_as_oracle;  /* the lone answer is the golden's */
    int batch_as_oracle;  /* the answer among companions is that of the recorded pass; -1: none was recorded */
    int position;         /* first token that companions change, -1: none */
    int32_t alone, batch; /* ids there; -1: the answer had ended */
    int step, layer; /* of the first op whose rows differ; step -1: none does. Step 0 is the prompt. Layer -1: none */
    char op[32];
    int rows, differ;           /* rows of the prompt in that step; how many of them differ there */
    int rows_alone, rows_batch; /* rows of the whole step, alone and at once */
    int place;                  /* of the prompt's first row among those of the batch */
};

/* out[g->prompts]. The prompts of one golden, at most BATCH_PROMPTS. progress NULL is fine. */
int batch_effect_measure(struct engine *g, const struct golden *o, struct batch_effect *out,
                         void (*progress)(void *arg, int done, int total), void *arg, struct err *e);

#endif
