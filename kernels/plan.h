/* plan - the schedule of a W4A16 GEMM as data: who sums what, in which order
 *
 * C[m,n] = A[m,k] * W[n,k]^T. A plan is a pure function of (shape, GPU profile); it decides every rounding of the
 * result and nothing else does. Marlin contract: spec marlin-numerics sections 2 and 3.
 */
#ifndef ASSAY_KERNELS_PLAN_H
#define ASSAY_KERNELS_PLAN_H

#include "kernels/profile.h"

#define PLAN_LAUNCHES_MAX 72

enum gemm_route {
    ROUTE_DENSE,   /* the dense operator */
    ROUTE_GROUPED, /* the MoE operator; a dense layer runs it with one expert */
    ROUTE_PAR1,    /* the MoE operator: its tile, but its grid clamped to one CTA an SM */
};

enum gemm_reduce {
    REDUCE_F32,    /* ordered, fp32 between slices */
    REDUCE_F16,    /* ordered, rounded to 16 bits between slices */
    REDUCE_ATOMIC, /* unordered 16-bit adds: a set of results when a tile has three slices or more */
};

struct gemm_shape {
    enum gemm_route route;
    int m, n, k; /* m: rows of A as handed to the operator */
    enum weight_format format;
    enum activation act;
    int group;         /* 0: channelwise */
    int experts, topk; /* grouped routes; 1, 1 for a dense layer */
    enum gemm_reduce reduce;
    int block_rows; /* grouped: rows of an aligned block (8..64); 0: the caller's rule, spec 2.5 */
    int blocks;     /* grouped: aligned blocks over all experts; 0: ceil(m * topk / block_rows), one expert */
};

/* One kernel launch. Tile index = row_block * NT + column_tile. */
struct gemm_launch {
    int first_row, rows;   /* rows of A (dense) of this launch */
    int tk, tn, threads;   /* CTA tile and its threads */
    int mb, m8;            /* rows of a block / 16 (1..4); 8-row variant */
    int block_rows;        /* 8, 16, 32, 48, 64 */
    int grid, per_sm, par; /* CTAs, CTAs an SM, row blocks */
    int NT, T;             /* column tiles, k-tiles of a tile */
    int dp, R, iters;      /* whole-tile passes; striped tiles; k-tiles a CTA */
};

struct gemm_plan {
    struct gemm_shape shape;
    int sm;          /* tensor-core rule */
    int native_code; /* as in the profile: decides one contraction at write-out */
    int launches;
    struct gemm_launch launch[PLAN_LAUNCHES_MAX];
};

/* K range [t0,t1) of one tile, in k-tiles, summed by one CTA. */
struct gemm_slice {
    int cta, t0, t1;
};

/* Computes the plan. E_UNSUPPORTED or E_USAGE says what would be valid; E_MISSING: the profile lacks a register count
 * that decides. A u4b8 group as long as k is channelwise (one scale row), and the plan's shape says so. */
int plan_make(const struct gemm_shape *s, const struct gpu_profile *gpu, struct gemm_plan *p, struct err *e);

/* Slices of tile (row block * NT + column tile) in the order in which they are combined: bottom (largest k) first.
 * Returns the count; out holds at most max of them (max >= T suffices). */
int plan_slices(const struct gemm_launch *l, int tile, struct gemm_slice *out, int max);

/* Whether the kernel adds the slices of this launch's tiles atomically; else an atomic plan reduces them in fp32. */
int plan_is_atomic(const struct gemm_plan *p, const struct gemm_launch *l);

/* Rows of an aligned block for `tokens` rows, spec 2.5: 8, 16, 32, 48 or 64. */
int plan_block_rows(int tokens, int topk, int experts);

const char *route_name(enum gemm_route r);
int route_by_name(const char *name); /* -1: unknown */
const char *reduce_name(enum gemm_reduce r);
int reduce_by_name(const char *name); /* -1: unknown */
const char *format_name(enum weight_format f);
int format_by_name(const char *name); /* -1: unknown */

#endif
