#include "harness/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX 64

struct faulty {
    struct engine base;
    struct engine_ops ops; /* the engine's own, asked through the fault */
    struct engine *inner;
    const struct fault *fault;
    int64_t applied[SLOTS_MAX];
};

const struct fault *fault_find(const char *name)
{
    for (int i = 0; fault_all[i]; i++)
        if (!strcmp(fault_all[i]->name, name))
            return fault_all[i];
    return NULL;
}

static int answer(struct engine *base, int slot, const struct engine_request *q, struct stream *a, struct err *e)
{
    struct faulty *g = (struct faulty *)base;
    struct engine_request own = *q;
    struct sequence seq[64];
    if (slot < 0 || slot >= SLOTS_MAX || q->seqs < 1 || q->seqs > 64)
        return FAIL(e, E_INTERNAL, "slot %d, %d sequences", slot, q->seqs);
    memcpy(seq, q->seq, (size_t)q->seqs * sizeof *seq);
    own.seq = seq;
    if (g->fault->ask)
        g->applied[slot] += g->fault->ask(&own, seq);
    int rc = g->inner->ops->answer(g->inner, slot, &own, a, e);
    if (!rc && g->fault->answer)
        g->applied[slot] += g->fault->answer(q, a);
    return rc;
}

static int add_own(struct counter *out, int n, int max, int64_t applied)
{
    struct counter own = {"mutant_applied", applied, -1};
    return counters_add(out, n, max, &own, 1);
}

static int counters(struct engine *base, struct counter *out, int max)
{
    struct faulty *g = (struct faulty *)base;
    int64_t sum = 0;
    for (int i = 0; i < SLOTS_MAX; i++)
        sum += g->applied[i];
    return add_own(out, g->inner->ops->counters ? g->inner->ops->counters(g->inner, out, max) : 0, max, sum);
}

static int slot_counters(struct engine *base, int slot, struct counter *out, int max)
{
    struct faulty *g = (struct faulty *)base;
    return add_own(out, g->inner->ops->slot_counters(g->inner, slot, out, max), max, g->applied[slot]);
}

static int fed(struct engine *base, const char *prompt, const int32_t **ids, int *n)
{
    struct faulty *g = (struct faulty *)base;
    return g->inner->ops->fed(g->inner, prompt, ids, n);
}

static void close_faulty(struct engine *base)
{
    struct faulty *g = (struct faulty *)base;
    if (!g)
        return;
    g->inner->ops->close(g->inner);
    json_decref(g->base.build);
    free(g);
}

int fault_wrap(const struct fault *f, struct engine *inner, struct engine **out, struct err *e)
{
    struct faulty *g = calloc(1, sizeof *g);
    if (!g || inner->slots > SLOTS_MAX) {
        inner->ops->close(inner);
        free(g);
        return FAIL(e, g ? E_UNSUPPORTED : E_NOMEM, "fault %s: out of memory or of slots", f->name);
    }
    g->base = *inner;
    json_incref(g->base.build);
    g->ops = *inner->ops;
    g->ops.answer = answer;
    g->ops.close = close_faulty;
    g->ops.counters = counters;
    g->ops.slot_counters = inner->ops->slot_counters ? slot_counters : NULL;
    g->ops.fed = inner->ops->fed ? fed : NULL;
    g->ops.tap = NULL;
    g->base.ops = &g->ops;
    g->inner = inner;
    g->fault = f;
    size_t n = strlen(g->base.arm);
    snprintf(g->base.arm + n, sizeof g->base.arm - n, " fault=%s", f->name);
    *out = &g->base;
    return OK;
}
