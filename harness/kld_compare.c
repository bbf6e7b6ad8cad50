#include "harness/kld_compare.h"

#include "harness/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST (-16.0f) /* what is less likely was clipped when the file was written */

struct sums {
    struct moments kl, same, dp2, nll, base_nll;
    long tied;
};

static int largest(const float *x, int n, int *tied)
{
    int best = 0;
    *tied = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i, *tied = 0;
        else if (x[i] == x[best])
            *tied = 1;
    }
    return best;
}

static double divergence(const float *p, const float *q, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (p[i] > LEAST)
            sum += exp((double)p[i]) * ((double)p[i] - (double)q[i]);
    return sum;
}

static void add_row(struct sums *s, const float *p, const float *q, int vocab, int32_t target)
{
    int tied, other;
    double dp = exp((double)q[target]) - exp((double)p[target]);
    moments_add(&s->kl, divergence(p, q, vocab));
    moments_add(&s->same, largest(p, vocab, &tied) == largest(q, vocab, &other));
    moments_add(&s->dp2, dp * dp);
    moments_add(&s->nll, -(double)q[target]);
    moments_add(&s->base_nll, -(double)p[target]);
    s->tied += tied;
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *figures(const struct sums *s)
{
    double share = moments_mean(&s->same), rms = sqrt(moments_mean(&s->dp2)), n = (double)s->same.n;
    double ppl = exp(moments_mean(&s->nll)), base = exp(moments_mean(&s->base_nll));
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I}", "kl", real(moments_mean(&s->kl)), "kl_error",
                     real(moments_stderr(&s->kl)), "same_top_percent", real(100 * share), "same_top_error",
                     real(100 * sqrt(share * (1 - share) / (n - 1))), "rms_dp_percent", real(100 * rms), "rms_dp_error",
                     real(100 * 0.5 / rms * moments_stderr(&s->dp2)), "ppl", real(ppl), "ppl_error",
                     real(ppl * moments_stderr(&s->nll)), "base_ppl", real(base), "base_ppl_error",
                     real(base * moments_stderr(&s->base_nll)), "tied_tops", (json_int_t)s->tied);
}

static int same_text(const struct kld *a, const struct kld *b, struct err *e)
{
    if (a->n_ctx != b->n_ctx || a->vocab != b->vocab || a->chunks != b->chunks)
        return FAIL(e, E_INPUT, "the two are not of one text: %d chunks of %d, vocabulary %d against %d of %d, %d",
                    a->chunks, a->n_ctx, a->vocab, b->chunks, b->n_ctx, b->vocab);
    for (size_t i = 20; i < a->first; i++)
        if (a->data[i] != b->data[i])
            return FAIL(e, E_INPUT, "the two are not of one text: token %zu differs", (i - 20) / 4);
    return OK;
}

int kld_compare(const struct kld *base, const struct kld *test, json_t **report, struct err *e)
{
    struct sums s = {0};
    if (same_text(base, test, e))
        return e->code;
    float *p = malloc(2 * (size_t)base->vocab * sizeof *p), *q = p + (p ? base->vocab : 0);
    json_t *chunks = json_array();
    if (!p || !chunks)
        FAIL(e, E_NOMEM, "out of memory for a vocabulary of %d", base->vocab);
    for (int c = 0; c < base->chunks && !e->code; c++) {
        for (int r = 0; r < base->rows; r++) {
            kld_row(base, c, r, p);
            kld_row(test, c, r, q);
            add_row(&s, p, q, base->vocab, kld_target(base, c, r));
        }
        json_array_append_new(chunks, figures(&s));
    }
    free(p);
    if (e->code) {
        json_decref(chunks);
        return e->code;
    }
    double grid = fmax(kld_grid(base), kld_grid(test));
    *report = json_pack("{s:I,s:f,s:f,s:n,s:o}", "positions", (json_int_t)s.kl.n, "grid_mnats", 1000 * grid,
                        "grid_error_nats", grid / sqrt(12 * (double)s.kl.n), "exact_ties", "chunks", chunks);
    return *report ? OK : FAIL(e, E_NOMEM, "out of memory");
}

int kld_describe(const struct kld *k, json_t **report, struct err *e)
{
    struct moments nll = {0};
    long tied = 0;
    int tie;
    float *p = malloc((size_t)k->vocab * sizeof *p);
    if (!p)
        return FAIL(e, E_NOMEM, "out of memory for a vocabulary of %d", k->vocab);
    for (int c = 0; c < k->chunks; c++)
        for (int r = 0; r < k->rows; r++) {
            kld_row(k, c, r, p);
            largest(p, k->vocab, &tie);
            tied += tie;
            moments_add(&nll, -(double)p[kld_target(k, c, r)]);
        }
    free(p);
    double ppl = exp(moments_mean(&nll));
    *report = json_pack("{s:i,s:i,s:i,s:I,s:f,s:n,s:o,s:o,s:I}", "chunks", k->chunks, "tokens_a_chunk", k->n_ctx,
                        "vocabulary", k->vocab, "positions", (json_int_t)nll.n, "grid_mnats", 1000 * kld_grid(k),
                        "exact_ties", "ppl", real(ppl), "ppl_error", real(ppl * moments_stderr(&nll)), "tied_tops",
                        (json_int_t)tied);
    return *report ? OK : FAIL(e, E_NOMEM, "out of memory");
}
