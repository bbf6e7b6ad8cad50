#include "harness/run/estimate.h"

#include "harness/run/ask.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double linear_macs(const struct linear *l)
{
    return (double)l->n * l->k;
}

/* Of one row through all layers, attention aside. */
static double row_macs(const struct model *m)
{
    double sum = 0;
    for (int i = 0; i < m->config.layers; i++) {
        const struct layer *l = &m->layer[i];
        sum += linear_macs(&l->q) + linear_macs(&l->k) + linear_macs(&l->v) + linear_macs(&l->o);
        if (l->experts)
            sum += linear_macs(&l->router) +
                   m->config.topk *
                       (linear_macs(&l->experts->gate) + linear_macs(&l->experts->up) + linear_macs(&l->experts->down));
        else
            sum += linear_macs(&l->gate) + linear_macs(&l->up) + linear_macs(&l->down);
    }
    return sum;
}

/* Of rows at positions 0..n-1: each looks at all before it, and multiplies keys and values. */
static double attention_macs(const struct model_config *c, double n)
{
    return 2.0 * c->layers * c->heads * c->head_dim * n * (n + 1) / 2;
}

static void add(struct work *w, const struct battery_prompt *p, int emit, const struct model *m, double row,
                int has_logits)
{
    double rows = p->n + emit - 1, head = m ? linear_macs(&m->head) : 0;
    w->prompts++;
    w->fed += p->n;
    w->emitted += emit;
    w->forced += has_logits ? p->n + emit : 0;
    if (!m)
        return;
    w->macs += rows * row + attention_macs(&m->config, rows) + emit * head;
    if (has_logits)
        w->macs += (rows + 1) * row + attention_macs(&m->config, rows + 1) + emit * head;
}

struct work work_of(const struct battery *b, const struct model *m, int has_logits)
{
    struct work w = {0};
    double row = m ? row_macs(m) : 0;
    for (int i = 0; i < b->prompts; i++)
        add(&w, &b->prompt[i], b->max_new_tokens, m, row, has_logits);
    return w;
}

static double size_of(const struct work *w)
{
    return w->macs > 0 ? w->macs : (double)(w->fed + w->emitted + w->forced);
}

double estimate_seconds(const struct estimate *e, const struct work *w)
{
    double dry = size_of(&e->dry);
    return dry > 0 ? e->dry_seconds * size_of(w) / dry : 0;
}

static int shorter_first(const void *x, const void *y)
{
    const struct battery_prompt *a = x, *b = y;
    return a->n != b->n ? a->n - b->n : strcmp(a->name, b->name);
}

static int keep_nothing(void *arg, const struct answered *a, int n, struct err *e)
{
    (void)arg, (void)a, (void)n, (void)e;
    return OK;
}

/* Prompts around the median length, one a slot. */
static int dry_run(struct engine *g, const struct golden *golden, const struct battery *b, const struct model *m,
                   struct estimate *out, struct err *e)
{
    struct timespec t0, t1;
    struct shard whole = {0};
    struct battery part;
    int n = g->slots < b->prompts ? g->slots : b->prompts, rc = shard_cut(b, whole, &part, e);
    struct job *job = calloc((size_t)n + 1, sizeof *job);
    if (rc || !job) {
        rc = rc ? rc : FAIL(e, E_NOMEM, "out of memory for %d prompts", n);
        goto out;
    }
    qsort(part.prompt, (size_t)part.prompts, sizeof *part.prompt, shorter_first);
    for (int i = 0; i < n; i++) {
        job[i].fed = &part.prompt[(b->prompts - n) / 2 + i];
        job[i].golden = golden_find(golden, job[i].fed->name);
    }
    clock_gettime(CLOCK_MONOTONIC, &t0);
    rc = ask_all(g, b, golden->top_k, job, n, keep_nothing, NULL, e);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    out->dry_seconds = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9;
    for (int i = 0; i < n; i++) {
        if (job[i].have[PHASE_FREE])
            add(&out->dry, job[i].fed, job[i].answer[PHASE_FREE].n, m, m ? row_macs(m) : 0,
                job[i].have[PHASE_FORCE_PREFILL]);
        for (int phase = 0; phase < PHASES; phase++)
            stream_free(&job[i].answer[phase]);
    }
out:
    free(job);
    free(part.prompt);
    return rc;
}

static int look_at_shards(const struct battery *b, const struct model *m, int has_logits, struct shard s,
                          struct estimate *out, struct err *e)
{
    struct work *w = calloc((size_t)s.n + 1, sizeof *w);
    double row = m ? row_macs(m) : 0;
    if (!w)
        return FAIL(e, E_NOMEM, "out of memory for %d shards", s.n);
    for (int i = 0; i < b->prompts; i++)
        add(&w[shard_of(&b->prompt[i], s.n)], &b->prompt[i], b->max_new_tokens, m, row, has_logits);
    out->shard = out->largest = w[s.i];
    for (int i = 1; i <= s.n; i++)
        if (size_of(&w[i]) > size_of(&out->largest))
            out->largest = w[i];
    free(w);
    return OK;
}

int estimate_run(struct engine *g, const struct golden *golden, const struct battery *b, const struct model *m,
                 struct shard s, struct estimate *out, struct err *e)
{
    struct rusage u;
    memset(out, 0, sizeof *out);
    out->all = out->shard = out->largest = work_of(b, m, g->has_logits);
    int rc = s.n ? look_at_shards(b, m, g->has_logits, s, out, e) : OK;
    if (rc || (rc = dry_run(g, golden, b, m, out, e)))
        return rc;
    if (!out->dry.prompts)
        return FAIL(e, E_MISSING, "no prompt of the dry run was answered: nothing to estimate from");
    getrusage(RUSAGE_SELF, &u);
    out->memory_bytes = (int64_t)u.ru_maxrss * 1024;
    return OK;
}
