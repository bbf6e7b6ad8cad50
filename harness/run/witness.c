#include "harness/run/witness.h"

#include "harness/rows.h"

#include <string.h>

/* Copies a view into one with longer lists; what is not known is padded. */
static int lengthen(struct view *v, int top_k, struct err *e)
{
    struct view wide;
    int rc = view_alloc(&wide, v->rows, top_k, v->row_sha256 != NULL, e);
    if (rc)
        return rc;
    wide.kind = v->kind;
    memset(wide.top_ids, 0xff, (size_t)v->rows * (size_t)top_k * sizeof *wide.top_ids);
    for (int row = 0; row < v->rows; row++) {
        size_t to = (size_t)row * (size_t)top_k, from = (size_t)row * (size_t)v->top_k;
        memcpy(wide.top_ids + to, v->top_ids + from, (size_t)v->top_k * sizeof *v->top_ids);
        memcpy(wide.top_values + to, v->top_values + from, (size_t)v->top_k * sizeof *v->top_values);
        wide.logsumexp[row] = v->logsumexp[row];
    }
    if (v->row_sha256)
        memcpy(wide.row_sha256, v->row_sha256, (size_t)v->rows * SHA256_BYTES);
    view_free(v);
    *v = wide;
    return OK;
}

static int stored(const struct view *v, int row)
{
    int n = 0;
    while (row < v->rows && n < v->top_k && v->top_ids[(size_t)row * (size_t)v->top_k + (size_t)n] >= 0)
        n++;
    return n;
}

int witness_widen(struct golden_prompt *p, int position, struct engine *witness, int *widened, struct err *e)
{
    struct sequence seq = {
        .name = p->name, .prompt = p->prompt_ids, .prompts = p->prompts, .forced = p->ids, .forceds = position + 1};
    struct engine_request req = {.mode = MODE_FORCE_DECODE, .seq = &seq, .seqs = 1, .top_k = WITNESS_TOP_K};
    struct stream answer = {0};
    struct view *v = &p->decode, *w = &answer.view;
    *widened = 0;
    int rc = witness->ops->answer(witness, 0, &req, &answer, e);
    int top_k = w->top_k;
    if (rc || top_k <= stored(v, position) || !row_equal(v, position, w, position))
        goto out;
    if (v->top_k < top_k && (rc = lengthen(v, top_k, e)))
        goto out;
    size_t to = (size_t)position * (size_t)v->top_k, from = (size_t)position * (size_t)top_k;
    memcpy(v->top_ids + to, w->top_ids + from, (size_t)top_k * sizeof *v->top_ids);
    memcpy(v->top_values + to, w->top_values + from, (size_t)top_k * sizeof *v->top_values);
    *widened = 1;
out:
    stream_free(&answer);
    return rc;
}
