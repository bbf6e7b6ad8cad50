/* weight - a linear layer's weights as a GEMM operand: merged, padded, re-encoded, laid out in strips of 16 columns
 *
 * Layout, strip s (columns 16s..16s+15), k-block b (k 16b..16b+15):
 *   plain   uint16 [strip][block][16 k][16 places]; column c sits at place 2*(c%8) + c/8
 *   4-bit   uint16 [strip][block][4 quarters][16 columns]; nibbles of quarter q are k = 4q, 4q+2, 4q+1, 4q+3
 * Scales are [strip][group][16 columns]: for NVFP4 the re-encoded byte (5 exponent bits, 3 mantissa bits, 0 for a
 * dropped scale), for MXFP4 the E8M0 byte, for u4b8 16-bit floats of the activation type.
 */
#ifndef ASSAY_KERNELS_WEIGHT_H
#define ASSAY_KERNELS_WEIGHT_H

#include "kernels/profile.h"

#include <stddef.h>
#include <stdint.h>

#define STRIP 16 /* columns of a strip, k's of a block */

static inline int strip_place(int column)
{
    return 2 * (column & 7) + (column >> 3 & 1);
}

struct packed_weight {
    enum weight_format format;
    enum activation act;
    int n, k;               /* padded: what the plan sees */
    int n_used, k_used;     /* logical */
    int group;              /* 0: channelwise */
    int shift;              /* the panels hold operand * 2^shift (NVFP4 with bf16: 110, to stay in the normal range) */
    int scale_shift;        /* mutants only, else 0 */
    int least_scale;        /* E2M1 formats: exponent of what code 1 is worth under the smallest scale but 0, shifted */
    int special;            /* some operand is infinite, NaN or at least 2^26: the scalar code runs */
    const uint16_t *codes;  /* 4-bit formats */
    const uint16_t *panel;  /* operands, decoded: plain always, 4-bit formats when asked for */
    const void *scales;     /* 4-bit formats, grouped */
    const uint16_t *column; /* channelwise u4b8: scale of a column, [n_used] */
    const uint16_t *bias;   /* [n_used] or NULL */
    float global;           /* NVFP4: g* of the contract, else 1 */
    float scale_factor;     /* NVFP4: sf * 128 of the contract */
};

/* How vLLM pads odd shapes, spec model-numerics 5.2. group 0: channelwise. Plain weights are not padded by it. */
void weight_padding(int n, int k, int group, int *n_padded, int *k_padded);

/* Up to three linears stacked along n (qkv, gate_up), or one. */
struct weight_source {
    const struct linear *part[3];
    int parts;
    int scale_shift;       /* a mutant: scales come from that many groups further; else 0 */
    float nvfp4_max_scale; /* largest E4M3 scale over the stack of experts; 0: over these parts alone */
};

/* Largest positive E4M3 scale of the parts (0 when there is none or the format has none). */
float weight_max_scale(const struct weight_source *s);

/* Bytes that weight_pack writes to; decoded != 0 keeps decoded panels beside nothing else (2 bytes a weight). */
size_t weight_bytes(const struct weight_source *s, int decoded);

/* Packs into memory (64-byte aligned, weight_bytes large, borrowed by w). E_UNSUPPORTED, E_INPUT say why not. */
int weight_pack(const struct weight_source *s, enum activation act, int decoded, void *memory, struct packed_weight *w,
                struct err *e);

/* Decodes k-blocks block[0..n) of a strip to operands, uint16 [n][16 k][16 places]. */
void weight_decode(const struct packed_weight *w, int strip, const int32_t *block, int n, uint16_t *out);

#endif
