#include "harness/bisect/bisect.h"

#include <stdlib.h>
#include <string.h>

static const struct op_log *log_a(const struct bisect_job *j, const struct bisect *b)
{
    return j->trace ? &j->trace->log : &b->a;
}

static int compare(const struct op_log *a, const struct op_log *b, struct op_difference **out, int *n, struct err *e)
{
    free(*out);
    *out = calloc((size_t)b->n + 1, sizeof **out);
    *n = *out ? op_log_compare(a, b, *out, b->n) : 0;
    return *out ? OK : FAIL(e, E_NOMEM, "out of memory for %d ops", b->n);
}

static int first_of(const struct op_difference *d, int n)
{
    for (int i = 0; i < n; i++)
        if (op_differs(&d[i]))
            return i;
    return -1;
}

static void count_alone(const struct bisect_job *j, struct bisect *b)
{
    b->alone_a = log_a(j, b)->n - b->growns;
    b->alone_b = b->b.n - b->growns;
    b->first = first_of(b->grown, b->growns);
}

/* The ids that both are fed: the trace's own, else what a emits. */
static int choose_ids(const struct bisect_job *j, struct bisect *b, struct err *e)
{
    int steps = j->max_new > j->steps - 1 ? j->max_new : j->steps - 1;
    const int32_t *from = j->trace ? j->trace->forced : NULL;
    if (!j->trace && op_log_free_run(j->a, j->prompt, j->prompts, steps > 0 ? steps : 1, NULL, &b->emit_a, e))
        return e->code;
    b->forceds = j->trace ? j->trace->forceds : j->steps - 1 < b->emit_a.n ? j->steps - 1 : b->emit_a.n;
    b->forced = calloc((size_t)b->forceds + 1, sizeof *b->forced);
    if (!b->forced)
        return FAIL(e, E_NOMEM, "out of memory");
    if (b->forceds)
        memcpy(b->forced, from ? from : b->emit_a.ids, (size_t)b->forceds * sizeof *b->forced);
    return OK;
}

/* Which side takes the other's values: b, unless only a can. */
static int feed(const struct bisect_job *j, struct bisect *b, struct err *e)
{
    const struct op_log *a = log_a(j, b);
    struct engine *g = j->b;
    if (!g->ops->tap_feeds && j->a && j->a->ops->tap_feeds)
        g = j->a;
    b->fed_is_a = g == j->a;
    b->could_feed = g->ops->tap_feeds;
    if (!b->could_feed)
        return OK;
    if (op_log_engine(g, j->prompt, j->prompts, b->forced, b->forceds, b->fed_is_a ? &b->b : a, &b->fed, e))
        return e->code;
    if (compare(b->fed_is_a ? &b->b : a, &b->fed, &b->same, &b->sames, e))
        return e->code;
    int n = 0;
    for (int i = 0; i < b->sames; i++) {
        if (b->same[i].b->same_inputs)
            b->same[n++] = b->same[i];
        else
            b->unrecorded++;
    }
    b->sames = n;
    return OK;
}

static void compare_emitted(struct bisect *b)
{
    int n = b->emit_a.n < b->emit_b.n ? b->emit_a.n : b->emit_b.n;
    b->emission = b->emit_a.n == b->emit_b.n ? -1 : n;
    for (int i = 0; i < n; i++)
        if (b->emit_a.ids[i] != b->emit_b.ids[i]) {
            b->emission = i;
            return;
        }
}

/* No op differs on the same ids; what does an engine do that the ops do not show? */
static int look_at_free_run(const struct bisect_job *j, struct bisect *b, struct err *e)
{
    int n = b->emit_a.n;
    if (j->trace || j->max_new < 1)
        return OK;
    if (op_log_free_run(j->b, j->prompt, j->prompts, n, NULL, &b->emit_b, e))
        return e->code;
    compare_emitted(b);
    if (b->emission < 0)
        return OK;
    stream_free(&b->emit_a);
    stream_free(&b->emit_b);
    op_log_free(&b->a);
    op_log_free(&b->b);
    b->free_run = 1;
    if (op_log_free_run(j->a, j->prompt, j->prompts, n, &b->a, &b->emit_a, e) ||
        op_log_free_run(j->b, j->prompt, j->prompts, n, &b->b, &b->emit_b, e) ||
        compare(&b->a, &b->b, &b->grown, &b->growns, e))
        return e->code;
    compare_emitted(b);
    count_alone(j, b);
    /* An op that differs only because another id was fed before it explains nothing. */
    if (b->first >= 0 && b->grown[b->first].b->step > b->emission)
        b->first = -1;
    return OK;
}

static int can_be_seen(const struct engine *g, struct err *e)
{
    if (!g->ops->tap)
        FAIL(e, E_UNSUPPORTED, "engine %s cannot be looked into: it has no taps", g->ops->name);
    return g->ops->tap != NULL;
}

int bisect_run(const struct bisect_job *j, struct bisect *b, struct err *e)
{
    memset(b, 0, sizeof *b);
    b->first = b->emission = -1;
    if ((j->a && !can_be_seen(j->a, e)) || !can_be_seen(j->b, e))
        return e->code;
    if (choose_ids(j, b, e))
        return e->code;
    if (!j->trace && op_log_engine(j->a, j->prompt, j->prompts, b->forced, b->forceds, NULL, &b->a, e))
        return e->code;
    if (op_log_engine(j->b, j->prompt, j->prompts, b->forced, b->forceds, NULL, &b->b, e) ||
        compare(log_a(j, b), &b->b, &b->grown, &b->growns, e))
        return e->code;
    if (!b->growns)
        return FAIL(e, E_MISSING, "the two sides show no op in common");
    count_alone(j, b);
    if (b->first >= 0)
        return feed(j, b, e);
    return look_at_free_run(j, b, e);
}

void bisect_free(struct bisect *b)
{
    op_log_free(&b->a);
    op_log_free(&b->b);
    op_log_free(&b->fed);
    stream_free(&b->emit_a);
    stream_free(&b->emit_b);
    free(b->grown);
    free(b->same);
    free(b->forced);
    memset(b, 0, sizeof *b);
}

int bisect_kinds(const struct bisect *b, struct bisect_kind *k, int max)
{
    int n = 0;
    for (int i = 0; i < b->sames; i++) {
        const struct op_difference *d = &b->same[i];
        int at = 0;
        while (at < n && strcmp(k[at].op, d->a->op))
            at++;
        if (!op_differs(d) || (at == n && n == max))
            continue;
        if (at == n)
            k[n++] = (struct bisect_kind){.op = d->a->op, .first = d};
        k[at].wrong++;
        k[at].max_ulp = d->max_ulp > k[at].max_ulp ? d->max_ulp : k[at].max_ulp;
    }
    for (int i = 0; i < b->sames; i++)
        for (int at = 0; at < n; at++)
            k[at].all += !strcmp(k[at].op, b->same[i].a->op);
    return n;
}
