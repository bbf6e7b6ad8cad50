#include "harness/judge_prompt.h"

#include "harness/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum shape {
    SHAPE_FREE,
    SHAPE_DECODE,
    SHAPE_PREFILL,
};

static int add_row(struct judgement *j, const struct verdict_row *r, struct err *e)
{
    if (j->rows == j->row_capacity) {
        int capacity = j->row_capacity ? 2 * j->row_capacity : 64;
        struct verdict_row *bigger = realloc(j->row, (size_t)capacity * sizeof *bigger);
        if (!bigger)
            return FAIL(e, E_NOMEM, "out of memory for %d verdicts", capacity);
        j->row = bigger;
        j->row_capacity = capacity;
    }
    j->row[j->rows++] = *r;
    return OK;
}

static struct verdict_row blank(const struct prompt_judge *p, enum shape shape, int position, enum verdict v)
{
    struct verdict_row r = {.position = position,
                            .forced = shape,
                            .verdict = v,
                            .golden_id = -1,
                            .arm_id = -1,
                            .gap_nats = NAN,
                            .gap_ulp = NAN,
                            .gap_bound_nats = NAN,
                            .ulp = NAN,
                            .razor_nats = NAN,
                            .jitter_nats = NAN,
                            .self_gap_nats = NAN};
    snprintf(r.prompt, sizeof r.prompt, "%s", p->fed->name);
    return r;
}

static const struct view *oracle_view(const struct prompt_judge *p, enum shape shape)
{
    return shape == SHAPE_PREFILL ? &p->golden->prefill : &p->golden->decode;
}

/* Both sides' rows at one position: a non-finite value equals only its own bits. */
static int rows_are_sound(const struct view *oracle, const struct view *arm, int position)
{
    int there = position < arm->rows;
    if (position < oracle->rows && !row_is_finite(oracle, position))
        return there && row_equal(oracle, position, arm, position);
    return !there || row_is_finite(arm, position);
}

/* Judges an id that is not the oracle's, on an identical prefix. */
static struct verdict_row weigh(const struct prompt_judge *p, enum shape shape, int position, int32_t arm_id)
{
    struct verdict_row r = blank(p, shape, position, V_CASCADE);
    struct gap g = gap_of(oracle_view(p, shape), position, arm_id, p->bits);
    struct jitter jitter = jitter_at(p->golden, position, arm_id, p->bits);
    r.golden_id = p->golden->ids[position];
    r.arm_id = arm_id;
    r.gap_nats = g.nats;
    r.gap_ulp = g.ulps;
    r.gap_bound_nats = g.bound_nats;
    r.ulp = g.ulp;
    r.ties = g.ties;
    r.self_gap_nats = jitter.self_nats;
    r.jitter_nats = jitter.nats;
    r.razor_nats = razor_width(&p->rule, g.ulp, jitter.nats);
    r.verdict = position < oracle_view(p, shape)->rows ? razor_verdict(&g, r.razor_nats) : V_CASCADE;
    p->j->grid_inferred |= g.finite && g.inferred;
    p->j->unresolved += r.verdict == V_CASCADE;
    return r;
}

static void widen(double *worst_nats, double *worst_ulp, const struct verdict_row *r)
{
    /* fmax drops NaN: an id outside the stored list counts with its bound. */
    double ulps = isnan(r->gap_ulp) && r->gap_bound_nats > 0 ? r->gap_bound_nats / r->ulp : r->gap_ulp;
    *worst_nats = fmax(*worst_nats, r->gap_bound_nats);
    *worst_ulp = fmax(*worst_ulp, ulps);
}

static int first_difference(const int32_t *a, int na, const int32_t *b, int nb)
{
    int i = 0;
    while (i < na && i < nb && a[i] == b[i])
        i++;
    return i;
}

/* The golden's prompt ids against the battery's, then against what the arm says it was fed. */
static int judge_tokenisation(const struct prompt_judge *p, int *differs, struct err *e)
{
    const struct golden_prompt *g = p->golden;
    const int32_t *const side[] = {p->fed->ids, p->answer->fed ? p->answer->fed : p->fed->ids};
    const int n[] = {p->fed->n, p->answer->fed ? p->answer->feds : p->fed->n};
    for (int i = 0; i < 2; i++) {
        int at = first_difference(g->prompt_ids, g->prompts, side[i], n[i]);
        *differs = at != g->prompts || at != n[i];
        if (!*differs)
            continue;
        struct verdict_row r = blank(p, SHAPE_FREE, at, V_TOKENISATION);
        r.root = 1;
        r.golden_id = at < g->prompts ? g->prompt_ids[at] : -1;
        r.arm_id = at < n[i] ? side[i][at] : -1;
        p->j->roots++;
        return add_row(p->j, &r, e);
    }
    return OK;
}

/* NaN or infinity on the common prefix, where the ids happen to agree. */
static int judge_soundness(const struct prompt_judge *p, const struct stream *s, int until, enum shape shape,
                           int *unsound, struct err *e)
{
    int rc = OK;
    for (int i = 0; i < until && rc == OK; i++) {
        if (rows_are_sound(oracle_view(p, shape), &s->view, i))
            continue;
        struct verdict_row r = blank(p, shape, i, V_NON_FINITE);
        r.golden_id = p->golden->ids[i];
        r.arm_id = s->ids[i];
        ++*unsound;
        rc = add_row(p->j, &r, e);
    }
    return rc;
}

/* The first difference of the free run: an id that the razor weighs, or one stream that ends before the other. */
static int judge_root(const struct prompt_judge *p, int at, struct err *e)
{
    const struct golden_prompt *g = p->golden;
    const struct stream *s = p->answer->free;
    struct verdict_row r;
    if (at < g->n && at < s->n) {
        r = weigh(p, SHAPE_FREE, at, s->ids[at]);
        if (at < s->view.rows && !rows_are_sound(&g->decode, &s->view, at))
            r.verdict = V_NON_FINITE;
        widen(&p->j->worst_nats, &p->j->worst_ulp, &r);
    } else {
        r = blank(p, SHAPE_FREE, at, V_LENGTH);
        r.golden_id = at < g->n ? g->ids[at] : -1;
        r.arm_id = at < s->n ? s->ids[at] : -1;
    }
    r.root = 1;
    p->j->roots++;
    return add_row(p->j, &r, e);
}

/* Positions after the root whose ids differ. They are shown, and judged where a forced run reached them. */
static int judge_cascade(const struct prompt_judge *p, int root, struct err *e)
{
    const struct golden_prompt *g = p->golden;
    const struct stream *s = p->answer->free;
    int reached = p->answer->decode ? p->answer->decode->n : 0, rc = OK;
    for (int i = root + 1; i < g->n && rc == OK; i++) {
        if (i < s->n && s->ids[i] == g->ids[i])
            continue;
        struct verdict_row r = blank(p, SHAPE_FREE, i, V_CASCADE);
        r.golden_id = g->ids[i];
        r.arm_id = i < s->n ? s->ids[i] : -1;
        p->j->cascades++;
        p->j->cascades_unjudged += i >= reached;
        rc = add_row(p->j, &r, e);
    }
    return rc;
}

static int judge_free(const struct prompt_judge *p, int *common, struct err *e)
{
    const struct golden_prompt *g = p->golden;
    const struct stream *s = p->answer->free;
    struct judgement *j = p->j;
    int unsound = 0, rc, at = first_difference(g->ids, g->n, s->ids, s->n);
    /* At full length both had to end; before that, the reason must agree too. */
    int same = at == g->n && at == s->n && (s->finish == g->finish || at == p->battery->max_new_tokens);
    *common = at;
    for (int i = 0; i < g->n && i < s->n; i++)
        j->tokens_equal += g->ids[i] == s->ids[i];
    if ((rc = judge_soundness(p, s, at, SHAPE_FREE, &unsound, e)))
        return rc;
    j->prompts_exact += same && !unsound;
    j->judged += at;
    if (same)
        return OK;
    j->judged += at < g->n && at < s->n;
    if ((rc = judge_root(p, at, e)))
        return rc;
    return judge_cascade(p, at, e);
}

static void count_rows(const struct view *oracle, const struct view *arm, int rows, struct row_count *c)
{
    for (int i = 0; i < rows; i++) {
        if (!row_comparable(oracle, i, arm, i))
            continue;
        c->rows++;
        c->equal += row_equal(oracle, i, arm, i);
    }
}

/* An oracle whose prefill contradicts its own decode is met by the same bits and their maximum. */
static int is_prefill_answer(const struct prompt_judge *p, enum shape shape, const struct stream *s, int at)
{
    const struct view *oracle = oracle_view(p, shape);
    return shape == SHAPE_PREFILL && row_equal(oracle, at, &s->view, at) &&
           gap_of(oracle, at, s->ids[at], p->bits).nats == 0;
}

/* Is this the free run's root again: the same prefix, the same shape, the same id? */
static int is_known_root(const struct prompt_judge *p, enum shape shape, int at, int root, int32_t id)
{
    return shape == SHAPE_DECODE && at == root && p->answer->free->ids[at] == id;
}

static int judge_forced_at(const struct prompt_judge *p, const struct stream *s, enum shape shape, int at, int root,
                           struct err *e)
{
    struct judgement *j = p->j;
    int32_t want = p->golden->ids[at], have = s->ids[at];
    if (!rows_are_sound(oracle_view(p, shape), &s->view, at)) {
        struct verdict_row r = blank(p, shape, at, V_NON_FINITE);
        r.golden_id = want;
        r.arm_id = have;
        return add_row(j, &r, e);
    }
    if (want == have || is_prefill_answer(p, shape, s, at)) {
        j->forced_equal++;
        return OK;
    }
    int unresolved = j->unresolved;
    struct verdict_row r = weigh(p, shape, at, have);
    widen(&j->forced_worst_nats, &j->forced_worst_ulp, &r);
    if (!is_known_root(p, shape, at, root, have))
        return add_row(j, &r, e);
    j->unresolved = unresolved;
    return OK;
}

/* Teacher forcing: the arm's argmax at every position of the golden's own stream. */
static int judge_forced(const struct prompt_judge *p, const struct stream *s, enum shape shape, int root, struct err *e)
{
    int rc = OK, n = s->n < p->golden->n ? s->n : p->golden->n;
    p->j->forced += n;
    for (int i = 0; i < n && rc == OK; i++)
        rc = judge_forced_at(p, s, shape, i, root, e);
    return rc;
}

static int judge_forced_phases(const struct prompt_judge *p, int common, struct err *e)
{
    const struct golden_prompt *g = p->golden;
    const struct stream *free_run = p->answer->free, *decode = p->answer->decode, *prefill = p->answer->prefill;
    struct judgement *j = p->j;
    int rc = OK, on_prefix = common < g->n && common < free_run->n ? common + 1 : common;
    if (decode) {
        j->judged += decode->n > on_prefix ? (decode->n < g->n ? decode->n : g->n) - on_prefix : 0;
        count_rows(&g->decode, &decode->view, decode->n, &j->decode);
        rc = judge_forced(p, decode, SHAPE_DECODE, common < free_run->n ? common : -1, e);
    } else {
        /* Until the first difference the free run stands on the golden's prefix: its rows are the decode-shaped rows.
         */
        count_rows(&g->decode, &free_run->view, on_prefix, &j->decode);
        if (common == g->n && free_run->view.rows >= g->n) {
            j->forced += g->n;
            j->forced_equal += g->n;
        }
    }
    if (prefill && rc == OK) {
        count_rows(&g->prefill, &prefill->view, prefill->n, &j->prefill);
        rc = judge_forced(p, prefill, SHAPE_PREFILL, -1, e);
    }
    return rc;
}

/* The oracle against itself: where its batch passes leave the lone stream, and prefill against decode. */
static void measure_noise(const struct golden_prompt *g, int bits, struct noise *n)
{
    int left = 0;
    for (int b = 0; b < g->batches; b++) {
        if (!g->batch[b].ids)
            continue;
        int at = first_difference(g->ids, g->n, g->batch[b].ids, g->batch[b].n);
        if (at == g->n && at == g->batch[b].n)
            continue;
        left = 1;
        if (at < g->n && at < g->batch[b].n)
            n->batch_ulp = fmax(n->batch_ulp, gap_of(&g->decode, at, g->batch[b].ids[at], bits).ulps);
    }
    n->batch_roots += left;
    for (int i = 0; i < g->decode.rows && i < g->prefill.rows; i++) {
        struct gap d = gap_of(&g->decode, i, -1, bits), f = gap_of(&g->prefill, i, g->ids[i], bits);
        n->rows++;
        n->rows_equal += row_equal(&g->decode, i, &g->prefill, i);
        n->argmax_equal += d.finite && f.stored && f.nats == 0;
    }
}

int judge_prompt(const struct prompt_judge *p, struct err *e)
{
    struct judgement *j = p->j;
    int differs = 0, common = 0, rc;
    j->prompts++;
    if (!p->golden) {
        j->prompts_missing++;
        return OK;
    }
    j->tokens += p->golden->n;
    measure_noise(p->golden, p->bits, &j->noise);
    if ((rc = judge_tokenisation(p, &differs, e)) || differs)
        return rc;
    if (!p->answer->free) {
        j->prompts_missing++;
        return OK;
    }
    if ((rc = judge_free(p, &common, e)))
        return rc;
    return judge_forced_phases(p, common, e);
}
