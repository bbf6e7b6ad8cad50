/* power - how much a battery could have seen */
#ifndef ASSAY_POWER_H
#define ASSAY_POWER_H

/* The smallest flip rate per token at which `tokens` tokens show more than `roots` roots with 95 % probability (exact
 * binomial, one-sided): 0 roots in n tokens gives about 3/n. 1 when nothing was judged. */
double flip_rate_95(long tokens, long roots);

#endif
