/* Attention against vLLM's own FlashAttention 3: outputs of the operator of vLLM 0.25.0 on an H200 (driver 580.159.04,
 * torch 2.11.0+cu130), 9 query heads and 3 kv heads of 64, pages of 16 keys, causal, by SHA-256. */
#include "harness/base/sha256.h"
#include "kernels/ops.h"
#include "kernels/test/help_zstd.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 3, KV_HEADS = 3, WIDTH = GROUP * KV_HEADS * HEAD_DIM, MOST = 1000 };

static struct hw_tables *hw;
static uint16_t *query, *key, *value; /* [MOST][heads][HEAD_DIM] */

static uint64_t splitmix(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Near to normal: the sum of four 16-bit digits, divided by its standard deviation, times scale, rounded to bf16. */
static uint16_t *random_rows(uint64_t seed, int width, float scale)
{
    uint16_t *x = malloc((size_t)MOST * (size_t)width * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (uint64_t i = 0; i < (uint64_t)MOST * (uint64_t)width; i++) {
        uint64_t u = splitmix(seed, i);
        int sum = (int)(u & 0xffff) + (int)(u >> 16 & 0xffff) + (int)(u >> 32 & 0xffff) + (int)(u >> 48) - 131070;
        float f = (float)sum * (1.f / 37837) * scale;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        x[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return x;
}

static int8_t *table(const char *path)
{
    size_t bytes;
    return (int8_t *)help_unzstd(path, &bytes);
}

static void set_up(void)
{
    hw = malloc(sizeof *hw);
    ck_assert_ptr_nonnull(hw);
    hw_init(hw, table("kernels/tables/ex2.i8.zst"), table("kernels/tables/rcp.i8.zst"),
            table("kernels/tables/rsq.i8.zst"), table("kernels/tables/lg2.i32i8i16.zst"));
    query = random_rows(1, WIDTH, 1.5f);
    key = random_rows(2, KV_HEADS * HEAD_DIM, 1.5f);
    value = random_rows(3, KV_HEADS * HEAD_DIM, 1);
}

static void tear_down(void)
{
    free((void *)hw->ex2), free((void *)hw->rcp), free((void *)hw->rsq), free((void *)hw->lg2);
    free(hw);
    free(query), free(key), free(value);
}

/* The last `rows` of `keys` positions, all heads; out[rows][WIDTH], as a hash. */
static void attend(int rows, int keys, int block, int splits, char hash[SHA256_HEX_SIZE])
{
    int capacity = kv_capacity(keys);
    size_t bytes = (size_t)rows * WIDTH * sizeof(uint16_t);
    uint16_t *out = malloc(bytes);
    void *memory = aligned_alloc(64, (kv_bytes(capacity) + 63) / 64 * 64);
    void *scratch = aligned_alloc(64, (op_attention_scratch(0) + 63) / 64 * 64);
    uint8_t raw[SHA256_BYTES];
    ck_assert(out && memory && scratch);
    memset(out, 0xff, bytes);
    for (int h = 0; h < KV_HEADS; h++) {
        struct kv_cache c;
        kv_init(&c, memory, capacity);
        for (int i = 0; i < keys; i++)
            kv_append(&c, key + (i * KV_HEADS + h) * HEAD_DIM, value + (i * KV_HEADS + h) * HEAD_DIM);
        struct attention a = {.hw = hw,
                              .sm = 90,
                              .rows = rows,
                              .group = GROUP,
                              .q = query + (keys - rows) * WIDTH + h * GROUP * HEAD_DIM,
                              .q_stride = WIDTH,
                              .out = out + h * GROUP * HEAD_DIM,
                              .out_stride = WIDTH,
                              .first = keys - rows,
                              .block = block,
                              .splits = splits,
                              .scale = 0.125,
                              .scratch = scratch};
        op_attention(&a, &c);
    }
    sha256_of(out, bytes, raw);
    sha256_hex(raw, hash);
    free(out), free(memory), free(scratch);
}

static const struct {
    int rows, keys, block, splits;
    const char *sha256;
} recorded[] = {
    {399, 399, 128, 1, "db706583b58ccd349e5a5c0b68eb5cc65701d8b8902a62f580a9d5b17fb4c4af"},
    {399, 399, 128, 2, "15ffd3923db6b55b1728b75c1ceff6e91dbc193f630f9ef2a27fd6cc30d3e119"},
    {399, 399, 128, 3, "d71cc04c8865fbaee48e85a6b91260f075322ed2827850dbbe536137eb26574e"},
    {399, 399, 128, 4, "b23814fe364b02bfa3d4a1fac31274fa953a10584bdfc90de34326d5e5452fea"},
    {1000, 1000, 128, 2, "16e77e037fec69c405b6fc3cb183c5e06ae01a4b4c7c493b4a02f6cf7fe365fb"},
    {1, 193, 192, 2, "c867b1989c8c717fcd9e0ed0954f33aa48c746babb2ca86ffc27624c0047e2d5"},
    {1, 463, 192, 1, "a344e2a03e87fcdce5f8e0cf4289d64e3ef21fa8bd931eede96ee6272aebdede"},
    {1, 463, 192, 2, "f4ddd1459b001a5b45645e2f295835d63ffea04ab9b013bc8de45a7beee23afa"},
    {1, 463, 192, 3, "e4bb2548b1c6815b8dbae2b1964d4c5216578d18e476f76d73bd6d6fb57ea152"},
    {1, 700, 192, 4, "61b9c696f0f6fd9caa94930d5148d5bd290aca1662e8cb04efae4a2edb23e2d6"},
    {1, 1000, 192, 6, "4787ae320ac12521f55c661b10121fedff8812a6f7f5705a2ff2c5d66422b7a3"},
};

START_TEST(the_recorded_gpu_is_met)
{
    char hash[SHA256_HEX_SIZE];
    attend(recorded[_i].rows, recorded[_i].keys, recorded[_i].block, recorded[_i].splits, hash);
    ck_assert_str_eq(hash, recorded[_i].sha256);
}
END_TEST

/* The hashes tell one way of sharing out from another, and the last bits of one dimension from others. */
START_TEST(another_way_is_another_hash)
{
    char hash[SHA256_HEX_SIZE];
    attend(1, 463, 192, 2, hash);
    ck_assert_str_ne(hash, recorded[8].sha256);
    attend(1, 463, 128, 1, hash);
    ck_assert_str_ne(hash, recorded[6].sha256);
    for (int i = 0; i < 463; i++)
        value[i * KV_HEADS * HEAD_DIM] ^= 1;
    attend(1, 463, 192, 3, hash);
    ck_assert_str_ne(hash, recorded[8].sha256);
}
END_TEST

/* Rows, keys, the length that the scheduler was told; the splits that its metadata named. */
static const int splits[][4] = {
    {399, 399, 399, 1},  {399, 399, 512, 1},    {399, 399, 513, 4}, {399, 399, 8192, 4}, {463, 463, 463, 1},
    {463, 463, 8192, 4}, {1, 193, 193, 1},      {1, 193, 8192, 2},  {1, 384, 8192, 2},   {1, 400, 8192, 3},
    {1, 463, 463, 1},    {1, 463, 8192, 3},     {1, 700, 700, 1},   {1, 700, 8192, 4},   {1, 1000, 1000, 6},
    {1, 1000, 8192, 6},  {1000, 1000, 1000, 2},
};

START_TEST(the_splits_are_those_of_the_recorded_schedule)
{
    const int *s = splits[_i];
    struct attention_plan p = attention_plan(132, KV_HEADS, GROUP, &s[0], &s[1], 1, s[2]);
    ck_assert_int_eq(attention_splits(&p, s[1]), s[3]);
}
END_TEST

/* 31 short companions take a share of the multiprocessors, but the bound is that of the longest alone: its output in
 * the recorded batch was that of 2 splits, and as the only long one of a step of single tokens, of 3. */
START_TEST(companions_count_as_work_only)
{
    int rows[32] = {37, 40, 40, 38, 8, 7, 46, 39, 44, 37, 37, 36, 38, 36, 10, 6,
                    13, 7,  11, 10, 7, 5, 17, 17, 40, 41, 38, 40, 10, 3,  1,  399};
    int one[32], keys[32];
    for (int i = 0; i < 32; i++)
        one[i] = 1, keys[i] = rows[i] + 1;
    struct attention_plan p = attention_plan(132, KV_HEADS, GROUP, rows, rows, 32, 8192);
    ck_assert_int_eq(attention_splits(&p, 399), 2);
    p = attention_plan(132, KV_HEADS, GROUP, one, keys, 32, 8192);
    ck_assert_int_eq(attention_splits(&p, 400), 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("FlashAttention 3");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, the_recorded_gpu_is_met, 0, (int)(sizeof recorded / sizeof *recorded));
    tcase_add_test(t, another_way_is_another_hash);
    suite_add_tcase(s, t);
    t = tcase_create("splits");
    tcase_add_loop_test(t, the_splits_are_those_of_the_recorded_schedule, 0, (int)(sizeof splits / sizeof *splits));
    tcase_add_test(t, companions_count_as_work_only);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
