#include "harness/batch_effect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One op of one step: a hash a row. */
struct trace_op {
    char op[32];
    int layer, step, rows;
    uint64_t *row;
};

struct trace {
    struct trace_op *op;
    int ops, room, step, failed;
};

static void trace_free(struct trace *t)
{
    for (int i = 0; i < t->ops; i++)
        free(t->op[i].row);
    free(t->op);
    memset(t, 0, sizeof *t);
}

static void keep(void *arg, int layer, const char *op, uint16_t *data, int rows, int cols)
{
    struct trace *t = arg;
    t->step += !strcmp(op, "embed");
    if (t->ops == t->room) {
        int room = t->room ? 2 * t->room : 256;
        struct trace_op *p = realloc(t->op, (size_t)room * sizeof *p);
        if (!p) {
            t->failed = 1;
            return;
        }
        t->op = p;
        t->room = room;
    }
    struct trace_op *x = &t->op[t->ops];
    *x = (struct trace_op){.layer = layer, .step = t->step, .rows = rows};
    snprintf(x->op, sizeof x->op, "%s", op);
    if (!(x->row = calloc((size_t)rows + 1, sizeof *x->row))) {
        t->failed = 1;
        return;
    }
    for (int r = 0; r < rows; r++) {
        uint8_t hash[SHA256_BYTES];
        sha256_of(data + (size_t)r * (size_t)cols, (size_t)cols * sizeof *data, hash);
        memcpy(&x->row[r], hash, sizeof x->row[r]);
    }
    t->ops++;
}

static int generate(struct engine *g, const struct sequence *seq, int n, int most, struct trace *t,
                    struct stream *answers, struct err *e)
{
    struct engine_request q = {.mode = MODE_GENERATE, .seq = seq, .seqs = n, .max_new = most, .stop_at_eos = 1};
    struct err ignored = {0};
    t->step = -1;
    int rc = g->ops->tap(g, keep, t, e);
    if (!rc)
        rc = g->ops->answer(g, 0, &q, answers, e);
    g->ops->tap(g, NULL, NULL, &ignored);
    if (!rc && t->failed)
        rc = FAIL(e, E_NOMEM, "out of memory for the rows of %d ops", t->ops);
    return rc;
}

static const struct trace_op *op_at(const struct trace *t, int step, int index)
{
    for (int i = 0, seen = -1; i < t->ops; i++)
        if (t->op[i].step == step && ++seen == index)
            return &t->op[i];
    return NULL;
}

/* Where a prompt's rows begin in the first step, when the prompts lie in this order. */
static int place_in(const struct sequence *seq, const int *order, int prompt)
{
    int at = 0;
    for (int i = 0; order[i] != prompt; i++)
        at += seq[order[i]].prompts;
    return at;
}

/* The order in which the engine laid the prompts out shows in the embedded rows: as submitted, or by length. */
static int find_order(const struct sequence *seq, int n, const struct trace *alone, const struct trace *batch,
                      int *order, struct err *e)
{
    const struct trace_op *all = op_at(batch, 0, 0);
    for (int sorted = 0; sorted < 2 && all; sorted++) {
        int good = 1;
        for (int i = 0; i < n; i++) {
            int at = i;
            for (; sorted && at && seq[order[at - 1]].prompts > seq[i].prompts; at--)
                order[at] = order[at - 1];
            order[at] = i;
        }
        for (int i = 0; i < n && good; i++) {
            const struct trace_op *own = op_at(&alone[i], 0, 0);
            int at = place_in(seq, order, i);
            good = own && at + own->rows <= all->rows &&
                   !memcmp(own->row, all->row + at, (size_t)own->rows * sizeof *own->row);
        }
        if (good)
            return OK;
    }
    return FAIL(e, E_UNSUPPORTED, "the engine lays the prompts of a step out in an order that is not known here");
}

/* Row of the prompt among one row a prompt: after those before it in the order that still run in this step. */
static int row_among(const int *order, const struct stream *answer, int prompt, int step)
{
    int at = 0;
    for (int i = 0; order[i] != prompt; i++)
        at += answer[order[i]].n > step;
    return at;
}

/* Rows of the op in which the prompt's rows differ from its own when alone; 0: none. *from: its first row there. */
static int rows_differing(const struct trace_op *a, const struct trace_op *b, int from)
{
    int differ = 0;
    for (int r = 0; r < a->rows && from + r < b->rows; r++)
        differ += a->row[r] != b->row[from + r];
    return differ;
}

/* The first op, up to the step that emits the changed token, in which the prompt's rows differ. */
static void first_op(const struct trace *alone, const struct trace *batch, const int *order, const struct sequence *seq,
                     const struct stream *answer, struct batch_effect *j)
{
    const struct trace_op *a, *b;
    for (int step = 0; step <= j->position; step++)
        for (int i = 0; (a = op_at(alone, step, i)) && (b = op_at(batch, step, i)); i++) {
            /* Logits are there for the last row of each prompt only. */
            int last_only = step || !strcmp(a->op, "logits");
            int from = last_only ? row_among(order, answer, j->prompt, step) : place_in(seq, order, j->prompt);
            int differ = rows_differing(a, b, from);
            if (!differ)
                continue;
            j->step = step, j->layer = a->layer, j->rows = a->rows, j->differ = differ;
            j->rows_alone = a->rows, j->rows_batch = b->rows, j->place = from;
            snprintf(j->op, sizeof j->op, "%s", a->op);
            return;
        }
}

static int same_ids(const struct stream *a, const int32_t *ids, int n)
{
    return a->n == n && !memcmp(a->ids, ids, (size_t)n * sizeof *ids);
}

static void compare(const struct golden_prompt *p, const struct stream *alone, const struct stream *batch,
                    struct batch_effect *j)
{
    int at = 0, most = alone->n > batch->n ? alone->n : batch->n;
    while (at < alone->n && at < batch->n && alone->ids[at] == batch->ids[at])
        at++;
    j->position = at < most ? at : -1;
    j->alone = at < alone->n ? alone->ids[at] : -1;
    j->batch = at < batch->n ? batch->ids[at] : -1;
    j->alone_as_oracle = same_ids(alone, p->ids, p->n);
    j->batch_as_oracle = -1;
    if (p->batches) {
        const struct batch_pass *b = &p->batch[0];
        j->batch_as_oracle = b->ids ? same_ids(batch, b->ids, b->n) : same_ids(batch, p->ids, p->n);
    }
}

static int measure(struct engine *g, const struct golden *o, const struct sequence *seq, struct trace *alone,
                   struct stream *lone, struct stream *batch, struct batch_effect *out,
                   void (*progress)(void *arg, int done, int total), void *arg, struct err *e)
{
    struct trace all = {0};
    int order[BATCH_PROMPTS], most = 0, rc = OK;
    for (int i = 0; i < o->prompts; i++)
        most = o->prompt[i].n > most ? o->prompt[i].n : most;
    for (int i = 0; i < o->prompts && !rc; i++) {
        rc = generate(g, &seq[i], 1, most, &alone[i], &lone[i], e);
        if (progress)
            progress(arg, i + 1, o->prompts + 1);
    }
    if (!rc)
        rc = generate(g, seq, o->prompts, most, &all, batch, e);
    if (progress)
        progress(arg, o->prompts + 1, o->prompts + 1);
    if (!rc)
        rc = find_order(seq, o->prompts, alone, &all, order, e);
    for (int i = 0; i < o->prompts && !rc; i++) {
        out[i] = (struct batch_effect){.prompt = i, .step = -1};
        compare(&o->prompt[i], &lone[i], &batch[i], &out[i]);
        if (out[i].position >= 0)
            first_op(&alone[i], &all, order, seq, batch, &out[i]);
    }
    trace_free(&all);
    return rc;
}

int batch_effect_measure(struct engine *g, const struct golden *o, struct batch_effect *out,
                         void (*progress)(void *arg, int done, int total), void *arg, struct err *e)
{
    struct sequence seq[BATCH_PROMPTS];
    struct stream lone[BATCH_PROMPTS] = {0}, batch[BATCH_PROMPTS] = {0};
    struct trace alone[BATCH_PROMPTS] = {0};
    if (o->prompts > BATCH_PROMPTS)
        return FAIL(e, E_USAGE, "%d prompts; at most %d are submitted at once", o->prompts, BATCH_PROMPTS);
    if (!g->ops->tap)
        return FAIL(e, E_UNSUPPORTED, "engine %s cannot be looked into: it has no taps", g->ops->name);
    for (int i = 0; i < o->prompts; i++)
        seq[i] = (struct sequence){o->prompt[i].name, o->prompt[i].prompt_ids, NULL, o->prompt[i].prompts, 0};
    int rc = measure(g, o, seq, alone, lone, batch, out, progress, arg, e);
    for (int i = 0; i < o->prompts; i++) {
        trace_free(&alone[i]);
        stream_free(&lone[i]);
        stream_free(&batch[i]);
    }
    return rc;
}
