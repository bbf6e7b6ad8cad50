#include "tools/plan_view.h"

#include "kernels/plan_compare.h"

#include <stdio.h>
#include <string.h>

void plan_title(const struct gemm_plan *p, char *out, size_t size)
{
    const struct gemm_shape *s = &p->shape;
    char group[32] = "channelwise", experts[64] = "";
    if (s->group)
        snprintf(group, sizeof group, "group %d", s->group);
    if (s->experts > 1)
        snprintf(experts, sizeof experts, ", %d experts, %d routes a row", s->experts, s->topk);
    snprintf(out, size, "%s, m %d, n %d, k %d, %s %s, %s%s, reduce %s", route_name(s->route), s->m, s->n, s->k,
             format_name(s->format), group, activation_name(s->act), experts, reduce_name(s->reduce));
}

int plan_histogram(const struct gemm_launch *l, int count[VIEW_SLICES_MAX])
{
    int most = 0;
    memset(count, 0, VIEW_SLICES_MAX * sizeof *count);
    for (int t = 0; t < l->par * l->NT; t++) {
        int n = plan_slices(l, t, NULL, 0);
        if (n >= VIEW_SLICES_MAX)
            n = VIEW_SLICES_MAX - 1;
        count[n]++;
        most = n > most ? n : most;
    }
    return most;
}

static void print_histogram(const struct gemm_launch *l)
{
    int count[VIEW_SLICES_MAX], most = plan_histogram(l, count), tiles = l->par * l->NT;
    for (int n = 1, first = 1; n <= most; n++) {
        if (!count[n])
            continue;
        int bar = count[n] * 30 / tiles;
        printf("  %-18s%6d tile%s with %3d  ", first ? "slices" : "", count[n], count[n] == 1 ? " " : "s", n);
        for (int i = 0; i <= bar; i++)
            fputs("\u2588", stdout);
        putchar('\n');
        first = 0;
    }
}

static void print_order(const struct gemm_launch *l)
{
    struct gemm_slice s[VIEW_SLICES_MAX];
    int tile = plan_busiest_tile(l), n = plan_slices(l, tile, s, VIEW_SLICES_MAX);
    printf("  %-18stile %d (row block %d, columns %d..%d), bottom first:\n", "combine order", tile, tile / l->NT,
           tile % l->NT * l->tn, (tile % l->NT + 1) * l->tn - 1);
    for (int i = 0; i < n && i < VIEW_SLICES_MAX; i++)
        printf("  %-18s%4d  CTA %-4d k [%d,%d)%s\n", "", i + 1, s[i].cta, s[i].t0 * l->tk, s[i].t1 * l->tk,
               i == n - 1 ? "  writes" : "");
}

static void print_launch(const struct gemm_plan *p, const struct gpu_profile *g, int i)
{
    const struct gemm_launch *l = &p->launch[i];
    printf("launch %d of %d, rows %d..%d of A\n", i + 1, p->launches, l->first_row, l->first_row + l->rows - 1);
    printf("  %-18sk %d x n %d, %d threads, %d warp rows\n", "tile", l->tk, l->tn, l->threads, l->tk / 32);
    printf("  %-18s%d of %d rows%s\n", "row blocks", l->par, l->block_rows, l->m8 ? " (the 8-row variant)" : "");
    printf("  %-18s%d CTAs = %d SMs x %d; %d have work\n", "grid", l->grid, g->sms, l->per_sm, plan_working_ctas(l));
    printf("  %-18s%d column tiles of %d k-tiles; %d whole-tile passes, %d striped tiles, %d k-tiles a CTA\n", "work",
           l->NT, l->T, l->dp, l->R, l->iters);
    print_histogram(l);
    if (plan_is_atomic(p, l))
        printf("  %-18s16-bit atomic adds in any order: a set of results where a tile has three slices or more\n",
               "reduction");
    else
        print_order(l);
}

void plan_print(const struct tool *t, const struct gemm_plan *p, const struct gpu_profile *g)
{
    char title[256];
    (void)t;
    plan_title(p, title, sizeof title);
    printf("%s\non %s: %d SMs, %d bytes of shared memory a block, tensor core sm_%d, %s\nevidence: %s: %s\n\n", title,
           g->name, g->sms, g->smem_optin, g->sm,
           g->native_code ? "native code" : "compute_80 PTX compiled by the driver", evidence_name(g->evidence),
           g->source);
    if (p->shape.experts > 1)
        printf("%d aligned blocks of %d rows over %d experts\n", p->shape.blocks, p->shape.block_rows,
               p->shape.experts);
    for (int i = 0; i < p->launches; i++)
        print_launch(p, g, i);
}

static json_t *tiles_json(const struct gemm_launch *l)
{
    json_t *tiles = json_array();
    struct gemm_slice s[VIEW_SLICES_MAX];
    for (int t = 0; t < l->par * l->NT && t < 65536; t++) {
        json_t *one = json_array();
        int n = plan_slices(l, t, s, VIEW_SLICES_MAX);
        for (int i = 0; i < n && i < VIEW_SLICES_MAX; i++)
            json_array_append_new(one, json_pack("[i,i,i]", s[i].cta, s[i].t0 * l->tk, s[i].t1 * l->tk));
        json_array_append_new(tiles, one);
    }
    return tiles;
}

static json_t *launch_json(const struct gemm_launch *l)
{
    int count[VIEW_SLICES_MAX], most = plan_histogram(l, count);
    json_t *histogram = json_object();
    for (int n = 1; n <= most; n++) {
        char key[16];
        snprintf(key, sizeof key, "%d", n);
        if (count[n])
            json_object_set_new(histogram, key, json_integer(count[n]));
    }
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:o,s:o}", "first_row",
                     l->first_row, "rows", l->rows, "tile_k", l->tk, "tile_n", l->tn, "threads", l->threads,
                     "warp_rows", l->tk / 32, "eight_rows", l->m8, "block_rows", l->block_rows, "row_blocks", l->par,
                     "grid", l->grid, "ctas_per_sm", l->per_sm, "ctas_with_work", plan_working_ctas(l), "column_tiles",
                     l->NT, "k_tiles", l->T, "whole_passes", l->dp, "striped_tiles", l->R, "k_tiles_per_cta", l->iters,
                     "tiles_by_slices", histogram, "slices_cta_k0_k1", tiles_json(l));
}

json_t *plan_json(const struct gemm_plan *p, const struct gpu_profile *g)
{
    const struct gemm_shape *s = &p->shape;
    json_t *launches = json_array();
    for (int i = 0; i < p->launches; i++)
        json_array_append_new(launches, launch_json(&p->launch[i]));
    return json_pack("{s:s,s:i,s:i,s:i,s:s,s:i,s:s,s:s,s:i,s:i,s:i,s:{s:s,s:i,s:i,s:i,s:b,s:s,s:s},s:o}", "route",
                     route_name(s->route), "m", s->m, "n", s->n, "k", s->k, "format", format_name(s->format), "group",
                     s->group, "dtype", activation_name(s->act), "reduce", reduce_name(s->reduce), "experts",
                     s->experts, "topk", s->topk, "blocks", s->blocks, "gpu", "name", g->name, "sms", g->sms,
                     "smem_optin", g->smem_optin, "sm", g->sm, "native_code", g->native_code, "evidence",
                     evidence_name(g->evidence), "source", g->source, "launches", launches);
}
