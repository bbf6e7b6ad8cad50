/* The scalar executor against the GPU's own bytes: tensor-core steps, whole kernels; and what its mutants break. */
#include "kernels/test/help_zstd.h"
#include "kernels/vectors/run.h"

#include "harness/base/mapped.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES "kernels/test/data/marlin/cases.jsonl"

/* Operations of the tensor-core file. */
static const struct {
    enum activation act;
    int products, zero_c;
} operation[] = {{ACT_BF16, 16, 0}, {ACT_F16, 16, 0},  {ACT_BF16, 8, 0}, {ACT_F16, 8, 0},   {ACT_F16, 16, 0},
                 {ACT_F16, 8, 0},   {ACT_BF16, 16, 0}, {ACT_F16, 16, 0}, {ACT_BF16, 16, 1}, {ACT_F16, 16, 1}};

/* Differing outputs of one tile. */
static int tile_f32(const struct tensor_core *t, int op, const uint16_t *a, const uint16_t *b, const void *c,
                    const void *d)
{
    int bad = 0;
    for (int i = 0; i < 128; i++) {
        float from, want;
        memcpy(&from, (const char *)c + 4 * i, 4);
        memcpy(&want, (const char *)d + 4 * i, 4);
        float got = scalar_mma(t, operation[op].act, operation[op].zero_c ? 0 : from, a + i / 8 * 16, b + i % 8 * 16,
                               operation[op].products);
        bad += memcmp(&got, &want, 4) != 0;
    }
    return bad;
}

static int tile_f16(const struct tensor_core *t, int op, const uint16_t *a, const uint16_t *b, const void *c,
                    const void *d)
{
    int bad = 0;
    for (int i = 0; i < 128; i++) {
        uint16_t from, want;
        memcpy(&from, (const char *)c + 2 * i, 2);
        memcpy(&want, (const char *)d + 2 * i, 2);
        bad += scalar_mma_f16(t, from, a + i / 8 * 16, b + i % 8 * 16, operation[op].products) != want;
    }
    return bad;
}

static int golden(const struct tensor_core *t, long *outputs)
{
    size_t bytes, at = 0;
    int bad = 0;
    char *data = help_unzstd("kernels/test/data/tensorcore/golden_sm90_small.bin.zst", &bytes);
    *outputs = 0;
    while (at < bytes) {
        int32_t head[4];
        uint16_t a[256], b[128];
        memcpy(head, data + at, sizeof head);
        int half = head[0] == 0x31484354;
        ck_assert(half || head[0] == 0x31474354);
        ck_assert(head[1] >= 0 && head[1] < 10);
        at += sizeof head;
        for (int i = 0; i < head[3]; i++, at += 768 + 256 * (half ? 2 : 4)) {
            memcpy(a, data + at, 512);
            memcpy(b, data + at + 512, 256);
            const char *c = data + at + 768, *d = c + 128 * (half ? 2 : 4);
            bad += half ? tile_f16(t, head[1], a, b, c, d) : tile_f32(t, head[1], a, b, c, d);
            *outputs += 128;
        }
    }
    ck_assert_uint_eq(at, bytes);
    free(data);
    return bad;
}

START_TEST(every_recorded_step_of_the_tensor_core_is_equal_in_every_bit)
{
    struct tensor_core t = scalar_tensor_core(90);
    long outputs;
    ck_assert_int_eq(golden(&t, &outputs), 0);
    ck_assert_int_eq(outputs, 19200);
}
END_TEST

START_TEST(another_rule_of_the_tensor_core_differs_from_the_recorded_steps)
{
    static const struct tensor_core other[] = {
        {16, 24, -133, -21}, {16, 26, -133, -21}, {8, 25, -133, -21}, {8, 24, -132, -20}};
    long outputs;
    for (int i = 0; i < 4; i++)
        ck_assert_int_gt(golden(&other[i], &outputs), 1000);
}
END_TEST

struct tally {
    int cases, bad, bad_norm, bad_cancel, norm, cancel;
    long outputs;
};

static struct gpu_profile gpus[BUILDS];
static const char *const gpu_paths[BUILDS] = {"batteries/gpus/h200-native.json", "batteries/gpus/h200.json"};

/* Runs cases of at most `limit` multiply-adds; fast picks the executor. */
static struct tally run_cases(enum vector_build build, const struct scalar_mutation *x, int fast, long limit)
{
    struct tally sum = {0};
    struct mapped m;
    static struct vector_case c;
    static struct gemm_plan plan;
    static uint16_t out[16384];
    struct err e = {0};
    ck_assert_msg(!mapped_open(CASES, &m, &e), "%s", e.text);
    const char *p = m.data, *end = p + m.bytes;
    for (int line = 1; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        struct vector_inputs in;
        uint8_t hash[SHA256_BYTES];
        char hex[SHA256_HEX_SIZE];
        ck_assert_msg(!vector_case_parse(p, (size_t)(stop - p), CASES, line, &c, &e), "%s", e.text);
        p = stop + 1;
        size_t n = (size_t)c.shape.m * (size_t)c.shape.topk * (size_t)c.shape.n;
        int regrouped = x && x->par_regrouped, grouping_decides = c.shape.blocks > 4;
        if (!c.has[build] || (fast && c.shape.reduce == REDUCE_ATOMIC) ||
            (regrouped ? !grouping_decides : (long)n * c.shape.k > limit))
            continue;
        ck_assert_uint_le(n, sizeof out / 2);
        ck_assert_msg(!plan_make(&c.shape, &gpus[build], &plan, &e) && !vector_launches_check(&c, build, &plan, &e) &&
                          !vector_inputs_make(&c, &in, &e),
                      "%s", e.text);
        memset(out, 0xa5, 2 * n);
        int rc = fast ? vector_run(&c, &in, &plan, NULL, out, &e) : vector_run_scalar(&c, &in, &plan, x, out, &e);
        ck_assert_msg(!rc, "%s: %s", c.id, e.text);
        vector_inputs_free(&c, &in);
        sha256_of(out, 2 * n, hash);
        sha256_hex(hash, hex);
        int bad = strcmp(hex, c.sha256[build]) != 0;
        ck_assert_msg(!bad || x, "%s: other bytes than the GPU's", c.id);
        sum.cases++;
        sum.outputs += (long)n;
        sum.bad += bad;
        sum.norm += c.kind == KIND_NORM;
        sum.cancel += c.kind == KIND_CANCEL;
        sum.bad_norm += bad && c.kind == KIND_NORM;
        sum.bad_cancel += bad && c.kind == KIND_CANCEL;
    }
    mapped_close(&m);
    return sum;
}

static void open_gpus(void)
{
    struct err e = {0};
    for (int b = 0; b < BUILDS; b++)
        ck_assert_msg(!profile_read(gpu_paths[b], &gpus[b], &e), "%s", e.text);
}

static void close_gpus(void)
{
    for (int b = 0; b < BUILDS; b++)
        profile_free(&gpus[b]);
}

START_TEST(scalar_executor_gives_the_bytes_of_the_real_kernels)
{
    for (int b = 0; b < BUILDS; b++) {
        struct tally t = run_cases((enum vector_build)b, NULL, 0, 140000);
        ck_assert_int_eq(t.bad, 0);
        ck_assert_int_ge(t.cases, 100);
    }
}
END_TEST

START_TEST(fast_executor_gives_the_bytes_of_the_real_kernels)
{
    for (int b = 0; b < BUILDS; b++) {
        struct tally t = run_cases((enum vector_build)b, NULL, 1, 1 << 24);
        ck_assert_int_eq(t.bad, 0);
        ck_assert_int_ge(t.cases, 250);
    }
}
END_TEST

/* Mutants that normal data may miss must be killed by cancelling inputs at least. */
static const struct {
    const char *name;
    struct scalar_mutation x;
} mutant[] = {
    {"tensor core keeps 24 bits", {.fraction = 24}},
    {"tensor core keeps 26 bits", {.fraction = 26}},
    {"tensor core adds 8 + 8", {.halves = 1}},
    {"fold ((0+1)+2)+3", {.fold_left = 1}},
    {"slices from the smallest k", {.top_first = 1}},
    {"operand cut off", {.truncate_operand = 1}},
    {"global scale after rounding", {.global_after = 1}},
    {"scale of the next group", {.wrong_group = 1}},
    {"re-encode keeps scales below 2", {.keep_small = 1}},
    {"row blocks regrouped", {.par_regrouped = 1}},
    {"first slice wins", {.first_slice_wins = 1}},
};

START_TEST(every_link_of_the_contract_is_held_by_some_case)
{
    struct tally t = run_cases(BUILD_PTX80, &mutant[_i].x, 0, 140000);
    printf("mutant  %-32s killed by %3d of %3d normal, %3d of %3d cancelling, %3d of %3d cases in all\n",
           mutant[_i].name, t.bad_norm, t.norm, t.bad_cancel, t.cancel, t.bad, t.cases);
    fflush(stdout);
    ck_assert_msg(t.bad > 0, "%s survived %d cases", mutant[_i].name, t.cases);
    if (_i < 4) /* what only the last bits show, normal data hide behind the 16-bit rounding */
        ck_assert_msg(t.bad_cancel * t.norm > t.bad_norm * t.cancel, "%s", mutant[_i].name);
}
END_TEST

START_TEST(atomic_adds_of_two_have_one_result_and_of_three_a_set)
{
    uint16_t one = 0x3c00, half_ulp = 0x1000, negative = 0xbc00, out[8]; /* 1, 2^-11, -1 in fp16 */
    uint16_t two[2] = {one, half_ulp}, three[3] = {one, half_ulp, negative};
    ck_assert_int_eq(scalar_atomic_set(two, 2, ACT_F16, out, 8), 1);
    ck_assert_uint_eq(out[0], scalar_add(one, half_ulp, ACT_F16));
    ck_assert_int_eq(scalar_atomic_set(three, 3, ACT_F16, out, 8), 2);
    ck_assert(out[0] != out[1]);
    ck_assert_int_eq(scalar_atomic_set(three, 3, ACT_F16, out, 1), -1);
    uint16_t minus_zero = 0x8000;
    ck_assert_int_eq(scalar_atomic_set(&minus_zero, 1, ACT_F16, out, 8), 1);
    ck_assert_uint_eq(out[0], 0); /* the sum starts from +0 */
}
END_TEST

START_TEST(every_16_bit_float_survives_widening_and_rounding)
{
    for (int act = 0; act < 2; act++)
        for (int h = 0; h < 65536; h++) {
            double x = scalar_widen((uint16_t)h, (enum activation)act);
            int want = x != x ? 0x7fff : h;
            ck_assert_int_eq(scalar_round(x, (enum activation)act), want);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scalar");
    TCase *t = tcase_create("scalar");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, open_gpus, close_gpus);
    tcase_add_test(t, every_16_bit_float_survives_widening_and_rounding);
    tcase_add_test(t, every_recorded_step_of_the_tensor_core_is_equal_in_every_bit);
    tcase_add_test(t, another_rule_of_the_tensor_core_differs_from_the_recorded_steps);
    tcase_add_test(t, scalar_executor_gives_the_bytes_of_the_real_kernels);
    tcase_add_test(t, fast_executor_gives_the_bytes_of_the_real_kernels);
    tcase_add_loop_test(t, every_link_of_the_contract_is_held_by_some_case, 0, sizeof mutant / sizeof *mutant);
    tcase_add_test(t, atomic_adds_of_two_have_one_result_and_of_three_a_set);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
