/* The quick paths from 4-bit codes give the scalar rule's bits, in every instruction set of this machine. */
#include "kernels/bits.h"
#include "kernels/codes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS  3
#define K     256 /* two k-tiles of 128: four warp rows of four blocks */
#define WARPS 4
#define SEED  11

enum input { GAUSS, WIDE, OUTLIERS, CANCEL, TINY, HUGE_STEPS, RAW, INPUTS };

static uint64_t state;

static uint64_t next(void)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static float uniform(void)
{
    return (float)(next() >> 40) * 0x1p-24f;
}

static uint16_t activation(enum input kind, int k)
{
    float x = uniform() + uniform() + uniform() - 1.5f;
    switch (kind) {
    case WIDE: x *= f32_from_bits((uint32_t)(127 - next() % 24) << 23); break;
    case OUTLIERS: x *= next() % 32 ? 1 : 300; break;
    case TINY: x *= f32_from_bits((uint32_t)(127 - 20 - next() % 100) << 23); break;
    case HUGE_STEPS: x *= f32_from_bits((uint32_t)(127 + k / 16 * 5 % 29 - 14) << 23); break;
    case RAW: return (uint16_t)next();
    default: break;
    }
    return next() % 16 ? bf16_from_f32(x) : (uint16_t)(next() & 0x8000);
}

struct fixture {
    uint64_t codes[STRIP * K / 16];
    uint8_t scale[STRIP * K / 16];
    uint16_t channel[STRIP * 4];
    char memory[64 * K * 3] __attribute__((aligned(64)));
    struct linear l;
    struct packed_weight w;
    uint16_t raw[ROWS * K];
    uint32_t key[ROWS * K];
    float value[ROWS * K];
    uint8_t state[ROWS * K / 16];
    struct prepared_rows rows;
    struct code_block block[ROWS * K / 16];
};

static void fill_weights(struct fixture *f, enum weight_format format)
{
    int group = format == WF_NVFP4 ? 16 : format == WF_MXFP4 ? 32 : 0;
    int low = (int)(next() % 3); /* scales over few or many binades */
    struct err e = {0};
    for (int i = 0; i < STRIP * K / 16; i++) {
        f->codes[i] = next() & (next() % 8 ? UINT64_MAX : 0x0000ffff00ffull);
        f->scale[i] = (uint8_t)(format == WF_NVFP4 ? 0x40 + next() % (low ? 24 : 56)
                                                   : 120 + next() % (low == 1 ? 8 : 2) - (low == 2) * 90);
        if (next() % 64 == 0)
            f->scale[i] = 0;
    }
    for (int i = 0; i < STRIP; i++)
        f->channel[i] = 0x3c00;
    f->l = (struct linear){.n = STRIP,
                           .k = K,
                           .group = group,
                           .format = format,
                           .packing = group ? PACK_BYTES : PACK_WORDS,
                           .global_scale = 1};
    f->l.weight = (struct tensor){"codes", DT_U8, 1, {STRIP * K / 2}, f->codes, STRIP * K / 2};
    f->l.scale = group ? (struct tensor){"scales", DT_U8, 1, {STRIP * K / group}, f->scale, STRIP * K / (size_t)group}
                       : (struct tensor){"scales", DT_BF16, 1, {STRIP}, f->channel, STRIP * 2};
    struct weight_source s = {.part = {&f->l}, .parts = 1};
    ck_assert_uint_le(weight_bytes(&s, 0), sizeof f->memory);
    ck_assert_int_eq(weight_pack(&s, ACT_BF16, 0, f->memory, &f->w, &e), OK);
    ck_assert(!f->w.special);
}

static void fill_rows(struct fixture *f, enum input kind)
{
    for (int r = 0; r < ROWS; r++) {
        uint16_t a[K];
        for (int k = 0; k < K; k++)
            a[k] = activation(kind, k);
        if (next() % 4 == 0)
            memset(a + next() % (K / 16) * 16, 0, 16 * sizeof *a);
        for (int k = K / 2; kind == CANCEL && k < K; k++)
            a[k] = a[k - K / 2] ^ (next() % 16 ? 0x8000 : 0x8001);
        panel_prepare_row(ACT_BF16, f->w.shift, a, K, K, f->raw + r * K, f->value + r * K, f->key + r * K,
                          f->state + r * K / 16);
    }
    f->rows = (struct prepared_rows){K, f->raw, f->value, f->key, f->state};
    code_prepare(&f->w, &f->rows, ROWS, 0, K / 16, f->block);
}

static int beyond_shift(const struct fixture *f)
{
    int special = 0;
    for (int i = 0; i < ROWS * K / 16; i++)
        special |= f->state[i] == BLOCK_SPECIAL;
    return special && f->w.shift;
}

static const int32_t row[ROWS] = {0, 1, 2};

/* Natural order, plain units. */
static void by_rule(const struct fixture *f, int rows, float *out)
{
    uint16_t b[256] __attribute__((aligned(64)));
    memset(out, 0, WARPS * ROWS * STRIP * sizeof *out);
    for (int32_t block = 0; block < K / 16; block++) {
        struct chain c = {.rule = tensor_core_rule(90),
                          .act = ACT_BF16,
                          .shift = f->w.shift,
                          .rows = &f->rows,
                          .row = row,
                          .count = rows,
                          .block = &block,
                          .blocks = 1,
                          .b = b,
                          .packed = 1,
                          .strips = 1,
                          .acc = out + block / 2 % WARPS * ROWS * STRIP};
        weight_decode(&f->w, 0, &block, 1, b);
        panel_chain_scalar(&c);
    }
}

static void by_path(const struct fixture *f, const struct code_path *path, int rows, float *out)
{
    float lanes[WARPS * ROWS * STRIP], down = f32_from_bits((uint32_t)(127 - f->w.shift) << 23);
    struct code_slice s = {.w = &f->w,
                           .rows = &f->rows,
                           .block_of = f->block,
                           .all = ROWS,
                           .row = row,
                           .count = rows,
                           .warps = WARPS,
                           .t1 = K / 32 / WARPS,
                           .last = K / 16,
                           .acc = lanes,
                           .part_size = ROWS * STRIP};
    memset(lanes, 0xff, sizeof lanes);
    path->slice(&s);
    memset(out, 0, sizeof lanes);
    for (int i = 0; i < WARPS * ROWS * STRIP; i++)
        if (i / STRIP % ROWS < rows)
            out[i / STRIP * STRIP + path->column[i % STRIP]] = lanes[i] * down;
}

static const enum weight_format formats[] = {WF_NVFP4, WF_MXFP4, WF_U4B8};

static void forget(struct code_block *b, int spoil)
{
    if (spoil == 1) {
        b->limit = b->wide_limit = 0x1p100f;
        b->raw_limit[0] = b->raw_limit[1] = 0x3f00;
    } else {
        b->reach = 0;
        b->raw_reach[0] = b->raw_reach[1] = -0x4000;
    }
}

/* Outputs that differ from the rule. spoil: 1 forgets what keeps products whole, 2 what keeps the accumulator whole. */
static long compare(const struct code_path *path, int rounds, int spoil, long *outputs, long *plans)
{
    struct fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    long wrong = 0;
    state = SEED;
    for (int i = 0; i < rounds * 3 * INPUTS; i++) {
        float want[WARPS * ROWS * STRIP], got[WARPS * ROWS * STRIP];
        int rows = i % 2 ? ROWS : 1;
        fill_weights(f, formats[i % 3]);
        fill_rows(f, (enum input)(i / 3 % INPUTS));
        if (beyond_shift(f)) /* the executor does not take the quick path then */
            continue;
        for (int b = 0; b < ROWS * K / 16; b++) {
            plans[f->block[b].plan]++;
            if (spoil)
                forget(&f->block[b], spoil);
        }
        by_rule(f, rows, want);
        by_path(f, path, rows, got);
        for (int j = 0; j < WARPS * ROWS * STRIP; j++)
            wrong += f32_bits(want[j]) != f32_bits(got[j]);
        *outputs += WARPS * rows * STRIP;
    }
    free(f);
    return wrong;
}

static const struct code_path *const path[] = {&code_path_portable, &code_path_avx2, &code_path_avx512};

START_TEST(quick_paths_equal_the_scalar_rule)
{
    long outputs = 0, plans[5] = {0};
    if (!panel_chain_named(path[_i]->name)) {
        printf("NO_EVIDENCE: this CPU has no %s\n", path[_i]->name);
        return;
    }
    long wrong = compare(path[_i], 60, 0, &outputs, plans);
    printf("seed %d: %ld outputs by %s, %ld differ; blocks zero %ld, whole %ld, wide %ld, cut %ld, careful %ld\n", SEED,
           outputs, path[_i]->name, wrong, plans[PLAN_ZERO], plans[PLAN_WHOLE], plans[PLAN_WIDE], plans[PLAN_SMALL],
           plans[PLAN_CAREFUL]);
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_gt(outputs, 100000);
    for (int i = PLAN_WHOLE; i <= PLAN_ZERO; i++)
        ck_assert_int_gt(plans[i], 500);
}
END_TEST

START_TEST(without_either_bound_outputs_differ)
{
    for (int spoil = 1; spoil <= 2 && panel_chain_named(path[_i]->name); spoil++) {
        long outputs = 0, plans[5] = {0};
        ck_assert_int_gt(compare(path[_i], 4, spoil, &outputs, plans), 5);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codes");
    TCase *t = tcase_create("bits");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, quick_paths_equal_the_scalar_rule, 0, 3);
    tcase_add_loop_test(t, without_either_bound_outputs_differ, 0, 3);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
