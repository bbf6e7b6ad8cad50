/* mutant - deliberately wrong variants of the engine; a battery is worth what it kills
 *
 * A mutant is a file kernels/mutants/mutant_NAME.c that defines MUTANT(NAME): it sets one field of struct mutation.
 * The kernels read the fields where the mistake would sit; `applied` counts how often it changed what was computed.
 */
#ifndef ASSAY_KERNELS_MUTANT_H
#define ASSAY_KERNELS_MUTANT_H

#include <stdint.h>

struct mutation {
    int row_shift;        /* rows of A are read that many rows further (wrapping) */
    int fraction;         /* tensor core keeps that many bits more (or fewer) */
    int narrow_steps;     /* tensor core adds 8 + 8 products instead of 16 */
    int fold_left;        /* warp rows fold ((0+1)+2)+3 */
    int top_first;        /* slices are combined smallest k first */
    int first_slice_wins; /* only the bottom slice counts */
    int reduce16;         /* slices are rounded to 16 bits in between, where the plan says fp32 */
    int skip_tail;        /* the last k-block is dropped */
    int scale_group;      /* scales come from that many groups further */
    int global_after;     /* NVFP4 global scale after the 16-bit rounding */
    int rope_offset;      /* positions are shifted by that much */
    int zero_output;      /* GEMMs give zeros */
    int nan_output;       /* one element of every GEMM is NaN */
    int drop_bos;         /* the first id of a prompt is not fed */
    int swap_best;        /* the second best id is emitted when it is near */
    int early_stop;       /* sequences end one id early */
    int64_t *applied;     /* counts applications, NULL is fine; shared by threads, added atomically */
};

struct mutant {
    const char *name, *summary;
    const char *where; /* gemm, tensor_core, op, engine */
    int control;       /* 1: an inverted control: applied, changes nothing that counts, must survive */
    void (*apply)(struct mutation *m);
};

#define MUTANT(NAME) const struct mutant mutant_##NAME

extern const struct mutant *const mutant_all[];     /* NULL-terminated, made by the Makefile */
const struct mutant *mutant_find(const char *name); /* NULL: none of that name */

static inline void mutation_applied(const struct mutation *m)
{
    if (m->applied)
        __atomic_fetch_add(m->applied, 1, __ATOMIC_RELAXED);
}

#endif
