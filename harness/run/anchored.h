/* anchored - the last step of judging: is what the arm emits what a person ratified, and which known wrong is it?
 *
 * An anchor counts for its own arm, device, model, battery and golden only; one that no longer does is named, never
 * used.
 */
#ifndef ASSAY_RUN_ANCHORED_H
#define ASSAY_RUN_ANCHORED_H

#include "harness/run/run.h"

struct emitted {
    const char *prompt;
    const struct stream *stream; /* the free run; NULL: no answer */
    const struct stream *forced; /* decode-shaped on the golden's ids; NULL: not asked, the free run is on them */
};

/* PASS_BY_RAZOR with exactly the ratified ids becomes PASS. Gives the summary's members: "anchor" (absent when there is
 * none), "device", "negative" (known wrong streams that prompts landed on), "statistics" (absent without logits).
 * Caller owns *members. */
int anchored(const struct run_options *o, const struct emitted *x, int n, struct judgement *j, json_t **members,
             struct err *e);

#endif
