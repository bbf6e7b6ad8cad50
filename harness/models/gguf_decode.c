/* gguf_decode - blocks of GGUF tensors -> fp32
 *
 * shapes    blocks of 32 (Q4_1, Q8_0) or 256 (Q6_K) along a row
 * units     scales are fp16; Q4_1: d * q + m; Q8_0: d * q; Q6_K: (d * scale) * (q - 32)
 * rounding  every product and sum to fp32, nearest even, no fma
 * specials  as IEEE 754
 */
#include "harness/models/gguf.h"
#include "harness/models/round.h"

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void decode_q4_1(const uint8_t *p, float *out)
{
    float d = float_of_f16(u16(p)), m = float_of_f16(u16(p + 2));
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(p[4 + i] & 15) + m;
        out[i + 16] = d * (float)(p[4 + i] >> 4) + m;
    }
}

static void decode_q8_0(const uint8_t *p, float *out)
{
    float d = float_of_f16(u16(p));
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)p[2 + i];
}

/* 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, then d. Each half of 128 values has its own 64, 32
 * and 8 of them; a pair of bits serves the quarter of the half that its place in the byte names. */
static void decode_q6_k(const uint8_t *p, float *out)
{
    float d = float_of_f16(u16(p + 208));
    for (int half = 0; half < 2; half++)
        for (int quarter = 0; quarter < 4; quarter++)
            for (int i = 0; i < 32; i++) {
                int low = p[64 * half + 32 * (quarter & 1) + i] >> (quarter & 2 ? 4 : 0) & 15;
                int high = p[128 + 32 * half + i] >> 2 * quarter & 3;
                float scale = d * (float)(int8_t)p[192 + 8 * half + 2 * quarter + i / 16];
                out[128 * half + 32 * quarter + i] = scale * (float)((low | high << 4) - 32);
            }
}

void gguf_decode(const struct gguf_tensor *t, float *out)
{
    const uint8_t *p = t->data, *end = p + t->bytes;
    switch (t->type) {
    case GT_F32: memcpy(out, p, t->bytes); return;
    case GT_F16:
        for (; p < end; p += 2)
            *out++ = float_of_f16(u16(p));
        return;
    case GT_BF16:
        for (; p < end; p += 2)
            *out++ = float_of_bf16(u16(p));
        return;
    case GT_Q4_1:
        for (; p < end; p += 20, out += 32)
            decode_q4_1(p, out);
        return;
    case GT_Q8_0:
        for (; p < end; p += 34, out += 32)
            decode_q8_0(p, out);
        return;
    case GT_Q6_K:
        for (; p < end; p += 210, out += 256)
            decode_q6_k(p, out);
        return;
    }
}
