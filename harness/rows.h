/* rows - equality of logits rows, bit for bit */
#ifndef ASSAY_ROWS_H
#define ASSAY_ROWS_H

#include "harness/base/golden.h"

/* 1 when row `ra` of a and row `rb` of b are equal: the same value kind, the same values in every bit, the same ids
 * (equal values stand in no particular order, and the last stored value may be tied with tokens that were cut off),
 * logsumexp to 1e-9, and the same hash of the full row where both sides know it. The shorter list decides how many
 * values are compared. A non-finite value equals only its own bits. */
int row_equal(const struct view *a, int ra, const struct view *b, int rb);

/* 1 when the two rows can be compared at all: both exist, hold values of one kind. */
int row_comparable(const struct view *a, int ra, const struct view *b, int rb);

#endif
