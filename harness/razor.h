/* razor - tells a tie that the oracle itself cannot separate from a divergence
 *
 * gap    the oracle's largest value minus the value of the id in question, same row, in nats
 * ULP    one step of the oracle's logit dtype at the size of the row's largest logit; where only log-probabilities are
 *        known, the step is inferred from their differences (and `inferred` says so)
 * jitter how far the oracle disagrees with itself at this position: prefill against decode, alone against batch
 * razor  min(cap, max(n ULP, jitter))
 *
 * Pure functions; nothing here reads or writes a file. NaN and infinity never pass a comparison.
 */
#ifndef ASSAY_RAZOR_H
#define ASSAY_RAZOR_H

#include "harness/base/golden.h"
#include "harness/base/verdict.h"

struct razor_rule {
    double ulps;     /* n */
    double cap_nats; /* no razor is wider than this */
};

struct gap {
    int finite; /* 0: the row holds NaN or infinity, or there is no such row; the rest is NaN then */
    int stored; /* 1: the id is in the row's list; 0: only the bound is known */
    int ties;   /* stored tokens at the maximum */
    int32_t top_id;
    double nats, ulps; /* NaN when not stored */
    double bound_nats; /* the gap is at least this; equals nats when stored */
    double ulp;        /* in nats */
    int inferred;      /* 1: the ULP was inferred from log-probabilities */
};

/* Significand bits of the logits that the golden's oracle computes in (header oracle.dtype); 0: not known. */
int golden_significand_bits(const struct golden *g);

/* One step of a format with `bits` significand bits at the size of x; NaN when x is not finite. */
double ulp_at(double x, int bits);

/* The largest power of two, at most 1/8, that divides every difference of the row's values; NaN without two values. */
double ulp_inferred(const struct view *v, int row);

/* 1 when every value of the row and its logsumexp are finite. A row that does not exist is not finite. */
int row_is_finite(const struct view *v, int row);

/* The gap of `id` in the row; bits as of golden_significand_bits. */
struct gap gap_of(const struct view *v, int row, int32_t id, int bits);

/* What the oracle's own records say about its noise at one position, for one id. NaN: not measured. */
struct jitter {
    double self_nats;  /* |gap in the decode view - gap in the prefill view| */
    double batch_nats; /* the widest gap at which a batch pass left the lone stream here */
    double nats;       /* the larger of both, 0 when neither was measured */
};
struct jitter jitter_at(const struct golden_prompt *p, int position, int32_t id, int bits);

double razor_width(const struct razor_rule *r, double ulp, double jitter_nats);

/* The verdict about an arm's id that is not the oracle's. V_CASCADE: not judgeable, the id is outside the stored list
 * and the bound does not exceed the razor. */
enum verdict razor_verdict(const struct gap *g, double razor_nats);

#endif
