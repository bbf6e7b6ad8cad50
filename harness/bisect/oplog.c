#include "harness/bisect/oplog.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void op_log_free(struct op_log *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->record[i].data);
    free(l->record);
    memset(l, 0, sizeof *l);
}

int op_log_add(struct op_log *l, const struct op_record *r, struct err *e)
{
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        struct op_record *p = realloc(l->record, (size_t)room * sizeof *p);
        if (!p)
            return FAIL(e, E_NOMEM, "out of memory for the outputs of %d ops", room);
        l->record = p;
        l->room = room;
    }
    size_t bytes = (size_t)r->rows * (size_t)r->cols * sizeof *r->data;
    struct op_record *x = &l->record[l->n];
    *x = *r;
    x->data = malloc(bytes ? bytes : 1);
    if (!x->data)
        return FAIL(e, E_NOMEM, "out of memory for the outputs of %d ops", l->n);
    memcpy(x->data, r->data, bytes);
    l->n++;
    return OK;
}

/* The record of that step, layer and op; the search begins at *hint, where the last one was found. */
static const struct op_record *find(const struct op_log *l, const struct op_record *x, int *hint)
{
    for (int i = 0; i < l->n; i++) {
        int at = (*hint + i) % l->n;
        const struct op_record *y = &l->record[at];
        if (y->step == x->step && y->layer == x->layer && !strcmp(y->op, x->op)) {
            *hint = at;
            return y;
        }
    }
    return NULL;
}

struct recorder {
    struct op_log *log;
    const struct op_log *feed;
    struct err *e;
    int step, hint;
    int chain;         /* everything since the last residual sum was fed */
    int before;        /* chain as it was at that sum: a norm is computed together with it */
    int summed;        /* the last op was a residual sum */
    char stale[65536]; /* a layer's cache holds values that were not fed */
};

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* 1 when all that this op has read was fed. Norms are fused with the residual sum before them. */
static int reads_fed(struct recorder *r, const struct op_record *x)
{
    if (!strcmp(x->op, "embed"))
        return 1; /* reads ids */
    if (r->summed && ends_with(x->op, "_norm"))
        return r->before;
    if (!strcmp(x->op, "attn") && x->layer >= 0 && x->layer < (int)sizeof r->stale)
        return r->chain && !r->stale[x->layer];
    return r->chain;
}

/* Puts the other log's values in the place of the op's own; remembers where that was not possible. */
static void feed(struct recorder *r, const struct op_record *x, uint16_t *data)
{
    int sum = ends_with(x->op, "_residual");
    const struct op_record *y = find(r->feed, x, &r->hint);
    int fed = y && y->rows == x->rows && y->cols == x->cols;
    if (fed)
        memcpy(data, y->data, (size_t)x->rows * (size_t)x->cols * sizeof *data);
    else if (x->layer >= 0 && x->layer < (int)sizeof r->stale &&
             (!strcmp(x->op, "qkv_proj") || !strcmp(x->op, "rotary_k")))
        r->stale[x->layer] = 1;
    if (sum)
        r->before = r->chain;
    r->chain = sum || !strcmp(x->op, "embed") ? fed : r->chain && fed;
    r->summed = sum;
}

static void record(void *arg, int layer, const char *op, uint16_t *data, int rows, int cols)
{
    struct recorder *r = arg;
    struct op_record x = {.layer = layer, .rows = rows, .cols = cols, .data = data};
    if (!strcmp(op, "embed"))
        r->step++;
    x.step = r->step;
    snprintf(x.op, sizeof x.op, "%s", op);
    x.same_inputs = r->feed && reads_fed(r, &x);
    if (!r->e->code)
        op_log_add(r->log, &x, r->e);
    if (r->feed)
        feed(r, &x, data);
}

static int answer_tapped(struct engine *g, struct recorder *r, const struct engine_request *q, struct stream *answer,
                         struct err *e)
{
    struct err seen = {0}, ignored = {0};
    r->e = &seen;
    r->step = -1;
    if (!g->ops->tap)
        return FAIL(e, E_UNSUPPORTED, "engine %s cannot be looked into: it has no taps", g->ops->name);
    if (r->feed && !g->ops->tap_feeds)
        return FAIL(e, E_UNSUPPORTED, "engine %s shows its ops but takes no values in their place", g->ops->name);
    int rc = g->ops->tap(g, record, r, e);
    if (!rc)
        rc = g->ops->answer(g, 0, q, answer, e);
    g->ops->tap(g, NULL, NULL, &ignored);
    return !rc && seen.code ? FAIL(e, seen.code, "%s", seen.text) : rc;
}

int op_log_engine(struct engine *g, const int32_t *prompt, int prompts, const int32_t *forced, int forceds,
                  const struct op_log *other, struct op_log *out, struct err *e)
{
    struct stream answer = {0};
    /* one forced id more than is looked at: its row ends the last step */
    int32_t *ids = calloc((size_t)forceds + 1, sizeof *ids);
    struct recorder *r = calloc(1, sizeof *r);
    int rc = OK;
    if (!ids || !r) {
        rc = FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    if (forceds)
        memcpy(ids, forced, (size_t)forceds * sizeof *ids);
    struct sequence s = {"bisect", prompt, ids, prompts, forceds + 1};
    struct engine_request q = {.mode = MODE_FORCE_DECODE, .seq = &s, .seqs = 1};
    r->log = out;
    r->feed = other;
    rc = answer_tapped(g, r, &q, &answer, e);
out:
    stream_free(&answer);
    free(ids);
    free(r);
    return rc;
}

int op_log_free_run(struct engine *g, const int32_t *prompt, int prompts, int max_new, struct op_log *out,
                    struct stream *emitted, struct err *e)
{
    struct sequence s = {"bisect", prompt, NULL, prompts, 0};
    struct engine_request q = {.mode = MODE_GENERATE, .seq = &s, .seqs = 1, .max_new = max_new};
    struct recorder *r = calloc(1, sizeof *r);
    if (!r)
        return FAIL(e, E_NOMEM, "out of memory");
    r->log = out;
    int rc = out ? answer_tapped(g, r, &q, emitted, e) : g->ops->answer(g, 0, &q, emitted, e);
    free(r);
    return rc;
}

static float wide(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Place of a bf16 on the line of all bf16: neighbours differ by 1, both zeros are 0. */
static int place(uint16_t h)
{
    int mag = h & 0x7fff;
    return h >> 15 ? -mag : mag;
}

static int is_finite(uint16_t h)
{
    return (h & 0x7f80) != 0x7f80;
}

static void compare(const struct op_record *a, const struct op_record *b, struct op_difference *d)
{
    double off = 0, all = 0;
    *d = (struct op_difference){.a = a, .b = b, .first = -1, .elements = (long)a->rows * a->cols};
    d->other_shape = a->rows != b->rows || a->cols != b->cols;
    if (d->other_shape)
        return;
    for (long i = 0; i < d->elements; i++) {
        uint16_t x = a->data[i], y = b->data[i];
        all += (double)wide(x) * (double)wide(x);
        if (x == y)
            continue;
        d->first = d->differ++ ? d->first : i;
        int ulp = is_finite(x) && is_finite(y) ? abs(place(x) - place(y)) : INT_MAX;
        d->max_ulp = ulp > d->max_ulp ? ulp : d->max_ulp;
        double delta = (double)wide(x) - (double)wide(y);
        off += delta * delta;
    }
    d->relative = off == 0 ? 0 : sqrt(off / all); /* zeros of both signs are 0 apart */
}

int op_log_compare(const struct op_log *a, const struct op_log *b, struct op_difference *diff, int max)
{
    int n = 0, hint = 0;
    for (int i = 0; i < b->n && n < max; i++) {
        const struct op_record *other = find(a, &b->record[i], &hint);
        if (other)
            compare(other, &b->record[i], &diff[n++]);
    }
    return n;
}
