/* linear - y = x W^T of unquantised weights: one chain over k, then one rounding
 *
 * shapes    x[m,k] w[n,k] y[m,n], rows at any stride
 * units     16-bit floats in and out, fp32 between
 * rounding  the tensor core's steps, then to 16 bits
 * order     k-blocks ascending, not split
 * specials  every NaN that is stored is 7fff
 * limits    none
 */
#include "harness/base/team.h"
#include "kernels/bits.h"
#include "kernels/gemm.h"
#include "kernels/panel.h"

#include <string.h>

static uint16_t rounded(enum activation act, float x)
{
    return act == ACT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
}

struct linear_job {
    struct chain chain;
    const struct packed_weight *w;
    panel_chain_fn *run;
    const int32_t *row, *block;
    int m, ldc;
    uint16_t *c;
};

#define LINEAR_ROWS 16

size_t linear_scratch_bytes(const struct packed_weight *w, int m, int threads)
{
    (void)threads;
    return panel_rows_bytes(m, w->k) + (size_t)(m + w->k / 16) * sizeof(int32_t) + 128;
}

static void store_linear(const struct linear_job *j, int strip, int first_row, const struct chain *c)
{
    for (int s = 0; s < c->strips; s++)
        for (int i = 0; i < c->count; i++)
            for (int col = 0; col < STRIP && (strip + s) * STRIP + col < j->w->n_used; col++)
                j->c[(size_t)(first_row + i) * (size_t)j->ldc + (size_t)((strip + s) * STRIP + col)] =
                    rounded(j->w->act, c->acc[(s * c->count + i) * STRIP + col]);
}

static void linear_member(void *arg, int index, int members)
{
    struct linear_job *j = arg;
    const struct packed_weight *w = j->w;
    float acc[LINEAR_ROWS * STRIP];
    int strips = (w->n_used + STRIP - 1) / STRIP;
    int from = (int)((long)strips * index / members), to = (int)((long)strips * (index + 1) / members);
    for (int strip = from; strip < to; strip++)
        for (int r = 0; r < j->m; r += LINEAR_ROWS) {
            struct chain c = j->chain;
            c.row = j->row + r;
            c.count = j->m - r < LINEAR_ROWS ? j->m - r : LINEAR_ROWS;
            c.strips = 1;
            c.stride = (size_t)w->k * STRIP;
            c.b = w->panel + (size_t)strip * c.stride;
            c.acc = acc;
            memset(acc, 0, sizeof acc);
            j->run(&c);
            store_linear(j, strip, r, &c);
        }
}

int linear_run(const struct packed_weight *w, int sm, int m, const uint16_t *a, int lda, uint16_t *c, int ldc,
               void *scratch, struct team *team, struct err *e)
{
    if (w->format != WF_PLAIN)
        return FAIL(e, E_INTERNAL, "a plain linear was asked for, the weights are %s", format_name(w->format));
    struct prepared_rows rows;
    int32_t *list = (int32_t *)panel_prepare_rows(&rows, w->act, 0, m, w->k_used, w->k, a, lda, scratch);
    for (int i = 0; i < m; i++)
        list[i] = i;
    for (int i = 0; i < w->k / 16; i++)
        list[m + i] = i;
    struct linear_job j = {.chain = {.rule = tensor_core_rule(sm),
                                     .act = w->act,
                                     .special = w->special,
                                     .rows = &rows,
                                     .block = list + m,
                                     .blocks = w->k / 16},
                           .w = w,
                           .run = panel_chain_best(NULL),
                           .row = list,
                           .block = list + m,
                           .m = m,
                           .ldc = ldc,
                           .c = c};
    team_run(team, linear_member, &j);
    return OK;
}
