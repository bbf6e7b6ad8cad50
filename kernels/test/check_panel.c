/* The fast chains give the scalar rule's bits, in every instruction set of this machine. */
#include "kernels/bits.h"
#include "kernels/panel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 5
#define K    64

static uint64_t state = 1;

static uint64_t next(void)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* kind 0: raw bits; 1..3: exponents over 6, 24, 48 binades; 4: near the bottom of the range. One in 16 is a zero. */
static uint16_t value(int kind, enum activation act)
{
    uint64_t u = next();
    int fraction = act == ACT_F16 ? 10 : 7, bias = act == ACT_F16 ? 15 : 127;
    int spread = kind == 1 ? 3 : kind == 2 ? 12 : kind == 3 ? 24 : 6;
    int exp = bias + (int)((u >> 20) % (unsigned)(2 * spread + 1)) - spread - (kind == 4 ? bias - 7 : 0);
    if (kind == 0)
        return (uint16_t)u;
    if ((u >> 50) % 16 == 0)
        return (uint16_t)((u & 1) << 15);
    exp = exp < 0 ? 0 : exp > 2 * bias ? 2 * bias : exp;
    return (uint16_t)((u & 1) << 15 | (unsigned)exp << fraction | ((u >> 8) & ((1u << fraction) - 1)));
}

/* An NVFP4 operand shifted up by 2^110: E2M1 times a scale in [2, 2^15), an eighth of them zero. */
static uint16_t shifted_operand(void)
{
    static const float e2m1[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    uint64_t u = next();
    float s = (float)(8 + ((u >> 8) & 7)) * (float)(1 << (u >> 16) % 13) * 0.25f;
    return (uint16_t)(f32_bits(e2m1[u & 7] * ((u >> 30) % 8 ? s : 0) * 0x1p-16f) >> 16 | (u >> 7 & 1) << 15);
}

struct fixture {
    uint16_t raw[ROWS * K], b[K * 16] __attribute__((aligned(64)));
    uint32_t key[ROWS * K];
    float value[ROWS * K], start[ROWS * 16];
    uint8_t state[ROWS * K / 16];
    struct prepared_rows rows;
    struct chain chain;
};

static const int32_t all_rows[ROWS] = {0, 1, 2, 3, 4}, blocks[K / 16] = {2, 0, 3, 1};

static void fill(struct fixture *f, enum activation act, int shift, int sm, int kind, int round)
{
    uint16_t a[K];
    int special = 0, limit = act == ACT_BF16 ? (127 + 26) << 7 : 0x7c00;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < K; i++)
            a[i] = value(kind, act);
        if (round % 7 == 3 && r == 2)
            memset(a + 16, 0, 32);
        panel_prepare_row(act, shift, a, K, K, f->raw + r * K, f->value + r * K, f->key + r * K, f->state + r * K / 16);
    }
    for (int i = 0; i < K * 16; i++) {
        f->b[i] = shift ? shifted_operand() : value(kind, act);
        special |= (f->b[i] & 0x7fff) >= limit;
    }
    for (int i = 0; i < ROWS * 16; i++) {
        float small = (float)(int)(next() % 2001) * 0x1p-8f * (shift ? 0x1p-126f : 1);
        f->start[i] = round % 3 == 0 ? 0 : round % 3 == 1 ? small : f32_from_bits((uint32_t)next());
        if (shift && !(f->start[i] > -1 && f->start[i] < 1))
            f->start[i] = 0; /* carried accumulators of shifted operands stay in reach of the shift */
    }
    f->rows = (struct prepared_rows){K, f->raw, f->value, f->key, f->state};
    f->chain = (struct chain){.rule = tensor_core_rule(sm),
                              .act = act,
                              .shift = shift,
                              .special = special,
                              .rows = &f->rows,
                              .row = all_rows,
                              .count = ROWS,
                              .block = blocks,
                              .blocks = K / 16,
                              .strips = 1,
                              .b = f->b};
}

static void run(struct fixture *f, panel_chain_fn *chain, float *out)
{
    memcpy(out, f->start, sizeof f->start);
    f->chain.acc = out;
    chain(&f->chain);
}

static long compare(const char *name, int count_only)
{
    panel_chain_fn *fast = panel_chain_named(name);
    struct fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    long outputs = 0, wrong = 0;
    state = 1;
    for (int shape = 0; fast && shape < 6; shape++)
        for (int kind = 0; kind < 5; kind++)
            for (int round = 0; round < 120; round++) {
                float want[ROWS * 16], got[ROWS * 16];
                fill(f, shape < 2 ? ACT_F16 : ACT_BF16, shape >= 4 ? 110 : 0, shape & 1 ? 90 : 80, kind, round);
                run(f, panel_chain_scalar, want);
                run(f, fast, got);
                for (int i = 0; i < ROWS * 16; i++)
                    wrong += f32_bits(want[i]) != f32_bits(got[i]);
                outputs += ROWS * 16;
            }
    free(f);
    return count_only ? outputs : wrong;
}

START_TEST(portable_chains_equal_the_scalar_rule)
{
    ck_assert_int_gt(compare("portable", 1), 200000);
    ck_assert_int_eq(compare("portable", 0), 0);
}
END_TEST

START_TEST(vector_chains_equal_the_scalar_rule)
{
    static const char *const names[] = {"avx2", "avx512"};
    for (int i = 0; i < 2; i++) {
        if (!panel_chain_named(names[i]))
            printf("NO_EVIDENCE: this CPU has no %s\n", names[i]);
        ck_assert_int_eq(compare(names[i], 0), 0);
    }
}
END_TEST

START_TEST(a_rule_with_one_bit_more_is_told_apart)
{
    struct fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    float want[ROWS * 16], got[ROWS * 16];
    long differ = 0;
    state = 7;
    for (int round = 0; round < 50; round++) {
        fill(f, ACT_BF16, 0, 90, 2, round);
        run(f, panel_chain_best(NULL), want);
        f->chain.rule.fraction = 26;
        run(f, panel_chain_best(NULL), got);
        for (int i = 0; i < ROWS * 16; i++)
            differ += f32_bits(want[i]) != f32_bits(got[i]);
    }
    ck_assert_int_gt(differ, 100);
    free(f);
}
END_TEST

START_TEST(sixteen_bit_floats_round_to_nearest_even_over_their_whole_domain)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float b = bf16_to_f32((uint16_t)h), f = f16_to_f32((uint16_t)h);
        if (b == b)
            ck_assert_uint_eq(bf16_from_f32(b), h);
        if (f == f)
            ck_assert_uint_eq(f16_from_f32(f), h);
        if (f == f && (h & 0x7fff) < 0x7bff) {
            float up = f16_to_f32((uint16_t)(h + 1)), middle = (f + up) / 2; /* exact */
            ck_assert_uint_eq(f16_from_f32(middle), h + (h & 1));
        }
        if (b == b && (h & 0x7fff) < 0x7f7f) {
            float middle = f32_from_bits(h << 16 | 0x8000);
            ck_assert_uint_eq(bf16_from_f32(middle), h + (h & 1));
            ck_assert_uint_eq(bf16_from_f32(f32_from_bits(h << 16 | 0x8001)), h + 1);
            ck_assert_uint_eq(bf16_from_f32(f32_from_bits(h << 16 | 0x7fff)), h);
        }
    }
    ck_assert_uint_eq(f16_from_f32(65519.99f), 0x7bff);
    ck_assert_uint_eq(f16_from_f32(65520.f), 0x7c00);
    ck_assert_uint_eq(f16_from_f32(0x1p-25f), 0);
    ck_assert_uint_eq(f16_from_f32(0x1.8p-25f), 1);
    ck_assert_uint_eq(bf16_from_f32(f32_from_bits(0xffc12345)), 0x7fff);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("panel");
    TCase *t = tcase_create("bits");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, portable_chains_equal_the_scalar_rule);
    tcase_add_test(t, vector_chains_equal_the_scalar_rule);
    tcase_add_test(t, a_rule_with_one_bit_more_is_told_apart);
    tcase_add_test(t, sixteen_bit_floats_round_to_nearest_even_over_their_whole_domain);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
