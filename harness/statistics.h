/* statistics - how far an arm's distributions are from the oracle's, over all positions on identical prefixes
 *
 * KL        of the oracle's distribution from the arm's, over the ids that both lists hold, everything else as one
 *           token: a lower bound, exact when nothing else has mass
 * top-1     positions at which the arm's largest value is at the oracle's maximum
 * perplexity  of the golden's ids under each side, where both lists hold the id
 *
 * Uncertainties are standard errors of the mean; that of a share is sqrt(p(1-p)/(n-1)).
 */
#ifndef ASSAY_STATISTICS_H
#define ASSAY_STATISTICS_H

#include "harness/base/golden.h"

struct moments {
    double sum, squares;
    long n;
};

void moments_add(struct moments *m, double x);
double moments_mean(const struct moments *m);   /* NaN when empty */
double moments_stderr(const struct moments *m); /* NaN below two values */

struct statistics {
    struct moments kl, top1, nll, oracle_nll; /* nll: of the golden's id */
    double kl_max;
};

/* Adds position `row`: both views speak about it on the same prefix; id is the golden's. Rows that hold no logits or
 * NaN add nothing. */
void statistics_add(struct statistics *s, const struct view *oracle, const struct view *arm, int row, int32_t id);
/* New reference; NULL when no position was comparable. */
json_t *statistics_json(const struct statistics *s);

#endif
