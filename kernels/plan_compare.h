/* plan_compare - whether two plans give the same bytes, and the first link in which they part */
#ifndef ASSAY_KERNELS_PLAN_COMPARE_H
#define ASSAY_KERNELS_PLAN_COMPARE_H

#include "kernels/plan.h"

struct plan_difference {
    int64_t elements, same; /* elements of C (in runs of 64 columns); those summed alike in both plans */
    int row, column;        /* the first element summed otherwise; -1: none */
    int operands;           /* the operands or the shape differ: the products are others */
    int tensor_core;        /* the generations differ */
    int write_out;          /* channelwise with bias: the contraction differs */
    int reduce;             /* the reductions differ where there is more than one slice */
    char why[512];          /* the first difference, for people; "" when the bytes are equal */
};

/* Both plans must be of the same m and n, else only `operands` and `why` are set. Grouped plans with several experts
 * are compared as if rows came in route order. */
void plan_compare(const struct gemm_plan *a, const struct gemm_plan *b, struct plan_difference *d);

/* CTAs of a launch that sum anything. */
int plan_working_ctas(const struct gemm_launch *l);

/* The tile of a launch with the most slices, the first of them. */
int plan_busiest_tile(const struct gemm_launch *l);

#endif
