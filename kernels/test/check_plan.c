/* The planner against the written tables, every observed launch, and a second way to walk the stripes. */
#include "kernels/plan_compare.h"
#include "kernels/test/help_zstd.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gpu_profile profile(const char *name)
{
    char path[128];
    struct gpu_profile g;
    struct err e = {0};
    snprintf(path, sizeof path, "batteries/gpus/%s.json", name);
    ck_assert_msg(!profile_read(path, &g, &e), "%s", e.text);
    return g;
}

/* The six kernel families of the tables. */
static const struct {
    enum weight_format format;
    enum activation act;
    int group;
} family[] = {{WF_U4B8, ACT_BF16, 128}, {WF_U4B8, ACT_F16, 128}, {WF_U4B8, ACT_BF16, 0},
              {WF_NVFP4, ACT_BF16, 16}, {WF_NVFP4, ACT_F16, 16}, {WF_MXFP4, ACT_BF16, 32}};

static const struct {
    const char *gpu;
    enum gemm_route route;
    int m, n, k, families, tk, tn, grid, NT, T, dp, R, iters, ctas, tiles_with[3][2];
} table[] = {
    {"h200", ROUTE_DENSE, 1, 1536, 8960, 0x3f, 128, 64, 132, 24, 70, 0, 24, 13, 130, {{16, 6}, {8, 7}, {0, 0}}},
    {"h200", ROUTE_DENSE, 8, 1536, 8960, 0x3f, 128, 64, 132, 24, 70, 0, 24, 13, 130, {{16, 6}, {8, 7}, {0, 0}}},
    {"h200", ROUTE_DENSE, 16, 1280, 8192, 0x3f, 128, 64, 132, 20, 64, 0, 20, 10, 128, {{16, 7}, {4, 8}, {0, 0}}},
    {"h200", ROUTE_DENSE, 64, 1024, 5120, 0x3f, 128, 64, 132, 16, 40, 0, 16, 5, 128, {{16, 8}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_DENSE, 1, 576, 1536, 0x3f, 128, 64, 132, 9, 12, 0, 9, 1, 108, {{9, 12}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_DENSE, 8, 5120, 5120, 0x3f, 128, 128, 132, 40, 40, 0, 40, 13, 124, {{40, 4}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_DENSE, 8, 25600, 5120, 0x3f, 128, 128, 132, 200, 40, 1, 68, 21, 132, {{132, 1}, {10, 2}, {58, 3}}},
    {"h200", ROUTE_DENSE, 1, 768, 4096, 0x3f, 128, 64, 132, 12, 32, 0, 12, 3, 128, {{8, 11}, {4, 12}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 1, 1536, 8960, 0x3f, 128, 64, 48, 24, 70, 0, 24, 35, 48, {{24, 2}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 8, 1536, 8960, 0x3f, 128, 64, 48, 24, 70, 0, 24, 35, 48, {{24, 2}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 16, 1280, 8192, 0x3f, 128, 64, 48, 20, 64, 0, 20, 27, 48, {{13, 3}, {7, 4}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 64, 1024, 5120, 0x3f, 128, 64, 48, 16, 40, 0, 16, 14, 46, {{5, 3}, {11, 4}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 1, 576, 1536, 0x3f, 128, 64, 48, 9, 12, 0, 9, 3, 36, {{9, 4}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 8, 5120, 5120, 0x3f, 128, 128, 48, 40, 40, 0, 40, 34, 48, {{35, 2}, {5, 3}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 8, 25600, 5120, 0x3f, 128, 128, 48, 200, 40, 3, 56, 47, 48, {{154, 1}, {46, 2}, {0, 0}}},
    {"gb10", ROUTE_DENSE, 1, 768, 4096, 0x3f, 128, 64, 48, 12, 32, 0, 12, 8, 48, {{12, 4}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 1536, 8960, 0x3f, 128, 128, 132, 12, 70, 0, 12, 7, 120, {{12, 10}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 1280, 8192, 0x3f, 128, 128, 132, 10, 64, 0, 10, 5, 128, {{4, 13}, {6, 14}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 1024, 5120, 0x3f, 128, 128, 132, 8, 40, 0, 8, 3, 107, {{8, 14}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 576, 1536, 0x3f, 128, 64, 132, 9, 12, 0, 9, 1, 108, {{9, 12}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 5120, 5120, 0x3f, 128, 64, 264, 80, 40, 0, 80, 13, 247, {{80, 4}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 25600, 5120, 0x08, 64, 128, 396, 200, 80, 0, 200, 41, 391, {{14, 2}, {186, 3}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 25600, 5120, 0x01, 64, 128, 396, 200, 80, 0, 200, 42, 381, {{29, 2}, {171, 3}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 25600, 5120, 0x34, 64, 128, 528, 200, 80, 0, 200, 31, 517, {{90, 3}, {110, 4}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 25600, 5120, 0x02, 64, 128, 528, 200, 80, 0, 200, 32, 500, {{200, 3}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 1, 768, 4096, 0x3f, 128, 128, 132, 6, 32, 0, 6, 2, 96, {{6, 16}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 1536, 8960, 0x3f, 128, 64, 396, 24, 70, 0, 24, 5, 336, {{24, 14}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 1280, 8192, 0x3f, 128, 64, 396, 20, 64, 0, 20, 4, 320, {{20, 16}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 1024, 5120, 0x3f, 128, 64, 396, 16, 40, 0, 16, 2, 320, {{16, 20}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 576, 1536, 0x3f, 128, 64, 264, 9, 12, 0, 9, 1, 108, {{9, 12}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 5120, 5120, 0x3c, 64, 128, 396, 40, 80, 0, 40, 9, 356, {{9, 9}, {31, 10}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 5120, 5120, 0x03, 64, 128, 396, 40, 80, 0, 40, 10, 320, {{40, 8}, {0, 0}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 25600, 5120, 0x3c, 64, 128, 396, 200, 80, 0, 200, 41, 391, {{14, 2}, {186, 3}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 25600, 5120, 0x03, 64, 128, 396, 200, 80, 0, 200, 42, 381, {{29, 2}, {171, 3}, {0, 0}}},
    {"h200", ROUTE_GROUPED, 8, 768, 4096, 0x3f, 128, 64, 264, 12, 32, 0, 12, 2, 192, {{12, 16}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 1536, 8960, 0x3f, 128, 64, 96, 24, 70, 0, 24, 18, 94, {{5, 4}, {19, 5}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 1280, 8192, 0x3f, 128, 128, 48, 10, 64, 0, 10, 14, 46, {{6, 5}, {4, 6}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 1024, 5120, 0x3f, 128, 128, 48, 8, 40, 0, 8, 7, 46, {{4, 6}, {4, 7}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 576, 1536, 0x3f, 128, 64, 48, 9, 12, 0, 9, 3, 36, {{9, 4}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 5120, 5120, 0x3c, 64, 128, 144, 40, 80, 0, 40, 23, 140, {{22, 4}, {18, 5}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 5120, 5120, 0x03, 64, 128, 144, 40, 80, 0, 40, 24, 134, {{40, 4}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 25600, 5120, 0x3f, 64, 128, 144, 200, 80, 1, 56, 32, 144, {{144, 1}, {56, 3}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 1, 768, 4096, 0x3f, 128, 128, 48, 6, 32, 0, 6, 4, 48, {{6, 8}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 1536, 8960, 0x3f, 64, 128, 144, 12, 140, 0, 12, 12, 140, {{8, 12}, {4, 13}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 1280, 8192, 0x3c, 64, 128, 144, 10, 128, 0, 10, 9, 143, {{9, 15}, {1, 16}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 1280, 8192, 0x03, 64, 128, 144, 10, 128, 0, 10, 10, 128, {{4, 13}, {6, 14}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 1024, 5120, 0x3c, 64, 128, 144, 8, 80, 0, 8, 5, 128, {{8, 16}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 1024, 5120, 0x03, 64, 128, 144, 8, 80, 0, 8, 6, 107, {{8, 14}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 576, 1536, 0x3f, 128, 64, 96, 9, 12, 0, 9, 2, 54, {{9, 6}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 5120, 5120, 0x3c, 64, 128, 144, 40, 80, 0, 40, 23, 140, {{22, 4}, {18, 5}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 5120, 5120, 0x03, 64, 128, 144, 40, 80, 0, 40, 24, 134, {{40, 4}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 25600, 5120, 0x3f, 64, 128, 144, 200, 80, 1, 56, 32, 144, {{144, 1}, {56, 3}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 768, 4096, 0x3c, 64, 128, 144, 6, 64, 0, 6, 3, 128, {{6, 22}, {0, 0}, {0, 0}}},
    {"gb10", ROUTE_GROUPED, 8, 768, 4096, 0x03, 64, 128, 144, 6, 64, 0, 6, 4, 96, {{6, 16}, {0, 0}, {0, 0}}},
};

static int ctas_with_work(const struct gemm_launch *l)
{
    static unsigned char seen[4096];
    struct gemm_slice s[512];
    int n = 0;
    memset(seen, 0, sizeof seen);
    for (int t = 0; t < l->par * l->NT; t++)
        for (int i = plan_slices(l, t, s, 512) - 1; i >= 0; i--)
            n += !seen[s[i].cta]++;
    return n;
}

static void check_row(size_t i, const struct gpu_profile *g, int f)
{
    struct err e = {0};
    static struct gemm_plan p;
    struct gemm_shape s = {.route = table[i].route,
                           .m = table[i].m,
                           .n = table[i].n,
                           .k = table[i].k,
                           .format = family[f].format,
                           .act = family[f].act,
                           .group = family[f].group,
                           .experts = 1,
                           .topk = 1};
    int histogram[64] = {0};
    ck_assert_msg(!plan_make(&s, g, &p, &e), "row %zu: %s", i, e.text);
    const struct gemm_launch *l = &p.launch[0];
    ck_assert_int_eq(p.launches, 1);
    ck_assert_int_eq(l->tk, table[i].tk);
    ck_assert_int_eq(l->tn, table[i].tn);
    ck_assert_int_eq(l->grid, table[i].grid);
    ck_assert_int_eq(l->NT, table[i].NT);
    ck_assert_int_eq(l->T, table[i].T);
    ck_assert_int_eq(l->dp, table[i].dp);
    ck_assert_int_eq(l->R, table[i].R);
    ck_assert_int_eq(l->iters, table[i].iters);
    ck_assert_int_eq(ctas_with_work(l), table[i].ctas);
    for (int t = 0; t < l->NT; t++)
        histogram[plan_slices(l, t, NULL, 0)]++;
    for (int h = 0; h < 3; h++)
        if (table[i].tiles_with[h][0])
            ck_assert_int_eq(histogram[table[i].tiles_with[h][1]], table[i].tiles_with[h][0]);
}

START_TEST(every_row_of_the_written_tables_is_planned)
{
    int checked = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct gpu_profile g = profile(table[i].gpu);
        for (int f = 0; f < 6; f++)
            if (table[i].families >> f & 1)
                check_row(i, &g, f), checked++;
        profile_free(&g);
    }
    ck_assert_int_ge(checked, 200);
}
END_TEST

static void check_observed(const char *line, const struct gpu_profile *g)
{
    char route[16], format[16], dtype[16], mine[4096] = "";
    struct err e = {0};
    static struct gemm_plan p;
    struct gemm_shape s = {0};
    int at = 0;
    ck_assert_int_eq(sscanf(line, "%*s %15s %15s %15s %d %d %d %d %d %d %d %d %n", route, format, dtype, &s.group, &s.m,
                            &s.n, &s.k, &s.experts, &s.topk, &s.block_rows, &s.blocks, &at),
                     11);
    int rows = s.block_rows;
    s.route = (enum gemm_route)route_by_name(route);
    s.format = (enum weight_format)format_by_name(format);
    s.act = (enum activation)activation_by_name(dtype);
    if (s.route != ROUTE_DENSE) /* the caller's rule must choose what was observed, too */
        ck_assert_int_eq(plan_block_rows(s.m, s.topk, s.experts), rows);
    ck_assert_msg(!plan_make(&s, g, &p, &e), "%s: %s", line, e.text);
    for (int i = 0; i < p.launches; i++) {
        const struct gemm_launch *l = &p.launch[i];
        snprintf(mine + strlen(mine), sizeof mine - strlen(mine), "%s%d,%d,%d,%d,%d,%d,%d", i ? " " : "", l->rows,
                 l->tk, l->tn, l->threads, l->mb, l->m8, l->grid);
    }
    ck_assert_msg(!strcmp(mine, line + at), "%s: planned %s", line, mine);
}

START_TEST(every_launch_observed_on_an_h200_is_planned)
{
    size_t bytes;
    char *text = help_unzstd("kernels/test/data/marlin/launches.txt.zst", &bytes), *save = NULL;
    struct gpu_profile ptx = profile("h200"), native = profile("h200-native");
    int lines = 0;
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save), lines++)
        check_observed(l, strncmp(l, "h200-native ", 12) ? &ptx : &native);
    ck_assert_int_eq(lines, 8321);
    profile_free(&ptx);
    profile_free(&native);
    free(text);
}
END_TEST

/* Walks all CTAs in their own order, as section 3.1 words it, and expects plan_slices to have said the same. */
static void walk_stripes(const struct gemm_launch *l)
{
    static unsigned char owner_seen[1 << 16];
    struct gemm_slice s[512];
    int whole = l->dp * l->grid, tiles = l->par * l->NT;
    ck_assert_int_eq(whole + l->R, tiles);
    ck_assert((long)l->iters * l->grid >= (long)l->T * l->R);
    for (int t = 0; t < tiles; t++) {
        int n = plan_slices(l, t, s, 512), upto = l->T;
        ck_assert_int_le(n, 512);
        memset(owner_seen, 0, (size_t)l->T);
        for (int i = 0; i < n; i++) {
            ck_assert_int_eq(s[i].t1, upto);
            ck_assert_int_lt(s[i].t0, s[i].t1);
            ck_assert(s[i].cta >= 0 && s[i].cta < l->grid);
            upto = s[i].t0;
            for (int k = s[i].t0; k < s[i].t1; k++) {
                long position = (long)(t - whole) * l->T + k;
                ck_assert_int_eq(s[i].cta, t < whole ? t % l->grid : (int)(position / l->iters));
                ck_assert_int_eq(owner_seen[k]++, 0);
            }
        }
        ck_assert_int_eq(upto, 0);
    }
}

START_TEST(slices_tile_the_k_range_exactly_once)
{
    unsigned long x = 88172645463325252ul;
    static const char *const names[] = {"h200", "gb10", "a100", "rtx-pro-6000"};
    int planned = 0;
    for (int i = 0; i < 4; i++) {
        struct gpu_profile g = profile(names[i]);
        for (int j = 0; j < 60; j++) {
            unsigned r[5];
            for (int q = 0; q < 5; q++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                r[q] = (unsigned)(x >> 20);
            }
            static struct gemm_plan p;
            struct gemm_shape s = {.route = (enum gemm_route)(r[0] % 3),
                                   .m = 1 + (int)(r[1] % 600),
                                   .n = 64 * (1 + (int)(r[2] % 60)),
                                   .k = 128 * (1 + (int)(r[3] % 40)),
                                   .format = WF_U4B8,
                                   .group = 128,
                                   .experts = 1,
                                   .topk = 1};
            if (plan_make(&s, &g, &p, NULL))
                continue;
            int rows = 0;
            for (int l = 0; l < p.launches; l++) {
                ck_assert_int_eq(p.launch[l].first_row, rows);
                rows += p.launch[l].rows;
                walk_stripes(&p.launch[l]);
            }
            ck_assert_int_eq(rows, s.m);
            planned++;
        }
        profile_free(&g);
    }
    ck_assert_int_ge(planned, 200);
}
END_TEST

START_TEST(par1_has_the_grouped_tile_and_one_cta_an_sm)
{
    struct gpu_profile g = profile("gb10");
    static struct gemm_plan grouped, par1, dense;
    struct gemm_shape s = {.m = 8, .n = 1024, .k = 5120, .format = WF_NVFP4, .group = 16, .experts = 1, .topk = 1};
    ck_assert(!plan_make(&s, &g, &dense, NULL));
    s.route = ROUTE_GROUPED;
    ck_assert(!plan_make(&s, &g, &grouped, NULL));
    s.route = ROUTE_PAR1;
    ck_assert(!plan_make(&s, &g, &par1, NULL));
    ck_assert_int_eq(ctas_with_work(&grouped.launch[0]), 128);
    ck_assert_int_le(ctas_with_work(&dense.launch[0]), 48);
    ck_assert_int_eq(par1.launch[0].grid, 48);
    ck_assert_int_eq(par1.launch[0].tk, grouped.launch[0].tk);
    ck_assert_int_eq(par1.launch[0].tn, grouped.launch[0].tn);
    profile_free(&g);
}
END_TEST

static void refused(struct gemm_shape s, int code, const char *says)
{
    struct gpu_profile g = profile("h200");
    static struct gemm_plan p;
    struct err e = {0};
    ck_assert_int_eq(plan_make(&s, &g, &p, &e), code);
    ck_assert_msg(strstr(e.text, says) != NULL, "\"%s\" does not say \"%s\"", e.text, says);
    profile_free(&g);
}

START_TEST(bad_shapes_say_what_would_be_valid)
{
    const struct gemm_shape ok = {.m = 1, .n = 256, .k = 512, .format = WF_U4B8, .group = 128, .experts = 1, .topk = 1};
    struct gemm_shape s = ok;
    s.k = 512 + 32, s.group = 32;
    refused(s, E_UNSUPPORTED, "here n 256, k 576");
    s = ok, s.m = 0;
    refused(s, E_USAGE, "must be in 1..");
    s = ok, s.k = 192;
    refused(s, E_USAGE, "must be a multiple of 128");
    s = ok, s.group = 48;
    refused(s, E_UNSUPPORTED, "valid are 32, 64, 128 and 0");
    s = ok, s.format = WF_NVFP4;
    refused(s, E_USAGE, "groups of 16");
    s = ok, s.format = WF_MXFP4, s.group = 32, s.act = ACT_F16;
    refused(s, E_UNSUPPORTED, "bf16 activations only");
    s = ok, s.experts = 8;
    refused(s, E_USAGE, "use grouped");
    s = ok, s.route = ROUTE_GROUPED, s.experts = 8, s.topk = 2;
    refused(s, E_USAGE, "aligns the routes");
    s = ok, s.route = ROUTE_GROUPED, s.block_rows = 24;
    refused(s, E_USAGE, "valid are 8, 16, 32, 48 and 64");
    s = ok, s.route = ROUTE_GROUPED, s.reduce = REDUCE_ATOMIC;
    refused(s, E_UNSUPPORTED, "dense route");
}
END_TEST

START_TEST(one_scale_row_is_channelwise)
{
    struct gpu_profile g = profile("h200");
    static struct gemm_plan p;
    struct gemm_shape s = {.m = 1, .n = 64, .k = 128, .format = WF_U4B8, .group = 128, .experts = 1, .topk = 1};
    ck_assert(!plan_make(&s, &g, &p, NULL));
    ck_assert_int_eq(p.shape.group, 0);
    profile_free(&g);
}
END_TEST

START_TEST(an_unknown_register_count_is_missing_evidence_only_where_it_decides)
{
    struct gpu_profile g = profile("gb10");
    static struct gemm_plan p;
    struct err e = {0};
    struct gemm_shape s = {.route = ROUTE_GROUPED,
                           .m = 1,
                           .n = 576,
                           .k = 1536,
                           .format = WF_U4B8,
                           .act = ACT_F16,
                           .experts = 1,
                           .topk = 1};
    ck_assert_msg(!plan_make(&s, &g, &p, &e), "%s", e.text); /* the work rule forces this one */
    s.n = 25600, s.k = 5120;
    ck_assert_int_eq(plan_make(&s, &g, &p, &e), E_MISSING);
    ck_assert(strstr(e.text, "gb10 lacks the registers of u4b8 fp16 group 0") != NULL);
    profile_free(&g);
}
END_TEST

START_TEST(a_profile_that_is_not_there_or_damaged_is_an_error_with_a_place)
{
    struct gpu_profile g;
    struct err e = {0};
    char path[256];
    const char *tmp = getenv("ASSAY_TEST_TMP");
    ck_assert_int_eq(profile_read("batteries/gpus/none.json", &g, &e), E_MISSING);
    snprintf(path, sizeof path, "%s/gpu.json", tmp ? tmp : "/var/tmp");
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("{\"name\":\"x\",\"sms\":0}", f);
    fclose(f);
    e = (struct err){0};
    ck_assert_int_eq(profile_read(path, &g, &e), E_INPUT);
    ck_assert(strstr(e.text, "\"sms\" is 0, must be in [1, 4096]") != NULL);
    remove(path);
}
END_TEST

static struct plan_difference compared(struct gemm_shape a, const char *gpu_a, struct gemm_shape b, const char *gpu_b)
{
    static struct gemm_plan p, q;
    struct gpu_profile g = profile(gpu_a), h = profile(gpu_b);
    struct plan_difference d;
    ck_assert(!plan_make(&a, &g, &p, NULL));
    ck_assert(!plan_make(&b, &h, &q, NULL));
    plan_compare(&p, &q, &d);
    profile_free(&g);
    profile_free(&h);
    return d;
}

START_TEST(comparing_plans_names_the_first_link_that_differs)
{
    struct gemm_shape a = {.m = 1, .n = 576, .k = 1536, .format = WF_NVFP4, .group = 16, .experts = 1, .topk = 1},
                      b = a;
    ck_assert_str_eq(compared(a, "h200", a, "h200").why, "");
    b.route = ROUTE_PAR1; /* one more way to the same tiles */
    struct plan_difference d = compared(a, "h200", b, "h200");
    ck_assert_str_eq(d.why, "");
    ck_assert_int_eq(d.same, 576);
    ck_assert(strstr(compared(a, "h200", a, "gb10").why, "slices: 12 against 4") != NULL);
    ck_assert(strstr(compared(a, "h200", a, "a100").why, "tensor core") != NULL);
    b = a, b.reduce = REDUCE_F16;
    ck_assert(strstr(compared(a, "h200", b, "h200").why, "reduction: f32 against f16") != NULL);
    b = a, b.m = 2;
    ck_assert(strstr(compared(a, "h200", b, "h200").why, "shape") != NULL);
    a.format = b.format = WF_U4B8, a.group = b.group = 0, a.act = b.act = ACT_F16, a.m = b.m = 20;
    a.n = b.n = 64, a.k = b.k = 128, b.route = ROUTE_GROUPED, b.block_rows = 16; /* row 16 heads a block there */
    ck_assert(strstr(compared(a, "h200", b, "h200").why, "write-out") != NULL);
}
END_TEST

START_TEST(aligned_rows_of_one_expert_are_compared_in_their_blocks)
{
    struct gemm_shape a = {.route = ROUTE_GROUPED,
                           .m = 100,
                           .n = 576,
                           .k = 1536,
                           .format = WF_NVFP4,
                           .group = 16,
                           .experts = 1,
                           .topk = 1},
                      b = a;
    b.block_rows = 16;
    struct plan_difference d = compared(a, "h200", b, "h200");
    ck_assert_int_lt(d.same, d.elements);
    ck_assert_int_eq(d.row, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_row_of_the_written_tables_is_planned);
    tcase_add_test(t, every_launch_observed_on_an_h200_is_planned);
    tcase_add_test(t, slices_tile_the_k_range_exactly_once);
    tcase_add_test(t, par1_has_the_grouped_tile_and_one_cta_an_sm);
    tcase_add_test(t, bad_shapes_say_what_would_be_valid);
    tcase_add_test(t, one_scale_row_is_channelwise);
    tcase_add_test(t, an_unknown_register_count_is_missing_evidence_only_where_it_decides);
    tcase_add_test(t, a_profile_that_is_not_there_or_damaged_is_an_error_with_a_place);
    tcase_add_test(t, comparing_plans_names_the_first_link_that_differs);
    tcase_add_test(t, aligned_rows_of_one_expert_are_compared_in_their_blocks);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
