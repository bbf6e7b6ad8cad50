#include "harness/native/answer.h"

#include <stdlib.h>
#include <string.h>

void native_slot_close(struct native_slot *s)
{
    native_session_close(s->session);
    free(s->logits);
    s->session = NULL;
    s->logits = NULL;
}

struct native_counts native_slot_counts(const struct native_slot *s)
{
    struct native_counts c = s->before;
    if (s->session) {
        const struct native_counts *x = native_counts(s->session);
        c.dense_gemms += x->dense_gemms;
        c.grouped_gemms += x->grouped_gemms;
        c.par1_gemms += x->par1_gemms;
        c.plain_gemms += x->plain_gemms;
        c.steps += x->steps;
    }
    return c;
}

static int ready(struct native_slot *s, int sequences, int positions, struct err *e)
{
    const struct model_config *c = &s->native->model->config;
    if (s->session && s->sequences >= sequences && s->positions >= positions)
        return OK;
    s->before = native_slot_counts(s);
    native_slot_close(s);
    s->sequences = sequences;
    s->positions = positions < 512 && c->max_positions >= 512 ? 512 : positions;
    s->logits = malloc(64 * (size_t)c->vocab * sizeof *s->logits);
    if (!s->logits)
        return FAIL(e, E_NOMEM, "out of memory for logits");
    if (native_session_open(s->native, sequences, s->positions, s->team, &s->session, e))
        return e->code;
    native_session_tap(s->session, s->tap, s->tap_arg);
    return OK;
}

static int reserve(const struct engine_request *q, struct stream *a, int n, struct err *e)
{
    a->ids = calloc(n ? (size_t)n : 1, sizeof *a->ids);
    if (!a->ids)
        return FAIL(e, E_NOMEM, "out of memory");
    return q->top_k ? view_alloc(&a->view, n, q->top_k, q->row_hash, e) : OK;
}

static int is_eos(const struct model_config *c, int32_t id)
{
    for (int i = 0; i < c->eos_count; i++)
        if (c->eos[i] == id)
            return 1;
    return 0;
}

/* A mutant: the second best where it is within one bf16 step, as a careless tie-break would have it. */
static int second_best(const uint16_t *row, int vocab, int best)
{
    int32_t second = best ? 0 : 1;
    uint16_t *copy = malloc((size_t)vocab * sizeof *copy);
    if (!copy)
        return best;
    memcpy(copy, row, (size_t)vocab * sizeof *copy);
    copy[best] = 0xff80; /* -inf */
    second = row_argmax(copy, vocab);
    free(copy);
    return row[best] - row[second] <= 1 ? second : best;
}

/* Takes one row of logits; returns 1 when the sequence has ended. */
static int emit(struct native_slot *s, const struct engine_request *q, struct stream *a, const uint16_t *row)
{
    const struct model_config *c = &s->native->model->config;
    const struct mutation *m = &s->native->o.mutation;
    int at = a->n++, id = row_argmax(row, c->vocab);
    if (m->swap_best) {
        mutation_applied(m);
        id = second_best(row, c->vocab, id);
    }
    if (m->early_stop)
        mutation_applied(m);
    a->ids[at] = id;
    keep_row(q, &a->view, at, row, c->vocab);
    a->finish = q->stop_at_eos && is_eos(c, id) ? FINISH_STOP : FINISH_LENGTH;
    return a->finish == FINISH_STOP || a->n >= q->max_new - m->early_stop;
}

/* In which order the prompts lie in the rows of the first step; a row's block decides how its sums are split. vLLM's
 * newer runner, by which dense models run, sorts by length (equal ones as submitted), the older one for experts does
 * not. */
static void order_prompts(const struct engine_request *q, int sorted, int *order)
{
    for (int i = 0; i < q->seqs; i++) {
        int at = i;
        for (; sorted && at && q->seq[order[at - 1]].prompts > q->seq[i].prompts; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static int start(struct native_slot *s, const struct engine_request *q, struct stream *a, struct segment *seg,
                 int32_t *row, struct err *e)
{
    int at = 0, drop = s->native->o.mutation.drop_bos, order[64];
    order_prompts(q, !s->native->model->config.experts, order);
    for (int place = 0; place < q->seqs; place++) {
        int i = order[place];
        int skip = drop && q->seq[i].prompts > 1;
        native_reset(s->session, i);
        if (reserve(q, &a[i], q->max_new, e))
            return e->code;
        seg[place] = (struct segment){i, q->seq[i].prompts - skip, q->seq[i].prompt + skip};
        at += seg[place].rows;
        row[place] = at - 1;
    }
    if (drop)
        mutation_applied(&s->native->o.mutation);
    return OK;
}

static int generate(struct native_slot *s, const struct engine_request *q, struct stream *a, struct err *e)
{
    struct segment seg[64];
    int32_t row[64];
    size_t vocab = (size_t)s->native->model->config.vocab;
    if (start(s, q, a, seg, row, e))
        return e->code;
    for (int n = q->seqs, kept; n; n = kept) {
        if (native_step(s->session, seg, n, e) || native_logits(s->session, row, n, s->logits, e))
            return e->code;
        s->steps++;
        kept = 0;
        for (int i = 0; i < n; i++) {
            int sequence = seg[i].sequence;
            if (emit(s, q, &a[sequence], s->logits + (size_t)i * vocab))
                continue;
            seg[kept] = (struct segment){sequence, 1, &a[sequence].ids[a[sequence].n - 1]};
            row[kept] = kept;
            kept++;
        }
    }
    for (int i = 0; i < q->seqs; i++)
        a[i].view.rows = q->top_k ? a[i].n : 0;
    return OK;
}

/* Rows [from, from+n) of the last step are positions [first, first+n) of the answer. */
static int forced_rows(struct native_slot *s, const struct engine_request *q, struct stream *a, int first, int from,
                       int n, struct err *e)
{
    int vocab = s->native->model->config.vocab;
    for (int done = 0; done < n;) {
        int32_t row[64];
        int count = n - done < 64 ? n - done : 64;
        for (int i = 0; i < count; i++)
            row[i] = from + done + i;
        if (native_logits(s->session, row, count, s->logits, e))
            return e->code;
        for (int i = 0; i < count; i++) {
            const uint16_t *x = s->logits + (size_t)i * (size_t)vocab;
            a->ids[first + done + i] = row_argmax(x, vocab);
            keep_row(q, &a->view, first + done + i, x, vocab);
        }
        done += count;
    }
    return OK;
}

static int force_prefill(struct native_slot *s, const struct engine_request *q, struct stream *a, struct err *e)
{
    const struct sequence *x = q->seq;
    int total = x->prompts + x->forceds;
    int32_t *all = malloc((size_t)(total ? total : 1) * sizeof *all);
    if (!all)
        return FAIL(e, E_NOMEM, "out of memory");
    memcpy(all, x->prompt, (size_t)x->prompts * sizeof *all);
    memcpy(all + x->prompts, x->forced, (size_t)x->forceds * sizeof *all);
    struct segment seg = {0, total, all};
    s->steps++;
    int rc = native_step(s->session, &seg, 1, e);
    if (!rc)
        rc = forced_rows(s, q, a, 0, x->prompts - 1, x->forceds, e);
    free(all);
    return rc;
}

static int force_decode(struct native_slot *s, const struct engine_request *q, struct stream *a, struct err *e)
{
    const struct sequence *x = q->seq;
    for (int i = 0; i < x->forceds; i++) {
        struct segment seg = i ? (struct segment){0, 1, x->forced + i - 1} : (struct segment){0, x->prompts, x->prompt};
        s->steps++;
        if (native_step(s->session, &seg, 1, e) || forced_rows(s, q, a, i, seg.rows - 1, 1, e))
            return e->code;
    }
    return OK;
}

static int check_request(const struct native_slot *s, const struct engine_request *q, int *positions, struct err *e)
{
    const struct model_config *c = &s->native->model->config;
    int generating = q->mode == MODE_GENERATE;
    if (q->seqs < 1 || q->seqs > 64 || (q->seqs > 1 && !generating))
        return FAIL(e, E_USAGE, "%d sequences; 1 to 64 generate together, one is forced at a time", q->seqs);
    if (generating && q->max_new < 1)
        return FAIL(e, E_USAGE, "%d new ids; at least 1 must be asked for", q->max_new);
    *positions = 0;
    for (int i = 0; i < q->seqs; i++) {
        const struct sequence *x = &q->seq[i];
        int need = x->prompts + (generating ? q->max_new - 1 : x->forceds);
        if (x->prompts < 1)
            return FAIL(e, E_INPUT, "%s: the prompt is empty", x->name);
        if (need > c->max_positions)
            return FAIL(e, E_INPUT, "%s: %d positions are needed, the model has %d", x->name, need, c->max_positions);
        *positions = need > *positions ? need : *positions;
    }
    return OK;
}

int native_answer(struct native_slot *s, const struct engine_request *q, struct stream *a, struct err *e)
{
    int positions = 0;
    if (check_request(s, q, &positions, e) || ready(s, q->seqs, positions, e))
        return e->code;
    if (q->mode == MODE_GENERATE)
        return generate(s, q, a, e);
    native_reset(s->session, 0);
    if (reserve(q, a, q->seq->forceds, e))
        return e->code;
    a->n = q->seq->forceds;
    return q->mode == MODE_FORCE_PREFILL ? force_prefill(s, q, a, e) : force_decode(s, q, a, e);
}
