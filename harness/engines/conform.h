/* conform - does an engine answer as an adapter must: the self-test of `assay engine check`
 *
 * It judges the conversation, never the numbers: whether ids are greedy, lists are lists, forcing feeds what it was
 * told to feed, and the same question gives the same answer.
 */
#ifndef ASSAY_ENGINES_CONFORM_H
#define ASSAY_ENGINES_CONFORM_H

#include "harness/base/verdict.h"
#include "harness/engine.h"

#define CONFORM_ROWS 16

struct conform_row {
    const char *name, *about;
    enum run_verdict verdict; /* RV_PASS, RV_FAIL or RV_NO_EVIDENCE */
    char text[300];           /* what was seen */
};

struct conform {
    struct conform_row row[CONFORM_ROWS];
    int rows;
    enum run_verdict verdict; /* FAIL before NO_EVIDENCE before PASS */
};

/* prompt, other: two different prompts. max_positions 0: not known. Never fails: what goes wrong is a row. */
void conform_check(struct engine *g, const struct sequence *prompt, const struct sequence *other, int vocab,
                   int max_positions, struct conform *c);

#endif
