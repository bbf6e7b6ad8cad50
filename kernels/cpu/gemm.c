/* gemm - C = plan(A, W): slices of a tile, warp rows of a slice, chains of steps, folds, ordered reduce, write-out
 *
 * shapes    A[m,k] W[n,k] C[m*topk,n], rows at any stride
 * units     16-bit floats in and out, fp32 between
 * rounding  as spec marlin-numerics sections 3 to 5 put it; plain additions are separate, no fma
 * order     a warp row chains its own 16-k blocks; warp rows fold; slices are added bottom (largest k) first
 * specials  every NaN that is stored is 7fff
 * limits    block_rows <= 64; chains are handed to the panel kernel 64 k-blocks at a time
 */
#include "kernels/gemm.h"

#include "harness/base/team.h"
#include "kernels/bits.h"
#include "kernels/codes.h"
#include "kernels/panel.h"

#include <string.h>

#define CHUNK    64 /* k-blocks decoded at once */
#define MAX_ROWS 64
#define MAX_WARP 4

struct job {
    const struct gemm_problem *p;
    struct prepared_rows rows;
    struct code_block *code_blocks; /* [k/16][m], for `path`; both NULL where weights have no quick path */
    const struct code_path *path;
    struct code_careful *careful; /* [k/16][m], for code_chain; NULL and no code_blocks: panels, decoded if need be */
    code_chain_fn *code_chain;
    struct packed_weight like; /* all experts: the smallest scale */
    struct mutation mutation;  /* zero: none */
    struct tensor_core_rule rule;
    panel_chain_fn *chain;
    char *thread_scratch;
    size_t thread_bytes;
};

/* Neighbouring strips that are worked on at once: two for a single row, so that two chains hide each other's latency.
 */
struct strips {
    int first, count;
};

/* The rows of one row block: where they are read and written. */
struct row_block {
    int32_t a[MAX_ROWS], c[MAX_ROWS], place[MAX_ROWS]; /* place: position inside the block */
    int count, expert;
};

struct thread_space {
    struct gemm_slice slice[4096]; /* of this tile of this launch */
    int slices, tile;
    const struct gemm_launch *launch;
    uint16_t operand[2 * CHUNK * 256] __attribute__((aligned(64)));
    float warp[MAX_WARP][MAX_ROWS * STRIP], run[MAX_ROWS * STRIP];
};

size_t gemm_scratch_bytes(const struct gemm_problem *p, int threads)
{
    const struct gemm_shape *s = &p->plan->shape;
    size_t blocks = (size_t)s->m * (size_t)s->k / STRIP;
    return panel_rows_bytes(s->m, s->k) + blocks * sizeof(struct code_block) + 64 +
           (size_t)threads * (sizeof(struct thread_space) + 64);
}

static void run_chain(const struct job *j, const struct packed_weight *w, struct strips strips,
                      const struct row_block *rb, const int32_t *block, int blocks, struct thread_space *space,
                      float *acc)
{
    struct chain c = {.rule = j->rule,
                      .act = w->act,
                      .shift = w->shift,
                      .special = w->special,
                      .rows = &j->rows,
                      .row = rb->a,
                      .count = rb->count,
                      .block = block,
                      .blocks = blocks,
                      .strips = strips.count,
                      .stride = w->panel ? (size_t)w->k * STRIP : CHUNK * 256,
                      .acc = acc};
    if (w->panel) {
        c.b = w->panel + (size_t)strips.first * c.stride;
    } else {
        for (int i = 0; i < strips.count; i++)
            weight_decode(w, strips.first + i, block, blocks, space->operand + (size_t)i * c.stride);
        c.b = space->operand;
        c.packed = 1;
    }
    j->chain(&c);
}

/* Warp row w of k-tiles [t0,t1): blocks 2w, 2w+1 of every tile, ascending. */
static void warp_row(const struct job *j, const struct packed_weight *w, struct strips strips,
                     const struct row_block *rb, const struct gemm_slice *s, int tk, int warp,
                     struct thread_space *space, float *acc)
{
    int32_t block[CHUNK];
    int n = 0;
    memset(acc, 0, (size_t)(strips.count * rb->count) * STRIP * sizeof *acc);
    int last = j->mutation.skip_tail ? w->k / 16 - 1 : w->k / 16;
    for (int t = s->t0; t < s->t1; t++) {
        for (int h = 0; h < 2; h++)
            if (t * (tk / 16) + 2 * warp + h < last)
                block[n++] = t * (tk / 16) + 2 * warp + h;
        if (n >= CHUNK - 1 || t + 1 == s->t1) {
            run_chain(j, w, strips, rb, block, n, space, acc);
            n = 0;
        }
    }
}

/* All warp rows of a slice from codes, side by side. */
static void slice_of_codes(const struct job *j, const struct packed_weight *w, int strip, const struct row_block *rb,
                           const struct gemm_slice *s, int tk, float *acc)
{
    int32_t block[CHUNK * MAX_WARP];
    int warps = tk / 32, n = 0, last = j->mutation.skip_tail ? w->k / 16 - 1 : w->k / 16;
    struct code_chain c = {.w = w,
                           .rows = &j->rows,
                           .careful = j->careful,
                           .all = j->p->plan->shape.m,
                           .row = rb->a,
                           .count = rb->count,
                           .block = block,
                           .parts = warps,
                           .strip = strip,
                           .acc = acc,
                           .part_size = (size_t)MAX_ROWS * STRIP};
    for (int t = s->t0; t < s->t1; t++)
        for (int h = 0; h < 2; h++) {
            for (int warp = 0; warp < warps; warp++)
                block[n * warps + warp] = t * (tk / 16) + 2 * warp + h;
            int cut = block[n * warps + warps - 1] >= last; /* a mutant drops the last block: its warp goes alone */
            n += !cut;
            if (n == CHUNK || cut || (t + 1 == s->t1 && h == 1)) {
                c.blocks = n;
                j->code_chain(&c);
                n = 0;
            }
            if (cut) {
                c.blocks = 1;
                c.parts = warps - 1;
                j->code_chain(&c);
                c.parts = warps;
            }
        }
}

/* All warp rows of a slice by the quick path. */
static void quick_slice(const struct job *j, const struct packed_weight *w, int strip, const struct row_block *rb,
                        const struct gemm_slice *s, int tk, float *acc)
{
    struct code_slice c = {.w = w,
                           .rows = &j->rows,
                           .block_of = j->code_blocks,
                           .all = j->p->plan->shape.m,
                           .row = rb->a,
                           .count = rb->count,
                           .strip = strip,
                           .warps = tk / 32,
                           .t0 = s->t0,
                           .t1 = s->t1,
                           .last = j->mutation.skip_tail ? w->k / 16 - 1 : w->k / 16,
                           .acc = acc,
                           .part_size = (size_t)MAX_ROWS * STRIP};
    j->path->slice(&c);
}

/* Lanes to columns, shifted units to plain ones. */
static void put_right(const struct code_path *path, int shift, int rows, float *run)
{
    float down = f32_from_bits((uint32_t)(127 - shift) << 23);
    for (int r = 0; r < rows; r++, run += STRIP) {
        float lane[STRIP];
        memcpy(lane, run, sizeof lane);
        for (int i = 0; i < STRIP; i++)
            run[path->column[i]] = lane[i] * down;
    }
}

/* Sum over the warp rows into warp[0]: 0+1, or 0+(1+(3+2)). */
static void fold(const struct mutation *m, float (*warp)[MAX_ROWS * STRIP], int warps, int cells)
{
    float *a = warp[0], *b = warp[1], *c = warp[2], *d = warp[3];
    if (warps == 2)
        for (int i = 0; i < cells; i++)
            a[i] = a[i] + b[i];
    else if (m->fold_left)
        for (int i = 0; i < cells; i++)
            a[i] = ((a[i] + b[i]) + c[i]) + d[i];
    else
        for (int i = 0; i < cells; i++)
            a[i] = a[i] + (b[i] + (d[i] + c[i]));
}

static float round16(enum activation act, float x)
{
    return act == ACT_BF16 ? bf16_to_f32(bf16_from_f32(x)) : f16_to_f32(f16_from_f32(x));
}

/* shift: of the units; 16-bit rounding is of plain ones. */
static void add_slice(const struct gemm_shape *s, int shift, float *run, const float *v, int index, int count,
                      int cells)
{
    if (index == 0)
        memcpy(run, v, (size_t)cells * sizeof *run);
    else
        for (int i = 0; i < cells; i++)
            run[i] = v[i] + run[i];
    float up = f32_from_bits((uint32_t)(127 + shift) << 23), down = f32_from_bits((uint32_t)(127 - shift) << 23);
    if (s->reduce == REDUCE_F16 && index + 1 < count)
        for (int i = 0; i < cells; i++)
            run[i] = round16(s->act, run[i] * down) * up;
}

static uint16_t to16(enum activation act, float x)
{
    return act == ACT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
}

static float from16(enum activation act, uint16_t h)
{
    return act == ACT_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
}

/* r * scale + bias, rounded once or twice as the compiled kernel does it (spec 5.4). */
static uint16_t scale_and_bias(const struct gemm_plan *p, enum activation act, uint16_t r, uint16_t scale,
                               uint16_t bias, int place, int column)
{
    float x = from16(act, r), s = from16(act, scale), b = from16(act, bias);
    int fused = (act == ACT_F16 || p->native_code) && !(place < 8 && column % 64 < 8);
    if (!fused)
        return to16(act, from16(act, to16(act, x * s)) + b);
    /* products of 16-bit floats are exact in double, and so is the sum's rounding to odd */
    double exact = (double)x * s, sum = exact + b, rest = exact - (sum - (sum - exact)) + (b - (sum - exact));
    union {
        double d;
        uint64_t u;
    } odd = {sum};
    if (rest != 0 && rest == rest && !(odd.u & 1))
        odd.u = ((rest > 0) == (sum > 0)) ? odd.u | 1 : (odd.u - 1) | 1;
    float once = (float)odd.d;
    union {
        float f;
        uint32_t u;
    } narrow = {once};
    if ((double)once != odd.d && once == once && !(narrow.u & 1)) /* round to odd again: no double rounding */
        narrow.u = ((double)once < odd.d) == (once > 0) ? narrow.u | 1 : (narrow.u - 1) | 1;
    return to16(act, narrow.f);
}

static uint16_t write_out(const struct job *j, const struct packed_weight *w, float acc, int place, int column,
                          const float *route_weight)
{
    enum activation act = w->act;
    int scaled = w->format == WF_NVFP4 && !route_weight;
    if (scaled && !j->mutation.global_after)
        acc = acc * w->global;
    uint16_t r = to16(act, acc);
    if (scaled && j->mutation.global_after)
        r = to16(act, from16(act, r) * w->global);
    if (w->column && w->bias)
        r = scale_and_bias(j->p->plan, act, r, w->column[column], w->bias[column], place, column);
    else if (w->column)
        r = to16(act, from16(act, r) * from16(act, w->column[column]));
    else if (w->bias)
        r = to16(act, from16(act, r) + from16(act, w->bias[column]));
    if (route_weight) {
        float tw = w->format == WF_NVFP4 ? *route_weight * w->global : *route_weight;
        r = to16(act, from16(act, r) * from16(act, to16(act, tw)));
    }
    return r;
}

/* The common write-out, a row at a time: optional global scale, one rounding to bf16. */
static void store_plain(const struct packed_weight *w, const float *run, int n, uint16_t *c)
{
    int scaled = w->format == WF_NVFP4;
    for (int i = 0; i < n; i++)
        c[i] = bf16_from_f32(scaled ? run[i] * w->global : run[i]);
}

static void store_strip(const struct job *j, const struct packed_weight *w, int strip, const struct row_block *rb,
                        const float *run)
{
    const struct gemm_problem *p = j->p;
    int plain = w->act == ACT_BF16 && !w->column && !w->bias && !p->route_weight && !j->mutation.global_after;
    int width = w->n_used - strip * STRIP < STRIP ? w->n_used - strip * STRIP : STRIP;
    for (int r = 0; plain && r < rb->count; r++)
        store_plain(w, run + r * STRIP, width, p->c + (size_t)rb->c[r] * (size_t)p->ldc + strip * STRIP);
    for (int r = 0; !plain && r < rb->count; r++)
        for (int i = 0; i < width; i++) {
            int column = strip * STRIP + i;
            p->c[(size_t)rb->c[r] * (size_t)p->ldc + (size_t)column] = write_out(
                j, w, run[r * STRIP + i], rb->place[r], column, p->route_weight ? p->route_weight + rb->c[r] : NULL);
        }
}

/* Strips of one tile: all slices, bottom first. */
static void tile_strips(const struct job *j, const struct gemm_launch *l, int tile, struct strips strips,
                        const struct row_block *rb, struct thread_space *space)
{
    const struct packed_weight *w = j->p->w + rb->expert;
    const struct gemm_shape *s = &j->p->plan->shape;
    int warps = l->tk / 32, cells = strips.count * rb->count * STRIP, quick = j->path && !w->special;
    if (tile != space->tile || l != space->launch) {
        space->slices = plan_slices(l, tile, space->slice, 4096);
        space->tile = tile;
        space->launch = l;
    }
    int count = space->slices;
    for (int i = 0; i < count; i++) {
        const struct gemm_slice *slice = &space->slice[j->mutation.top_first ? count - 1 - i : i];
        if (i && j->mutation.first_slice_wins)
            break;
        if (quick) {
            quick_slice(j, w, strips.first, rb, slice, l->tk, space->warp[0]);
        } else if (j->careful && !w->special) {
            for (int warp = 0; warp < warps; warp++)
                memset(space->warp[warp], 0, (size_t)cells * sizeof(float));
            slice_of_codes(j, w, strips.first, rb, slice, l->tk, space->warp[0]);
        } else {
            for (int warp = 0; warp < warps; warp++)
                warp_row(j, w, strips, rb, slice, l->tk, warp, space, space->warp[warp]);
        }
        fold(&j->mutation, space->warp, warps, cells);
        add_slice(s, quick ? w->shift : 0, space->run, space->warp[0], i, count, cells);
    }
    if (quick)
        put_right(j->path, w->shift, rb->count, space->run);
    for (int i = 0; i < strips.count; i++)
        store_strip(j, w, strips.first + i, rb, space->run + i * rb->count * STRIP);
}

/* Rows of row block `index` of launch l; count 0: nothing to do. */
static void find_rows(const struct gemm_problem *p, const struct gemm_launch *l, int index, struct row_block *rb)
{
    const struct gemm_shape *s = &p->plan->shape;
    rb->count = 0;
    rb->expert = p->block_experts ? p->block_experts[index] : 0;
    for (int i = 0; i < l->block_rows && rb->expert >= 0; i++) {
        int at = index * l->block_rows + i, route;
        if (p->sorted_routes) {
            route = p->sorted_routes[at];
            if (route >= s->m * s->topk)
                continue;
        } else if (at < l->rows) {
            route = l->first_row + at;
        } else {
            break;
        }
        rb->a[rb->count] = (route / s->topk + (p->mutation ? p->mutation->row_shift : 0)) % s->m;
        rb->c[rb->count] = route;
        rb->place[rb->count++] = i;
    }
}

static void member(void *arg, int index, int members)
{
    struct job *j = arg;
    const struct gemm_plan *p = j->p->plan;
    struct thread_space *space =
        (struct thread_space *)panel_aligned(j->thread_scratch + (size_t)index * j->thread_bytes);
    int strips = (j->p->w->n_used + STRIP - 1) / STRIP;
    space->launch = NULL;
    int from = (int)((long)strips * index / members), to = (int)((long)strips * (index + 1) / members);
    for (int i = 0; i < p->launches; i++) {
        const struct gemm_launch *l = &p->launch[i];
        for (int rows = 0; rows < l->par; rows++) {
            struct row_block rb;
            find_rows(j->p, l, rows, &rb);
            for (struct strips s = {from, 0}; rb.count && s.first < to; s.first += s.count) {
                /* a tile is 64 columns or more, so an even strip and its neighbour share one */
                s.count =
                    !j->code_blocks && !j->careful && rb.count == 1 && s.first % 2 == 0 && s.first + 1 < to ? 2 : 1;
                tile_strips(j, l, rows * l->NT + s.first * STRIP / l->tn, s, &rb, space);
            }
        }
    }
}

/* Mutants of the result as a whole, and proof that a mutant of this GEMM was applied. */
static void spoil(const struct gemm_problem *p)
{
    const struct gemm_shape *s = &p->plan->shape;
    if (p->mutation->zero_output)
        for (int r = 0; r < s->m * s->topk; r++)
            memset(p->c + (size_t)r * (size_t)p->ldc, 0, (size_t)p->w->n_used * sizeof *p->c);
    if (p->mutation->nan_output)
        p->c[0] = 0x7fff;
    mutation_applied(p->mutation);
}

/* Whether the products come straight from codes. Shifted accumulators must stay far from overflow. */
static int by_codes(const struct job *j)
{
    const struct packed_weight *w = j->p->w;
    size_t blocks = (size_t)j->p->plan->shape.m * (size_t)(w->k / STRIP);
    for (size_t i = 0; w->shift && i < blocks; i++)
        if (j->rows.state[i] == BLOCK_SPECIAL)
            return 0;
    return w->codes && w->act == ACT_BF16 && j->rule.products == 16 && !j->mutation.fraction &&
           (code_is_quick(w) || j->code_chain);
}

static void prepare_member(void *arg, int index, int members)
{
    struct job *j = arg;
    int m = j->p->plan->shape.m, blocks = j->like.k / STRIP;
    int from = (int)((long)blocks * index / members), to = (int)((long)blocks * (index + 1) / members);
    if (j->path) {
        code_prepare(&j->like, &j->rows, m, from, to, j->code_blocks);
        return;
    }
    for (int b = from; b < to; b++)
        for (int r = 0; r < m; r++) {
            size_t at = (size_t)r * (size_t)blocks + (size_t)b;
            code_prepare_careful(j->rows.raw + STRIP * at, (enum block_state)j->rows.state[at],
                                 j->careful + (size_t)b * (size_t)m + (size_t)r);
        }
}

#define ALONE 512 /* blocks that are prepared sooner than a team is woken */

static void prepare_codes(struct job *j, struct team *team)
{
    const struct gemm_shape *s = &j->p->plan->shape;
    size_t blocks = (size_t)s->m * (size_t)(s->k / STRIP);
    j->like = *j->p->w;
    for (int i = 1; i < s->experts; i++)
        j->like.least_scale =
            j->p->w[i].least_scale < j->like.least_scale ? j->p->w[i].least_scale : j->like.least_scale;
    j->path = code_is_quick(j->p->w) ? code_path_best() : NULL;
    if (j->path)
        j->code_blocks = (struct code_block *)j->thread_scratch;
    else
        j->careful = (struct code_careful *)j->thread_scratch;
    j->thread_scratch += blocks * (j->path ? sizeof *j->code_blocks : sizeof *j->careful);
    j->thread_scratch = panel_aligned(j->thread_scratch);
    if (blocks < ALONE)
        prepare_member(j, 0, 1);
    else
        team_run(team, prepare_member, j);
}

int gemm_run(const struct gemm_problem *p, void *scratch, struct team *team, struct err *e)
{
    const struct gemm_shape *s = &p->plan->shape;
    if (p->w->n != s->n || p->w->k != s->k || p->w->format != s->format || p->w->act != s->act)
        return FAIL(e, E_INTERNAL, "plan for n=%d k=%d %s does not fit weights n=%d k=%d %s", s->n, s->k,
                    format_name(s->format), p->w->n, p->w->k, format_name(p->w->format));
    if (s->reduce == REDUCE_ATOMIC)
        return FAIL(e, E_UNSUPPORTED, "atomic add has no single result; ask for its set");
    struct job j = {.p = p,
                    .mutation = p->mutation ? *p->mutation : (struct mutation){0},
                    .chain = panel_chain_best(NULL),
                    .thread_bytes = sizeof(struct thread_space) + 64};
    j.rule = tensor_core_rule(j.mutation.narrow_steps ? 80 : p->plan->sm);
    j.rule.fraction += j.mutation.fraction;
    j.thread_scratch =
        panel_prepare_rows(&j.rows, s->act, p->w->shift, s->m, p->w->k_used, s->k, p->a, p->lda, scratch);
    j.code_chain = code_chain_best();
    if (by_codes(&j))
        prepare_codes(&j, team);
    team_run(team, member, &j);
    if (p->mutation)
        spoil(p);
    return OK;
}
