/* session - the memory of native_step: activations, caches, scratch; private to harness/native */
#ifndef ASSAY_HARNESS_NATIVE_SESSION_H
#define ASSAY_HARNESS_NATIVE_SESSION_H

#include "harness/native/native.h"
#include "kernels/bits.h"

struct native_session {
    const struct native *n;
    struct team *team;
    native_tap *tap;
    void *tap_arg;
    int sequences, positions;
    int *length; /* ids cached, a sequence */
    struct kv_cache *cache;
    void **cache_memory; /* one a sequence, allocated when first used */
    int capacity, rows;  /* rows of activations there is room for; rows of the current step */
    uint16_t *x, *residual, *qkv, *attention, *gate_up, *inner, *router, *slots;
    int32_t *position, *route_ids, *sorted, *block_experts;
    float *route_weights;
    void *scratch;
    size_t scratch_bytes;
    struct gemm_plan plan;
    struct native_counts counts;
};

/* Makes room for `rows` rows of a step. */
int session_rows(struct native_session *s, int rows, struct err *e);
/* Makes scratch at least `bytes` large (64-byte aligned). */
int session_scratch(struct native_session *s, size_t bytes, struct err *e);
struct kv_cache *session_cache(struct native_session *s, int sequence, int layer, int kv_head);

static inline float session_f32(uint16_t h)
{
    return bf16_to_f32(h);
}

static inline uint16_t session_bf16(float x)
{
    return bf16_from_f32(x);
}

#endif
