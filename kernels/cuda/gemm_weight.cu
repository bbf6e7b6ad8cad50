/* gemm_weight - codes and scales of kernels/weight.h into the order in which a GPU's lanes read them
 *
 * The same functions run on the device (weight_load) and on the host (weight_check): one layout, byte for byte.
 * Dropped NVFP4 scales leave zero codes with bf16, so that the kernels may take every scale as 2 or more.
 */
#include "kernels/cuda/gemm_work.cuh"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

struct layout_source {
    const uint16_t *codes;   /* [strip][block][4 quarters][16 columns] */
    const uint8_t *scales;   /* [strip][group][16 columns] */
    int nvfp4, bf16, spread; /* spread: E2M1 codes for bf16 */
};

static layout_source source(const packed_weight *w, const uint16_t *codes, const uint8_t *scales)
{
    int bf16 = w->act == ACT_BF16;
    return {codes, scales, w->format == WF_NVFP4, bf16, bf16 && w->format != WF_U4B8};
}

__host__ __device__ static uint32_t nibble(uint16_t h, int i)
{
    return h >> 4 * i & 15;
}

/* Where code j of a half lies: a nibble, or so that bf16 needs a shift left by 3j and a mask (j = 3: three shifts). */
__host__ __device__ static uint32_t place_code(uint32_t code, int j, int spread)
{
    if (!spread)
        return code << 4 * j;
    if (j < 3)
        return ((code & 8) << 12 | (code & 7) << 6) >> 3 * j;
    return (code & 12) << 11 | (code & 3) << 10;
}

/* Code of (column, 4q + i) of a block. */
__host__ __device__ static uint32_t code_at(const layout_source &s, size_t block, int q, int i, int column)
{
    if (s.nvfp4 && s.bf16 && !s.scales[block * 16 + column])
        return 0;
    return nibble(s.codes[block * 64 + q * 16 + column], (i & 1) << 1 | i >> 1);
}

/* Word i of the layout: [strip][pair][lane][2 blocks]. */
__host__ __device__ static uint32_t code_word(const layout_source &s, size_t i)
{
    int lane = (int)(i / 2 % 32), g = lane / 4, q = lane % 4;
    size_t block = i / 64 * 2 + i % 2;
    uint32_t word = 0;
    for (int j = 0; j < 4; j++)
        for (int odd = 0; odd < 2; odd++)
            word |= place_code(code_at(s, block, q, j / 2 * 2 + odd, 2 * g + j % 2), j, s.spread) << 16 * odd;
    return word;
}

/* Byte i of the NVFP4 scales: [strip][pair][g][2 blocks][2 columns]. */
__host__ __device__ static uint8_t scale_byte(const layout_source &s, size_t i)
{
    size_t block = i / 32 * 2 + i / 2 % 2;
    return s.scales[block * 16 + i % 32 / 4 * 2 + i % 2] & (s.bf16 ? 0x7f : 0xff);
}

__global__ static void lay_out(layout_source s, uint32_t *codes, size_t words, uint8_t *scales, size_t scale_bytes)
{
    size_t step = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (size_t i = first; i < words; i += step)
        codes[i] = code_word(s, i);
    for (size_t i = first; i < scale_bytes; i += step)
        scales[i] = s.nvfp4 ? scale_byte(s, i) : s.scales[i];
}

static size_t up(size_t x)
{
    return (x + 255) / 256 * 256;
}

static size_t scale_size(const packed_weight *w)
{
    int groups = w->group ? w->k / w->group : 0;
    return (size_t)w->n * groups * (w->format == WF_U4B8 ? 2 : 1);
}

static int upload(void *device, const void *host, size_t bytes)
{
    return host && bytes ? cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) : cudaSuccess;
}

/* Cuts one allocation into the arrays of all experts. */
static int allocate(const packed_weight *w, int experts, cuda_weight *out, err *e)
{
    size_t column = up((size_t)experts * w->n * 2), head = up((size_t)experts * 4);
    *out = {w->format, w->act, w->n, w->k, w->n_used, w->k_used, w->group, experts};
    out->codes_size = (size_t)w->n * w->k / 2;
    out->scales_size = scale_size(w);
    out->bytes = (out->codes_size + out->scales_size) * experts;
    size_t codes = up(out->codes_size * experts), scales = up(out->scales_size * experts);
    int rc = cudaMalloc(&out->codes, codes + scales + 2 * column + head);
    if (rc)
        return cuda_failed(rc, "weights", e);
    out->scales = (char *)out->codes + codes;
    out->column = (char *)out->scales + scales;
    out->bias = (char *)out->column + column;
    out->global = (char *)out->bias + column;
    return OK;
}

static int load_expert(const packed_weight *w, int x, void *staging, const cuda_weight *out)
{
    char *raw_scales = (char *)staging + up(out->codes_size);
    layout_source s = source(w, (const uint16_t *)staging, (const uint8_t *)raw_scales);
    int rc = upload(staging, w->codes, out->codes_size);
    if (!rc)
        rc = upload(raw_scales, w->scales, out->scales_size);
    if (!rc) {
        lay_out<<<1024, 256>>>(s, (uint32_t *)((char *)out->codes + x * out->codes_size), out->codes_size / 4,
                               (uint8_t *)out->scales + x * out->scales_size, out->scales_size);
        rc = cudaGetLastError();
    }
    if (!rc)
        rc = upload((uint16_t *)out->column + (size_t)x * w->n, w->column, (size_t)w->n_used * 2);
    if (!rc)
        rc = upload((uint16_t *)out->bias + (size_t)x * w->n, w->bias, (size_t)w->n_used * 2);
    if (!rc)
        rc = upload((float *)out->global + x, &w->global, 4);
    return rc ? rc : cudaDeviceSynchronize();
}

int weight_load(const packed_weight *w, int experts, cuda_weight *out, err *e)
{
    void *staging = NULL;
    memset(out, 0, sizeof *out);
    if (w->format == WF_PLAIN || !w->codes)
        return FAIL(e, E_UNSUPPORTED, "the GPU takes 4-bit weights with their codes kept");
    if (w->scale_shift)
        return FAIL(e, E_UNSUPPORTED, "weights of a mutant belong to the CPU");
    if (allocate(w, experts, out, e))
        return e->code;
    int rc = cudaMalloc(&staging, up(out->codes_size) + up(out->scales_size) + 256);
    for (int x = 0; x < experts && !rc; x++)
        rc = load_expert(&w[x], x, staging, out);
    cudaFree(staging);
    if (!w->column)
        out->column = NULL;
    if (!w->bias)
        out->bias = NULL;
    if (rc) {
        cudaFree(out->codes);
        out->codes = NULL;
    }
    return cuda_failed(rc, "weights", e);
}

void weight_free(cuda_weight *w)
{
    cudaFree(w->codes);
    w->codes = NULL;
}

static long differing_bytes(const void *a, const void *b, size_t n)
{
    long count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((const uint8_t *)a)[i] != ((const uint8_t *)b)[i];
    return count;
}

int weight_check(const packed_weight *w, const cuda_weight *d, long *differing, err *e)
{
    size_t codes = d->codes_size, bytes = codes + d->scales_size;
    uint8_t *mine = (uint8_t *)malloc(bytes), *theirs = (uint8_t *)malloc(bytes);
    int rc = mine && theirs ? OK : FAIL(e, E_NOMEM, "weights: out of memory");
    *differing = 0;
    for (int x = 0; x < d->experts && !rc; x++) {
        layout_source s = source(w, w[x].codes, (const uint8_t *)w[x].scales);
        for (size_t i = 0; i < codes / 4; i++) {
            uint32_t word = code_word(s, i);
            memcpy(mine + 4 * i, &word, 4);
        }
        for (size_t i = 0; i < d->scales_size; i++)
            mine[codes + i] = s.nvfp4 ? scale_byte(s, i) : s.scales[i];
        rc = cudaMemcpy(theirs, (char *)d->codes + x * codes, codes, cudaMemcpyDeviceToHost);
        if (!rc && d->scales_size)
            rc = cudaMemcpy(theirs + codes, (char *)d->scales + x * d->scales_size, d->scales_size,
                            cudaMemcpyDeviceToHost);
        rc = cuda_failed(rc, "weights", e);
        *differing += differing_bytes(mine, theirs, bytes);
    }
    free(mine);
    free(theirs);
    return rc;
}
