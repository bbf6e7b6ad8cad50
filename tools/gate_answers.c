#include "tools/gate_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keep(void *arg, const struct answered *a, int n, struct err *e)
{
    (void)arg, (void)a, (void)n, (void)e;
    return OK;
}

static int make_jobs(const struct battery *b, const struct golden *golden, struct answers *a, struct err *e)
{
    memset(a, 0, sizeof *a);
    a->job = calloc((size_t)b->prompts + 1, sizeof *a->job);
    if (!a->job)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", b->prompts);
    a->jobs = b->prompts;
    for (int i = 0; i < b->prompts; i++) {
        a->job[i].fed = &b->prompt[i];
        a->job[i].golden = golden ? golden_find(golden, b->prompt[i].name) : NULL;
    }
    return OK;
}

int answers_ask(struct engine *g, const struct battery *b, const struct golden *golden, struct answers *a,
                struct err *e)
{
    int rc = make_jobs(b, golden, a, e);
    return rc ? rc : ask_all(g, b, golden->top_k > 0 ? golden->top_k : 20, a->job, a->jobs, keep, NULL, e);
}

int answers_ask_batch(struct engine *g, const struct battery *b, int top_k, int size, struct answers *a, struct err *e)
{
    int rc = make_jobs(b, NULL, a, e);
    for (int first = 0; first < b->prompts && !rc; first += size) {
        struct sequence seq[64];
        struct stream out[64];
        memset(out, 0, sizeof out);
        for (int i = 0; i < size; i++) {
            const struct battery_prompt *p = &b->prompt[(first + i) % b->prompts];
            seq[i] = (struct sequence){.name = p->name, .prompt = p->ids, .prompts = p->n};
        }
        struct engine_request q = {.mode = MODE_GENERATE,
                                   .seq = seq,
                                   .seqs = size,
                                   .max_new = b->max_new_tokens,
                                   .stop_at_eos = b->stop_at_eos,
                                   .top_k = g->has_logits ? top_k : 0,
                                   .row_hash = g->bf16_rows};
        rc = g->ops->answer(g, 0, &q, out, e);
        for (int i = 0; i < size; i++) {
            if (rc || first + i >= b->prompts) {
                stream_free(&out[i]);
                continue;
            }
            a->job[first + i].answer[PHASE_FREE] = out[i];
            a->job[first + i].have[PHASE_FREE] = 1;
        }
    }
    return rc;
}

static int same_rows(const struct view *a, const struct view *b)
{
    size_t cells = (size_t)a->rows * (size_t)a->top_k, rows = (size_t)a->rows;
    if (a->rows != b->rows || a->top_k != b->top_k || !a->row_sha256 != !b->row_sha256)
        return 0;
    return !rows || (!memcmp(a->top_ids, b->top_ids, cells * sizeof *a->top_ids) &&
                     !memcmp(a->top_values, b->top_values, cells * sizeof *a->top_values) &&
                     !memcmp(a->logsumexp, b->logsumexp, rows * sizeof *a->logsumexp) &&
                     (!a->row_sha256 || !memcmp(a->row_sha256, b->row_sha256, rows * 32)));
}

static int same_stream(const struct stream *a, const struct stream *b)
{
    return a->n == b->n && a->finish == b->finish &&
           (!a->n || !memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids)) && same_rows(&a->view, &b->view);
}

int answers_equal(const struct answers *a, const struct answers *b, char *where, size_t size)
{
    static const char *const phase_name[PHASES] = {"free run", "forced decode", "forced prefill"};
    for (int i = 0; i < a->jobs; i++)
        for (int p = 0; p < PHASES; p++) {
            const struct stream *x = &a->job[i].answer[p], *y = &b->job[i].answer[p];
            if (a->job[i].have[p] == b->job[i].have[p] && same_stream(x, y))
                continue;
            snprintf(where, size, "prompt %.60s, %s", a->job[i].fed->name, phase_name[p]);
            return 0;
        }
    return 1;
}

void answers_free(struct answers *a)
{
    for (int i = 0; i < a->jobs; i++)
        for (int p = 0; p < PHASES; p++)
            stream_free(&a->job[i].answer[p]);
    free(a->job);
    memset(a, 0, sizeof *a);
}
