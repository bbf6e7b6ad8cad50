/* kld_compare - two KLD base files of the same text: how far the second's distributions are from the first's
 *
 * KL        sum of p (log p - log q) over tokens with log p > -16, p of the base
 * same top  positions at which the first largest value of both is the same token
 * RMS dp    of the target's probability, in per cent
 * Figures are running ones: after chunk c they cover chunks 1 to c.
 */
#ifndef ASSAY_KLD_COMPARE_H
#define ASSAY_KLD_COMPARE_H

#include "goldens/kld.h"

#include <jansson.h>

/* {positions, grid_mnats, grid_error_nats, exact_ties: null, chunks: [{kl, kl_error, same_top_percent, same_top_error,
 * rms_dp_percent, rms_dp_error, ppl, ppl_error, base_ppl, base_ppl_error, tied_tops}]}. tied_tops: positions of the
 * base whose two largest values are equal, that is closer than the grid; grid_error_nats: what rounding to the grid
 * does to the means of KL and of log p (a step's standard deviation, over all positions). E_INPUT when the texts
 * differ. */
int kld_compare(const struct kld *base, const struct kld *test, json_t **report, struct err *e);
/* Of one file alone: {positions, grid_mnats, ppl, ppl_error, tied_tops}. */
int kld_describe(const struct kld *k, json_t **report, struct err *e);

#endif
