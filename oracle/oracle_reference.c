/* reference - the model in double precision, scalar, left to right, no rounding in between
 *
 * Qwen3 (q and k normalised per head), Qwen3-MoE, Llama: RMSNorm, rotary halves, grouped-query attention, SiLU, softmax
 * router with the best experts renormalised, tied or own head. Only the logits are rounded, to bf16.
 */
#include "oracle/oracle.h"
#include "oracle/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HIDDEN 16384

struct layer_weights {
    float *q, *k, *v, *o, *gate, *up, *down, *router;
    float **expert; /* gate, up, down of each */
};

struct oracle {
    const struct model *m;
    struct layer_weights *layer;
    float *head;
    double *keys, *values; /* [layer][position][kv_heads*head_dim] */
    int n;                 /* positions fed */
    double *x, *a, *q, *k, *v, *mix, *gate, *up, *out, *score;
};

extern const struct oracle_ops oracle_reference;

static float *decoded(const struct linear *l)
{
    float *w = l->n ? malloc((size_t)l->n * (size_t)l->k * sizeof *w) : NULL;
    if (w)
        oracle_decode(l, w);
    return w;
}

static void decode_layer(const struct layer *l, int experts, struct layer_weights *w)
{
    w->q = decoded(&l->q);
    w->k = decoded(&l->k);
    w->v = decoded(&l->v);
    w->o = decoded(&l->o);
    w->gate = decoded(&l->gate);
    w->up = decoded(&l->up);
    w->down = decoded(&l->down);
    w->router = decoded(&l->router);
    w->expert = experts ? calloc((size_t)experts * 3, sizeof *w->expert) : NULL;
    for (int i = 0; w->expert && i < experts; i++) {
        w->expert[3 * i] = decoded(&l->experts[i].gate);
        w->expert[3 * i + 1] = decoded(&l->experts[i].up);
        w->expert[3 * i + 2] = decoded(&l->experts[i].down);
    }
}

static void close_reference(struct oracle *o)
{
    if (!o)
        return;
    for (int i = 0; o->layer && i < o->m->config.layers; i++) {
        struct layer_weights *w = &o->layer[i];
        for (int j = 0; w->expert && j < 3 * o->m->config.experts; j++)
            free(w->expert[j]);
        free(w->q), free(w->k), free(w->v), free(w->o), free(w->gate), free(w->up), free(w->down), free(w->router);
        free(w->expert);
    }
    free(o->layer), free(o->head), free(o->keys), free(o->values);
    free(o->x), free(o->a), free(o->q), free(o->k), free(o->v), free(o->mix), free(o->gate), free(o->up), free(o->out);
    free(o->score);
    free(o);
}

static int reserve(struct oracle *o, struct err *e)
{
    const struct model_config *c = &o->m->config;
    size_t kv = (size_t)(c->kv_heads * c->head_dim), positions = (size_t)c->max_positions;
    size_t inner = (size_t)(c->intermediate > c->expert_intermediate ? c->intermediate : c->expert_intermediate);
    size_t widest = (size_t)(c->vocab > c->hidden ? c->vocab : c->hidden);
    double **all[] = {&o->x, &o->a, &o->q, &o->k, &o->v, &o->mix, &o->gate, &o->up, &o->out, &o->score};
    size_t size[] = {(size_t)c->hidden,
                     (size_t)c->hidden,
                     (size_t)(c->heads * c->head_dim),
                     kv,
                     kv,
                     (size_t)(c->heads * c->head_dim),
                     inner,
                     inner,
                     widest,
                     positions + (size_t)c->experts};
    o->keys = malloc((size_t)c->layers * positions * kv * sizeof(double));
    o->values = malloc((size_t)c->layers * positions * kv * sizeof(double));
    int good = o->keys && o->values;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        good &= (*all[i] = calloc(size[i] ? size[i] : 1, sizeof(double))) != NULL;
    return good ? OK : FAIL(e, E_NOMEM, "out of memory for %d positions", c->max_positions);
}

static int open_reference(const struct model *m, struct oracle **out, struct err *e)
{
    if (m->config.hidden > MAX_HIDDEN || m->config.topk > 64)
        return FAIL(e, E_UNSUPPORTED, "%s: hidden %d, %d experts a token; the reference takes %d and 64", m->path,
                    m->config.hidden, m->config.topk, MAX_HIDDEN);
    struct oracle *o = calloc(1, sizeof *o);
    if (!o)
        return FAIL(e, E_NOMEM, "out of memory");
    o->m = m;
    o->layer = calloc((size_t)m->config.layers, sizeof *o->layer);
    o->head = decoded(&m->head);
    for (int i = 0; o->layer && i < m->config.layers; i++)
        decode_layer(&m->layer[i], m->config.experts, &o->layer[i]);
    if (!o->layer || !o->head || reserve(o, e)) {
        FAIL(e, E_NOMEM, "out of memory for the weights of %s", m->path);
        close_reference(o);
        return e->code;
    }
    *out = o;
    return OK;
}

static void reset(struct oracle *o)
{
    o->n = 0;
}

static double weight_at(const struct tensor *t, int i)
{
    const unsigned char *p = t->data;
    return oracle_bf16((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
}

static void norm(const struct tensor *w, double eps, int n, const double *x, double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++)
        y[i] = x[i] * scale * weight_at(w, i);
}

static void rotate(double *head, int d, int position, double theta)
{
    for (int i = 0; i < d / 2; i++) {
        double phase = position * pow(theta, -2.0 * i / d), c = cos(phase), s = sin(phase);
        double x = head[i], y = head[i + d / 2];
        head[i] = x * c - y * s;
        head[i + d / 2] = y * c + x * s;
    }
}

static void prepare_heads(const struct oracle *o, const struct tensor *w, int heads, double *x)
{
    const struct model_config *c = &o->m->config;
    for (int h = 0; h < heads; h++) {
        double *head = x + h * c->head_dim;
        if (c->qk_norm)
            norm(w, c->norm_eps, c->head_dim, head, head);
        rotate(head, c->head_dim, o->n, c->rope_theta);
    }
}

/* mix = softmax(q K / sqrt(d)) V over all positions up to this one. */
static void attend(struct oracle *o, int layer)
{
    const struct model_config *c = &o->m->config;
    int d = c->head_dim, kv = c->kv_heads * d, group = c->heads / c->kv_heads;
    const double *keys = o->keys + (int64_t)layer * c->max_positions * kv;
    const double *values = o->values + (int64_t)layer * c->max_positions * kv;
    for (int h = 0; h < c->heads; h++) {
        const double *q = o->q + h * d;
        double most = -INFINITY, sum = 0, *out = o->mix + h * d;
        for (int p = 0; p <= o->n; p++) {
            const double *k = keys + (int64_t)p * kv + h / group * d;
            double s = 0;
            for (int i = 0; i < d; i++)
                s += q[i] * k[i];
            o->score[p] = s / sqrt(d);
            most = o->score[p] > most ? o->score[p] : most;
        }
        memset(out, 0, (size_t)d * sizeof *out);
        for (int p = 0; p <= o->n; p++) {
            double w = exp(o->score[p] - most);
            const double *v = values + (int64_t)p * kv + h / group * d;
            sum += w;
            for (int i = 0; i < d; i++)
                out[i] += w * v[i];
        }
        for (int i = 0; i < d; i++)
            out[i] /= sum;
    }
}

static void attention(struct oracle *o, int layer)
{
    const struct model_config *c = &o->m->config;
    const struct layer *l = &o->m->layer[layer];
    const struct layer_weights *w = &o->layer[layer];
    size_t kv = (size_t)(c->kv_heads * c->head_dim);
    oracle_product(&l->q, w->q, o->a, o->q);
    oracle_product(&l->k, w->k, o->a, o->k);
    oracle_product(&l->v, w->v, o->a, o->v);
    prepare_heads(o, &l->q_norm, c->heads, o->q);
    prepare_heads(o, &l->k_norm, c->kv_heads, o->k);
    size_t at = ((size_t)layer * (size_t)c->max_positions + (size_t)o->n) * kv;
    memcpy(o->keys + at, o->k, kv * sizeof *o->k);
    memcpy(o->values + at, o->v, kv * sizeof *o->v);
    attend(o, layer);
    oracle_product(&l->o, w->o, o->mix, o->out);
}

/* out = down(silu(gate(a)) * up(a)) */
static void gated(struct oracle *o, const struct linear *gate, const struct linear *up, const struct linear *down,
                  const float *wg, const float *wu, const float *wd)
{
    oracle_product(gate, wg, o->a, o->gate);
    oracle_product(up, wu, o->a, o->up);
    for (int i = 0; i < gate->n; i++)
        o->gate[i] = o->gate[i] / (1 + exp(-o->gate[i])) * o->up[i];
    oracle_product(down, wd, o->gate, o->out);
}

static void mixture(struct oracle *o, int layer)
{
    const struct model_config *c = &o->m->config;
    const struct layer *l = &o->m->layer[layer];
    const struct layer_weights *w = &o->layer[layer];
    double *p = o->score, most = -INFINITY, sum = 0, chosen = 0, total[MAX_HIDDEN] = {0};
    int best[64];
    oracle_product(&l->router, w->router, o->a, p);
    for (int i = 0; i < c->experts; i++)
        most = p[i] > most ? p[i] : most;
    for (int i = 0; i < c->experts; i++)
        sum += p[i] = exp(p[i] - most);
    for (int slot = 0; slot < c->topk; slot++) {
        best[slot] = -1;
        for (int i = 0; i < c->experts; i++) {
            int taken = 0;
            for (int j = 0; j < slot; j++)
                taken |= best[j] == i;
            if (!taken && (best[slot] < 0 || p[i] > p[best[slot]]))
                best[slot] = i;
        }
        chosen += p[best[slot]];
    }
    for (int slot = 0; slot < c->topk; slot++) {
        const struct expert *x = &l->experts[best[slot]];
        double share = p[best[slot]] / (c->norm_topk ? chosen : sum);
        float **we = w->expert + 3 * best[slot];
        gated(o, &x->gate, &x->up, &x->down, we[0], we[1], we[2]);
        for (int i = 0; i < c->hidden; i++)
            total[i] += share * o->out[i];
    }
    memcpy(o->out, total, (size_t)c->hidden * sizeof *total);
}

static void add(struct oracle *o)
{
    for (int i = 0; i < o->m->config.hidden; i++)
        o->x[i] += o->out[i];
}

static void one_position(struct oracle *o, int32_t id)
{
    const struct model *m = o->m;
    const struct model_config *c = &m->config;
    for (int i = 0; i < c->hidden; i++)
        o->x[i] = weight_at(&m->embed, id * c->hidden + i);
    for (int layer = 0; layer < c->layers; layer++) {
        const struct layer *l = &m->layer[layer];
        const struct layer_weights *w = &o->layer[layer];
        norm(&l->input_norm, c->norm_eps, c->hidden, o->x, o->a);
        attention(o, layer);
        add(o);
        norm(&l->post_norm, c->norm_eps, c->hidden, o->x, o->a);
        if (c->experts)
            mixture(o, layer);
        else
            gated(o, &l->gate, &l->up, &l->down, w->gate, w->up, w->down);
        add(o);
    }
    o->n++;
}

static int feed(struct oracle *o, const int32_t *ids, int n, int first_row, oracle_row *show, void *arg, struct err *e)
{
    const struct model_config *c = &o->m->config;
    uint16_t *row = malloc((size_t)c->vocab * sizeof *row);
    if (!row)
        return FAIL(e, E_NOMEM, "out of memory");
    int rc = OK;
    for (int i = 0; i < n && !rc; i++) {
        if (ids[i] < 0 || ids[i] >= c->vocab || o->n >= c->max_positions) {
            rc = FAIL(e, E_INPUT, "id %d at position %d: the model has %d ids and %d positions", ids[i], o->n, c->vocab,
                      c->max_positions);
            break;
        }
        one_position(o, ids[i]);
        if (i < first_row)
            continue;
        norm(&o->m->final_norm, c->norm_eps, c->hidden, o->x, o->a);
        oracle_product(&o->m->head, o->head, o->a, o->out);
        for (int t = 0; t < c->vocab; t++)
            row[t] = oracle_to_bf16(o->out[t]);
        show(arg, i, row, c->vocab);
    }
    free(row);
    return rc;
}

static json_t *provenance(const struct oracle *o)
{
    (void)o;
    return json_pack("{s:s,s:s,s:s,s:s,s:b,s:s,s:s,s:n}", "name", "assay-reference", "version", "1", "dtype",
                     "bfloat16", "arithmetic", "double, logits rounded once to bf16", "eager", 1, "regime",
                     "one prompt at a time", "gpu", "none", "moe");
}

ORACLE(reference) = {
    .name = "reference",
    .summary = "the model in double precision, scalar and slow, on any machine",
    .open = open_reference,
    .close = close_reference,
    .reset = reset,
    .feed = feed,
    .provenance = provenance,
};
