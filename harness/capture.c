#include "harness/capture.h"

#include "harness/native/answer.h"

#include <stdlib.h>
#include <string.h>

/* Collects rows as they come: top lists, the argmax, and a hash that a repeat is compared with. */
struct collector {
    struct engine_request request; /* top_k, row_hash */
    struct view *view;
    int first, best;                  /* row of the view that row 0 of a feed is; argmax of the last row */
    const struct capture_spec *whole; /* NULL: nobody wants whole rows */
};

static void collect(void *arg, int row, const uint16_t *logits, int vocab)
{
    struct collector *c = arg;
    keep_row(&c->request, c->view, c->first + row, logits, vocab);
    c->best = row_argmax(logits, vocab);
    if (c->whole && c->whole->row)
        c->whole->row(c->whole->row_arg, logits, vocab);
}

static int is_eos(const struct model_config *c, int id)
{
    for (int i = 0; i < c->eos_count; i++)
        if (c->eos[i] == id)
            return 1;
    return 0;
}

static const struct stream *forced_of(const struct capture_spec *c, const struct battery_prompt *p)
{
    return c->forced ? &c->forced[p - c->battery->prompt] : NULL;
}

/* Token by token on a warm cache: greedily, or along the ids that are forced. */
static int decode(const struct capture_spec *c, struct oracle *o, const struct battery_prompt *p, int32_t *ids, int *n,
                  enum finish *finish, struct view *v, const struct capture_spec *whole, struct err *e)
{
    struct collector k = {{.top_k = c->top_k, .row_hash = 1}, v, 0, 0, whole};
    const struct stream *forced = forced_of(c, p);
    const int32_t *next = p->ids;
    int feed = p->n, most = forced ? forced->n : c->battery->max_new_tokens;
    *finish = forced ? forced->finish : FINISH_LENGTH;
    c->oracle->reset(o);
    for (*n = 0; *n < most; feed = 1) {
        k.first = *n - (feed - 1);
        if (c->oracle->feed(o, next, feed, feed - 1, collect, &k, e))
            return e->code;
        ids[*n] = forced ? forced->ids[*n] : k.best;
        next = &ids[(*n)++];
        if (!forced && c->battery->stop_at_eos && is_eos(&c->model->config, k.best)) {
            *finish = FINISH_STOP;
            break;
        }
    }
    v->rows = *n;
    return OK;
}

/* One pass over prompt and ids. */
static int prefill(const struct capture_spec *c, struct oracle *o, const struct battery_prompt *p,
                   struct golden_prompt *g, struct err *e)
{
    struct collector k = {{.top_k = c->top_k, .row_hash = 1}, &g->prefill, 1 - p->n, 0, NULL};
    int32_t *all = malloc((size_t)(p->n + g->n) * sizeof *all);
    if (!all)
        return FAIL(e, E_NOMEM, "out of memory");
    memcpy(all, p->ids, (size_t)p->n * sizeof *all);
    memcpy(all + p->n, g->ids, (size_t)g->n * sizeof *all);
    c->oracle->reset(o);
    int rc = c->oracle->feed(o, all, p->n + g->n - 1, p->n - 1, collect, &k, e);
    free(all);
    return rc;
}

static int repeat(const struct capture_spec *c, struct oracle *o, const struct battery_prompt *p,
                  struct golden_prompt *g, struct err *e)
{
    struct view v;
    enum finish finish;
    int n = 0;
    int32_t *ids = calloc((size_t)g->n + (size_t)c->battery->max_new_tokens, sizeof *ids);
    if (!ids || view_alloc(&v, g->n > c->battery->max_new_tokens ? g->n : c->battery->max_new_tokens, c->top_k, 1, e)) {
        free(ids);
        return FAIL(e, E_NOMEM, "out of memory");
    }
    int rc = decode(c, o, p, ids, &n, &finish, &v, NULL, e);
    if (!rc) {
        int same = n == g->n && !memcmp(ids, g->ids, (size_t)n * sizeof *ids);
        int bits = same && !memcmp(v.row_sha256, g->decode.row_sha256, (size_t)n * SHA256_BYTES);
        g->repeats++;
        g->repeats_equal += same && bits;
        json_array_append_new(g->repeats_json,
                              json_pack("{s:s,s:b,s:b}", "regime", "alone", "ids_equal", same, "logits_equal", bits));
    }
    view_free(&v);
    free(ids);
    return rc;
}

static int capture_prompt(const struct capture_spec *c, struct oracle *o, const struct battery_prompt *p,
                          struct golden_prompt *g, struct err *e)
{
    int most = forced_of(c, p) ? forced_of(c, p)->n : c->battery->max_new_tokens;
    g->name = strdup(p->name);
    g->prompt_ids = malloc((size_t)(p->n ? p->n : 1) * sizeof *g->prompt_ids);
    g->ids = calloc((size_t)most, sizeof *g->ids);
    g->repeats_json = json_array();
    if (!g->name || !g->prompt_ids || !g->ids || !g->repeats_json)
        return FAIL(e, E_NOMEM, "out of memory");
    memcpy(g->prompt_ids, p->ids, (size_t)p->n * sizeof *g->prompt_ids);
    g->prompts = p->n;
    if (view_alloc(&g->decode, most, c->top_k, 1, e) || decode(c, o, p, g->ids, &g->n, &g->finish, &g->decode, c, e) ||
        view_alloc(&g->prefill, g->n, c->top_k, 1, e) || prefill(c, o, p, g, e))
        return e->code;
    for (int i = 0; i < g->n; i++)
        g->rows_equal +=
            !memcmp(g->decode.row_sha256 + i * SHA256_BYTES, g->prefill.row_sha256 + i * SHA256_BYTES, SHA256_BYTES);
    for (int i = 1; i < c->repeats; i++)
        if (repeat(c, o, p, g, e))
            return e->code;
    free(g->prefill.row_sha256); /* the exchange format knows hashes of decode-shaped rows only */
    g->prefill.row_sha256 = NULL;
    return OK;
}

static int check_ids(const struct capture_spec *c, struct err *e)
{
    const struct model_config *m = &c->model->config;
    for (int i = 0; i < c->battery->prompts; i++) {
        const struct battery_prompt *p = &c->battery->prompt[i];
        if (!p->n || p->n + c->battery->max_new_tokens > m->max_positions + 1)
            return FAIL(e, E_INPUT, "battery %s: prompt %s has %d ids; with %d new ones it must fit %d positions",
                        c->battery->name, p->name, p->n, c->battery->max_new_tokens, m->max_positions);
        for (int j = 0; j < p->n; j++)
            if (p->ids[j] < 0 || p->ids[j] >= m->vocab)
                return FAIL(e, E_INPUT, "battery %s: prompt %s: id %d at %d is outside the vocabulary of %d",
                            c->battery->name, p->name, p->ids[j], j, m->vocab);
    }
    return OK;
}

static json_t *header(const struct capture_spec *c, const struct oracle *o)
{
    json_t *files = json_object();
    for (int i = 0; i < c->model->files; i++)
        json_object_set_new(files, c->model->file[i].name, json_string(c->model->file[i].sha256));
    return json_pack("{s:s,s:s,s:o,s:s,s:s,s:s,s:o,s:s,s:i}", "schema", "assay-golden/1", "model", c->model->name,
                     "model_files", files, "battery", c->battery->name, "battery_sha256", c->battery->sha256, "arm",
                     c->arm, "oracle", c->oracle->provenance(o), "date", c->date, "top_k", c->top_k);
}

int capture_golden(const struct capture_spec *c, struct golden **out, struct err *e)
{
    struct oracle *o = NULL;
    struct golden *g = calloc(1, sizeof *g);
    if (!g || !(g->prompt = calloc((size_t)c->battery->prompts, sizeof *g->prompt))) {
        FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    if (check_ids(c, e) || c->oracle->open(c->model, &o, e))
        goto out;
    memcpy(g->model, c->model->name, sizeof g->model);
    memcpy(g->battery, c->battery->name, sizeof g->battery);
    strncpy(g->arm, c->arm, sizeof g->arm - 1);
    g->top_k = c->top_k;
    if (!(g->header = header(c, o)))
        FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < c->battery->prompts && !e->code; i++) {
        if (c->progress)
            c->progress(c->progress_arg, c->battery->prompt[i].name, i, c->battery->prompts);
        g->prompts = i + 1;
        capture_prompt(c, o, &c->battery->prompt[i], &g->prompt[i], e);
    }
    if (!e->code && c->progress)
        c->progress(c->progress_arg, "", c->battery->prompts, c->battery->prompts);
out:
    c->oracle->close(o);
    if (e->code)
        golden_free(g);
    else
        *out = g;
    return e->code;
}
