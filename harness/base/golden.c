#include "harness/base/golden.h"

#include <stdlib.h>
#include <string.h>

int view_alloc(struct view *v, int rows, int top_k, int with_hash, struct err *e)
{
    memset(v, 0, sizeof *v);
    size_t cells = (size_t)rows * (size_t)top_k;
    v->top_ids = calloc(cells ? cells : 1, sizeof *v->top_ids);
    v->top_values = calloc(cells ? cells : 1, sizeof *v->top_values);
    v->logsumexp = calloc(rows ? (size_t)rows : 1, sizeof *v->logsumexp);
    if (with_hash)
        v->row_sha256 = calloc(rows ? (size_t)rows : 1, SHA256_BYTES);
    if (!v->top_ids || !v->top_values || !v->logsumexp || (with_hash && !v->row_sha256)) {
        view_free(v);
        return FAIL(e, E_NOMEM, "out of memory for %d rows of %d values", rows, top_k);
    }
    v->rows = rows;
    v->top_k = top_k;
    return OK;
}

void view_free(struct view *v)
{
    free(v->top_ids);
    free(v->top_values);
    free(v->logsumexp);
    free(v->row_sha256);
    memset(v, 0, sizeof *v);
}

void stream_free(struct stream *s)
{
    free(s->ids);
    free(s->counter);
    view_free(&s->view);
    memset(s, 0, sizeof *s);
}

static void prompt_free(struct golden_prompt *p)
{
    free(p->name);
    free(p->prompt_ids);
    free(p->ids);
    view_free(&p->decode);
    view_free(&p->prefill);
    for (int i = 0; i < p->batches; i++)
        free(p->batch[i].ids);
    free(p->batch);
    json_decref(p->repeats_json);
}

void golden_free(struct golden *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->prompts; i++)
        prompt_free(&g->prompt[i]);
    free(g->prompt);
    names_free(&g->by_name);
    json_decref(g->header);
    free(g);
}

const struct golden_prompt *golden_find(const struct golden *g, const char *name)
{
    int at = g->by_name.n ? names_get(&g->by_name, name) : 0;
    while (!g->by_name.n && at < g->prompts && strcmp(g->prompt[at].name, name))
        at++;
    return at >= 0 && at < g->prompts ? &g->prompt[at] : NULL;
}

void battery_free(struct battery *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->prompts; i++) {
        free(b->prompt[i].name);
        free(b->prompt[i].text);
        free(b->prompt[i].ids);
    }
    free(b->prompt);
    free(b);
}
