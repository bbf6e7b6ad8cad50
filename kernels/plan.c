/* plan - tile, grid and stripes of the two Marlin operators; spec marlin-numerics sections 2 and 3 */
#include "kernels/plan.h"

#include <string.h>

struct tile {
    int tk, tn, threads;
};

enum { TILES = 3 };

/* In the order of preference. */
static const struct tile small_tiles[TILES] = {{128, 128, 256}, {64, 128, 128}, {128, 64, 128}}; /* up to 16 rows */
static const struct tile large_tiles[TILES] = {{64, 256, 256}, {64, 128, 128}, {128, 64, 128}};

static const struct tile *tiles_for(int mb)
{
    return mb == 1 ? small_tiles : large_tiles;
}

static int ceil_div(int a, int b)
{
    return (a - 1) / b + 1;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Bytes of shared memory that a CTA asks for. */
static int shared_memory(const struct gemm_shape *s, const struct tile *t, int mb)
{
    int rows = 16 * mb;
    int a = 4 * rows * t->tk * 2, b = 4 * t->tk * t->tn / 2, red = rows * (t->tn + 8) * 2;
    int scales = 4 * (s->group ? ceil_div(t->tk, s->group) : 1) * t->tn * 2;
    int need = max_int(max_int(b, red), min_int(b, red) + 2 * t->tn) + a + scales;
    return s->route == ROUTE_DENSE ? need : need + 16 * rows;
}

static int tile_is_valid(const struct gemm_shape *s, const struct tile *t, int mb, int limit)
{
    return s->k % t->tk == 0 && s->n % t->tn == 0 && shared_memory(s, t, mb) <= limit;
}

static int round_up(int x, int unit)
{
    return ceil_div(x, unit) * unit;
}

static int no_tile(const struct gemm_shape *s, const struct gpu_profile *gpu, struct err *e)
{
    if (s->n % 64 == 0 && s->k % 64 == 0 && (s->n % 128 == 0 || s->k % 128 == 0))
        return FAIL(e, E_UNSUPPORTED, "no tile for n %d, k %d fits the %d bytes of shared memory of %s", s->n, s->k,
                    gpu->smem_optin, gpu->name);
    return FAIL(
        e, E_UNSUPPORTED,
        "no tile divides n %d, k %d: valid are n a multiple of 128 with k a multiple of 64 (here n %d, k %d), or "
        "n a multiple of 64 with k a multiple of 128 (here n %d, k %d)",
        s->n, s->k, round_up(s->n, 128), round_up(s->k, 64), round_up(s->n, 64), round_up(s->k, 128));
}

static int check_format(const struct gemm_shape *s, struct err *e)
{
    if (s->format == WF_NVFP4 && s->group != 16)
        return FAIL(e, E_USAGE, "nvfp4 has groups of 16, not %d", s->group);
    if (s->format == WF_MXFP4 && s->group != 32)
        return FAIL(e, E_USAGE, "mxfp4 has groups of 32, not %d", s->group);
    if (s->format == WF_MXFP4 && s->act != ACT_BF16)
        return FAIL(e, E_UNSUPPORTED, "mxfp4 kernels exist for bf16 activations only");
    if (s->format == WF_U4B8 && s->group != 0 && s->group != 32 && s->group != 64 && s->group != 128)
        return FAIL(e, E_UNSUPPORTED, "u4b8 with groups of %d: valid are 32, 64, 128 and 0 (one scale a column)",
                    s->group);
    if (s->format != WF_NVFP4 && s->format != WF_MXFP4 && s->format != WF_U4B8)
        return FAIL(e, E_UNSUPPORTED, "no plan for plain weights: valid formats are u4b8, nvfp4 and mxfp4");
    if (s->group && s->k % s->group)
        return FAIL(e, E_USAGE, "groups of %d do not divide k %d: k must be a multiple of %d", s->group, s->k,
                    s->group);
    return OK;
}

static int check_shape(const struct gemm_shape *s, struct err *e)
{
    const int most = 1 << 22;
    if (s->m < 1 || s->n < 1 || s->k < 1 || s->m > most || s->n > most || s->k > most)
        return FAIL(e, E_USAGE, "m %d, n %d, k %d: each must be in 1..%d", s->m, s->n, s->k, most);
    if (s->experts < 1 || s->topk < 1 || s->topk > s->experts || s->topk > 64)
        return FAIL(e, E_USAGE, "%d experts with %d routes a row: needs 1 <= routes <= experts, and routes <= 64",
                    s->experts, s->topk);
    if (s->route != ROUTE_DENSE)
        return check_format(s, e);
    if (s->experts != 1)
        return FAIL(e, E_USAGE, "the dense route has one expert, not %d: use grouped", s->experts);
    return check_format(s, e);
}

/* Splits the work of a launch whose tile, grid and par are known: section 3.1. */
static void partition(const struct gemm_shape *s, struct gemm_launch *l)
{
    l->NT = s->n / l->tn;
    l->T = s->k / l->tk;
    int64_t tiles = (int64_t)l->par * l->NT;
    l->R = (int)tiles;
    l->dp = 0;
    if (tiles > l->grid) {
        l->R = (int)(tiles % l->grid);
        if (3 * l->R <= l->grid)
            l->R += l->grid;
        l->dp = (int)((tiles - l->R) / l->grid);
    }
    l->iters = (int)(((int64_t)l->T * l->R + l->grid - 1) / l->grid);
    if (s->group >= l->tk) {
        int q = s->group / l->tk;
        l->iters = q * ceil_div(l->iters, q);
    }
}

static void set_tile(struct gemm_launch *l, const struct tile *t)
{
    l->tk = t->tk;
    l->tn = t->tn;
    l->threads = t->threads;
}

/* Rows, block height and tile of the launch that takes `rest` rows with blocks of at most 16*cap; 0: no tile. */
static int dense_launch(const struct gemm_shape *s, const struct gpu_profile *gpu, int cap, int rest,
                        struct gemm_launch *l)
{
    int full = min_int(rest / (16 * cap), s->n <= 4096 ? 128 : 16);
    l->rows = full > 0 ? full * 16 * cap : rest;
    l->mb = min_int(ceil_div(l->rows, 16), cap);
    l->m8 = l->rows <= 8;
    const struct tile *t = tiles_for(l->mb), *pick = NULL, *narrow = &t[2];
    for (int i = 0; i < TILES && !pick; i++)
        if (tile_is_valid(s, &t[i], l->mb, gpu->smem_optin - 512))
            pick = &t[i];
    if (!pick)
        return 0;
    if ((int64_t)(s->n / pick->tn) * ceil_div(l->rows, 16 * l->mb) * 4 <= gpu->sms &&
        tile_is_valid(s, narrow, l->mb, gpu->smem_optin))
        pick = narrow;
    set_tile(l, pick);
    return 1;
}

static int make_dense(const struct gemm_shape *s, const struct gpu_profile *gpu, struct gemm_plan *p, struct err *e)
{
    int cap = 4;
    for (int row = 0; row < s->m;) {
        struct gemm_launch l = {.first_row = row, .grid = gpu->sms, .per_sm = 1, .par = 1};
        if (!dense_launch(s, gpu, cap, s->m - row, &l)) {
            if (cap-- > 1)
                continue;
            return no_tile(s, gpu, e);
        }
        if (p->launches == PLAN_LAUNCHES_MAX)
            return FAIL(e, E_UNSUPPORTED, "m %d with n %d needs more than %d launches; %d rows fit", s->m, s->n,
                        PLAN_LAUNCHES_MAX, row);
        l.block_rows = l.m8 ? 8 : 16 * l.mb;
        if (l.rows > l.block_rows)
            l.par = l.rows / l.block_rows;
        partition(s, &l);
        p->launch[p->launches++] = l;
        row += l.rows;
    }
    return OK;
}

struct choice {
    int tile, per_sm; /* per_sm 0: no valid tile */
};

/* The occupancy rule of section 2.4 with these register counts. */
static struct choice choose(const struct gemm_shape *s, const struct gpu_profile *gpu, int mb, const int regs[TILES])
{
    struct choice best = {0, 0};
    const struct tile *t = tiles_for(mb);
    for (int i = 0; i < TILES; i++) {
        if (!tile_is_valid(s, &t[i], mb, gpu->smem_optin - 512))
            continue;
        int c = min_int(261120 / (regs[i] * t[i].threads * 4), gpu->smem_optin / (shared_memory(s, &t[i], mb) + 1536));
        c = max_int(1, min_int(c, mb == 1 ? 4 : 2));
        int64_t work = (int64_t)(s->n / t[i].tn) * s->m * s->topk * 4;
        if (work < (int64_t)gpu->sms * c)
            c = max_int((int)(work / gpu->sms), 1);
        if (c > best.per_sm)
            best = (struct choice){i, c};
    }
    return best;
}

/* A count that the profile lacks is no obstacle where every possible count leads to the same choice. The five values
 * stand for all: one for each number of CTAs that the register file can hold. */
static int choose_tile(const struct gemm_shape *s, const struct gpu_profile *gpu, const struct gemm_launch *l,
                       struct choice *out, struct err *e)
{
    static const int possible[] = {255, 170, 127, 85, 63};
    enum { POSSIBLE = sizeof possible / sizeof *possible };
    int known[TILES], regs[TILES], first = 1;
    for (int i = 0; i < TILES; i++)
        known[i] = profile_registers(gpu, s->format, s->act, s->group, l->m8 ? 0 : l->mb, i);
    for (int x = 0; x < POSSIBLE * POSSIBLE * POSSIBLE; x++) {
        int at[TILES] = {x % POSSIBLE, x / POSSIBLE % POSSIBLE, x / POSSIBLE / POSSIBLE}, repeated = 0;
        for (int i = 0; i < TILES; i++) {
            regs[i] = known[i] ? known[i] : possible[at[i]];
            repeated |= known[i] && at[i];
        }
        if (repeated)
            continue;
        struct choice c = choose(s, gpu, l->mb, regs);
        if (first)
            *out = c, first = 0;
        else if (c.tile != out->tile || c.per_sm != out->per_sm)
            return FAIL(
                e, E_MISSING,
                "GPU profile %s lacks the registers of %s %s group %d with blocks of %d rows, and they decide the "
                "grid of n %d, k %d, m %d: add them to its \"registers\"",
                gpu->name, format_name(s->format), activation_name(s->act), s->group, l->block_rows, s->n, s->k, s->m);
    }
    return OK;
}

static int make_grouped(struct gemm_shape *s, const struct gpu_profile *gpu, struct gemm_plan *p, struct err *e)
{
    struct gemm_launch l = {.rows = s->m};
    struct choice c = {0, 0};
    if (s->reduce == REDUCE_ATOMIC)
        return FAIL(e, E_UNSUPPORTED, "atomic reduction belongs to the dense route; grouped callers never ask for it");
    if (!s->block_rows)
        s->block_rows = plan_block_rows(s->m, s->topk, s->experts);
    if (s->block_rows != 8 && (s->block_rows % 16 || s->block_rows < 16 || s->block_rows > 64))
        return FAIL(e, E_USAGE, "aligned blocks of %d rows: valid are 8, 16, 32, 48 and 64", s->block_rows);
    int64_t routes = (int64_t)s->m * s->topk;
    if (routes > 1 << 24)
        return FAIL(e, E_UNSUPPORTED, "%lld routes: %d at most", (long long)routes, 1 << 24);
    if (!s->blocks && s->experts == 1)
        s->blocks = ceil_div(s->m, s->block_rows);
    if (s->blocks < 1 || s->blocks > routes)
        return FAIL(e, E_USAGE,
                    "%d aligned blocks: with %d experts the caller aligns the routes and gives 1..%lld blocks",
                    s->blocks, s->experts, (long long)routes);
    l.block_rows = s->block_rows;
    l.mb = ceil_div(s->block_rows, 16);
    l.m8 = s->block_rows == 8;
    if (choose_tile(s, gpu, &l, &c, e))
        return e ? e->code : E_MISSING;
    if (!c.per_sm)
        return no_tile(s, gpu, e);
    set_tile(&l, &tiles_for(l.mb)[c.tile]);
    l.per_sm = s->route == ROUTE_PAR1 ? 1 : c.per_sm;
    l.grid = gpu->sms * l.per_sm;
    l.par = s->blocks;
    if ((int64_t)l.par * (s->n / l.tn) > 1 << 30)
        return FAIL(e, E_UNSUPPORTED, "%d blocks of %d column tiles: too many tiles for one launch", l.par,
                    s->n / l.tn);
    partition(s, &l);
    p->launch[p->launches++] = l;
    return OK;
}

int plan_make(const struct gemm_shape *s, const struct gpu_profile *gpu, struct gemm_plan *p, struct err *e)
{
    memset(p, 0, sizeof *p);
    p->shape = *s;
    p->sm = gpu->sm;
    p->native_code = gpu->native_code;
    int rc = check_shape(s, e);
    if (rc)
        return rc;
    if (s->format == WF_U4B8 && s->group == s->k)
        p->shape.group = 0;
    if (s->route == ROUTE_DENSE)
        return make_dense(&p->shape, gpu, p, e);
    return make_grouped(&p->shape, gpu, p, e);
}

int plan_block_rows(int tokens, int topk, int experts)
{
    static const int heights[] = {8, 16, 32, 48};
    for (int i = 0; i < 4; i++)
        if ((double)tokens * topk / experts / heights[i] < 0.9)
            return heights[i];
    return 64;
}
