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

struct recorder {
    struct op_log *log;
    int step, failed;
};

static void record(void *arg, int layer, const char *op, const uint16_t *data, int rows, int cols)
{
    struct recorder *r = arg;
    struct op_log *l = r->log;
    if (!strcmp(op, "embed"))
        r->step++;
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        struct op_record *p = realloc(l->record, (size_t)room * sizeof *p);
        if (!p) {
            r->failed = 1;
            return;
        }
        l->record = p;
        l->room = room;
    }
    size_t bytes = (size_t)rows * (size_t)cols * sizeof *data;
    struct op_record *x = &l->record[l->n];
    *x = (struct op_record){
        .step = r->step, .layer = layer, .rows = rows, .cols = cols, .data = malloc(bytes ? bytes : 1)};
    if (!x->data) {
        r->failed = 1;
        return;
    }
    snprintf(x->op, sizeof x->op, "%s", op);
    memcpy(x->data, data, bytes);
    l->n++;
}

int op_log_engine(struct engine *g, const int32_t *prompt, int prompts, const int32_t *forced, int forceds,
                  struct op_log *out, struct err *e)
{
    struct recorder r = {out, -1, 0};
    struct stream answer = {0};
    int32_t none = 0; /* one forced id more than is looked at: its row ends the last step */
    int32_t *ids = calloc((size_t)forceds + 1, sizeof *ids);
    if (!ids)
        return FAIL(e, E_NOMEM, "out of memory");
    memcpy(ids, forced ? forced : &none, (size_t)forceds * sizeof *ids);
    struct sequence s = {"bisect", prompt, ids, prompts, forceds + 1};
    struct engine_request q = {.mode = MODE_FORCE_DECODE, .seq = &s, .seqs = 1};
    int rc = OK;
    if (!g->ops->tap)
        rc = FAIL(e, E_UNSUPPORTED, "engine %s cannot be looked into: it has no taps", g->ops->name);
    else if (!(rc = g->ops->tap(g, record, &r, e)))
        rc = g->ops->answer(g, 0, &q, &answer, e);
    if (!rc && r.failed)
        rc = FAIL(e, E_NOMEM, "out of memory for the outputs of %d ops", out->n);
    if (g->ops->tap) {
        struct err ignored = {0};
        g->ops->tap(g, NULL, NULL, &ignored);
    }
    stream_free(&answer);
    free(ids);
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
    *d = (struct op_difference){.a = a, .b = b, .elements = (long)a->rows * a->cols};
    for (long i = 0; i < d->elements; i++) {
        uint16_t x = a->data[i], y = b->data[i];
        if (x == y) {
            all += (double)wide(x) * (double)wide(x);
            continue;
        }
        d->differ++;
        int ulp = is_finite(x) && is_finite(y) ? abs(place(x) - place(y)) : INT_MAX;
        d->max_ulp = ulp > d->max_ulp ? ulp : d->max_ulp;
        double delta = (double)wide(x) - (double)wide(y);
        off += delta * delta;
        all += (double)wide(x) * (double)wide(x);
    }
    d->relative = d->differ ? sqrt(off / all) : 0;
}

static const struct op_record *find(const struct op_log *l, const struct op_record *x)
{
    for (int i = 0; i < l->n; i++) {
        const struct op_record *y = &l->record[i];
        if (y->step == x->step && y->layer == x->layer && !strcmp(y->op, x->op) && y->rows == x->rows &&
            y->cols == x->cols)
            return y;
    }
    return NULL;
}

int op_log_compare(const struct op_log *a, const struct op_log *b, struct op_difference *diff, int max)
{
    int n = 0;
    for (int i = 0; i < a->n && n < max; i++) {
        const struct op_record *other = find(b, &a->record[i]);
        if (other)
            compare(&a->record[i], other, &diff[n++]);
    }
    return n;
}
