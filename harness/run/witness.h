/* witness - widens a golden's stored list at one position with the row of an engine that gives the oracle's own bits
 *
 * A golden stores the oracle's largest values only. Where an arm emitted an id outside them, the gap is only bounded.
 * An engine whose row agrees with the stored one in every bit, and in the sum over the full row, can tell the rest.
 */
#ifndef ASSAY_RUN_WITNESS_H
#define ASSAY_RUN_WITNESS_H

#include "harness/engine.h"

#define WITNESS_TOP_K 64 /* ids that rank lower stay "outside what was stored" */

/* Asks the witness about prompt p up to `position` (decode-shaped). *widened = 1 when its row agreed and now stands in
 * p->decode, padded with -1 in the other rows; 0 leaves p as it was. */
int witness_widen(struct golden_prompt *p, int position, struct engine *witness, int *widened, struct err *e);

#endif
