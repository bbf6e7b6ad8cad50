#include "harness/statistics.h"

#include "harness/razor.h"

#include <math.h>

void moments_add(struct moments *m, double x)
{
    m->sum += x;
    m->squares += x * x;
    m->n++;
}

double moments_mean(const struct moments *m)
{
    return m->n ? m->sum / (double)m->n : NAN;
}

double moments_stderr(const struct moments *m)
{
    double n = (double)m->n, mean = moments_mean(m);
    return m->n > 1 ? sqrt(fmax(m->squares / n - mean * mean, 0) / (n - 1)) : NAN;
}

static double log_p(const struct view *v, int row, int32_t id)
{
    const int32_t *ids = v->top_ids + (size_t)row * (size_t)v->top_k;
    for (int i = 0; i < v->top_k && ids[i] >= 0; i++)
        if (ids[i] == id)
            return (double)v->top_values[(size_t)row * (size_t)v->top_k + (size_t)i] - v->logsumexp[row];
    return NAN;
}

static double kl(const struct view *p, const struct view *q, int row)
{
    const int32_t *ids = p->top_ids + (size_t)row * (size_t)p->top_k;
    double sum = 0, mass_p = 0, mass_q = 0;
    for (int i = 0; i < p->top_k && ids[i] >= 0; i++) {
        double lp = log_p(p, row, ids[i]), lq = log_p(q, row, ids[i]);
        if (isnan(lq))
            continue;
        sum += exp(lp) * (lp - lq);
        mass_p += exp(lp);
        mass_q += exp(lq);
    }
    if (mass_p < 1 && mass_q < 1)
        sum += (1 - mass_p) * log((1 - mass_p) / (1 - mass_q));
    return sum > 0 ? sum : 0; /* rounding alone makes it negative */
}

void statistics_add(struct statistics *s, const struct view *oracle, const struct view *arm, int row, int32_t id)
{
    if (!row_is_finite(oracle, row) || !row_is_finite(arm, row))
        return;
    double divergence = kl(oracle, arm, row), own = log_p(arm, row, id), theirs = log_p(oracle, row, id);
    struct gap first = gap_of(arm, row, -1, 0);
    moments_add(&s->kl, divergence);
    moments_add(&s->top1, gap_of(oracle, row, first.top_id, 0).nats == 0);
    s->kl_max = fmax(s->kl_max, divergence);
    if (isnan(own) || isnan(theirs))
        return;
    moments_add(&s->nll, -own);
    moments_add(&s->oracle_nll, -theirs);
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* The error of exp(mean) to first order. */
static void put_perplexity(json_t *o, const char *name, const char *error, const struct moments *m)
{
    double ppl = exp(moments_mean(m));
    json_object_set_new(o, name, real(ppl));
    json_object_set_new(o, error, real(ppl * moments_stderr(m)));
}

json_t *statistics_json(const struct statistics *s)
{
    double share = moments_mean(&s->top1);
    if (!s->kl.n)
        return NULL;
    json_t *o = json_object();
    json_object_set_new(o, "positions", json_integer(s->kl.n));
    json_object_set_new(o, "kl_mean_nats", real(moments_mean(&s->kl)));
    json_object_set_new(o, "kl_stderr_nats", real(moments_stderr(&s->kl)));
    json_object_set_new(o, "kl_max_nats", real(s->kl_max));
    json_object_set_new(o, "kl_lower_bound", json_true());
    json_object_set_new(o, "top1", real(share));
    json_object_set_new(o, "top1_stderr", real(s->kl.n > 1 ? sqrt(share * (1 - share) / (double)(s->kl.n - 1)) : NAN));
    json_object_set_new(o, "perplexity_positions", json_integer(s->nll.n));
    put_perplexity(o, "perplexity", "perplexity_stderr", &s->nll);
    put_perplexity(o, "oracle_perplexity", "oracle_perplexity_stderr", &s->oracle_nll);
    return o;
}
