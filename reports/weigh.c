#include "reports/weigh.h"

#include "harness/razor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static double margin(const struct view *v, int row)
{
    if (row >= v->rows || v->top_k < 2)
        return NAN;
    const float *value = v->top_values + (size_t)row * (size_t)v->top_k;
    return v->top_ids[(size_t)row * (size_t)v->top_k + 1] < 0 ? NAN : (double)value[0] - value[1];
}

/* What the razor would have been for the golden's own id: equal positions are shown with their inputs too. */
static void weigh_equal(const struct report *r, const struct report_prompt *p, struct verdict_row *row)
{
    int bits = golden_significand_bits(r->golden);
    struct gap g = gap_of(&p->golden->decode, row->position, row->golden_id, bits);
    struct jitter jitter = jitter_at(p->golden, row->position, row->golden_id, bits);
    row->gap_nats = g.nats;
    row->gap_ulp = g.ulps;
    row->gap_bound_nats = g.bound_nats;
    row->ulp = g.ulp;
    row->ties = g.ties;
    row->jitter_nats = jitter.nats;
    row->self_gap_nats = jitter.self_nats;
    if (r->battery) {
        struct razor_rule rule = {r->battery->razor_ulp, r->battery->razor_cap_nats};
        row->razor_nats = razor_width(&rule, g.ulp, jitter.nats);
    }
}

static struct verdict_row blank(const struct report_prompt *p, int position)
{
    const struct golden_prompt *g = p->golden;
    struct verdict_row row = {.position = position,
                              .verdict = V_EQUAL,
                              .golden_id = g && position < g->n ? g->ids[position] : -1,
                              .arm_id = position < p->free.n ? p->free.ids[position] : -1,
                              .gap_nats = NAN,
                              .gap_ulp = NAN,
                              .gap_bound_nats = NAN,
                              .ulp = NAN,
                              .razor_nats = NAN,
                              .jitter_nats = NAN,
                              .self_gap_nats = NAN};
    snprintf(row.prompt, sizeof row.prompt, "%s", p->name);
    return row;
}

static void fill(const struct report *r, struct report_prompt *p)
{
    for (int i = 0; i < p->positions; i++) {
        struct report_position *at = &p->position[i];
        at->row = blank(p, i);
        at->in_golden = p->golden && i < p->golden->n;
        at->in_arm = i < p->free.n;
        at->margin_nats = at->in_golden ? margin(&p->golden->decode, i) : NAN;
        at->judged = r->summary && at->in_golden && at->in_arm && at->row.golden_id == at->row.arm_id;
        if (at->in_golden)
            weigh_equal(r, p, &at->row);
    }
}

static void graver(struct report_prompt *p, enum verdict v)
{
    if (p->verdict == V_COUNT || v > p->verdict)
        p->verdict = v;
}

static void place(struct report_prompt *p, const struct verdict_row *v)
{
    graver(p, v->verdict);
    if (!v->forced && v->root)
        p->root = v;
    if (v->verdict == V_TOKENISATION) {
        p->tokenisation = v;
        return;
    }
    if (v->position < 0 || v->position >= p->positions)
        return;
    struct report_position *at = &p->position[v->position];
    if (v->forced) {
        *(v->forced == 1 ? &at->decode : &at->prefill) = v;
        return;
    }
    at->row = *v;
    at->judged = 1;
}

int report_weigh(const struct report *r, struct report_prompt *p, struct err *e)
{
    int last = 0, root;
    for (int i = 0; i < r->rows; i++)
        if (!strcmp(r->row[i].prompt, p->name) && r->row[i].verdict != V_TOKENISATION)
            last = larger(last, r->row[i].position + 1);
    p->positions = larger(p->golden ? p->golden->n : last, p->free.n);
    p->verdict = r->summary && p->has_free ? V_EQUAL : V_COUNT;
    p->position = calloc((size_t)p->positions + 1, sizeof *p->position);
    if (!p->position)
        return FAIL(e, E_NOMEM, "out of memory for %d positions", p->positions);
    fill(r, p);
    for (int i = 0; i < r->rows; i++)
        if (!strcmp(r->row[i].prompt, p->name))
            place(p, &r->row[i]);
    root = p->root && !p->tokenisation ? p->root->position : p->positions;
    for (int i = root + 1; i < p->positions; i++)
        p->position[i].after_root = 1;
    return OK;
}

int report_prompt_exact(const struct report_prompt *p)
{
    return p->verdict == V_EQUAL;
}

void report_rows(const struct report_prompt *p, int position, int prefill, const struct view **oracle,
                 const struct view **arm)
{
    const struct view *o = !p->golden ? NULL : prefill ? &p->golden->prefill : &p->golden->decode;
    const struct view *forced = prefill ? &p->prefill.view : &p->decode.view;
    int on_prefix = !prefill && position < p->positions && !p->position[position].after_root && !p->tokenisation;
    *oracle = o && position < o->rows ? o : NULL;
    *arm = on_prefix && position < p->free.view.rows ? &p->free.view : position < forced->rows ? forced : NULL;
}

int report_rows_equal(const struct view *a, const struct view *b, int position)
{
    size_t ka = (size_t)a->top_k, kb = (size_t)b->top_k, at = (size_t)position;
    return ka == kb && a->kind == b->kind &&
           !memcmp(a->top_ids + at * ka, b->top_ids + at * kb, ka * sizeof *a->top_ids) &&
           !memcmp(a->top_values + at * ka, b->top_values + at * kb, ka * sizeof *a->top_values);
}
