/* llama.cpp's server, POST /completion: it tells no prompt log-probabilities, so forcing is one id at a time
 *
 * cache_prompt extends the cache of a slot by one id (decode-shaped) or is off (prefill-shaped); its timings say how
 * many ids came from the cache, which proves the shape.
 */
#include "harness/engines/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern DIALECT(llama_cpp);

/* Its defaults are not greedy (0.8, 40, 0.95, 0.05). */
static json_t *request(const struct server_ask *q)
{
    return json_pack("{s:o,s:i,s:i,s:i,s:[s],s:i,s:i,s:i,s:b,s:b,s:i,s:b,s:b}", "prompt", ids_json(q->ids, q->n),
                     "n_predict", q->kind == ASK_GENERATE ? q->max_new : 1, "temperature", 0, "top_k", 1, "samplers",
                     "top_k", "repeat_penalty", 1, "seed", 0, "n_probs", q->top_k, "return_tokens", 1, "cache_prompt",
                     q->warm, "id_slot", q->slot, "ignore_eos", !q->stop_at_eos, "stream", 0);
}

static int read_top(const json_t *all, const struct server_ask *q, struct stream *s, struct err *e)
{
    struct listed *l = calloc((size_t)q->top_k + 2, sizeof *l);
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    if ((int)json_array_size(all) != s->n)
        FAIL(e, E_ENGINE, "its answer has %d top lists for %d ids", (int)json_array_size(all), s->n);
    else if (!view_alloc(&s->view, s->n, q->top_k, 0, e))
        s->view.kind = q->values;
    for (int row = 0; row < s->n && !e->code; row++) {
        const json_t *at = json_array_get(all, (size_t)row), *top = json_object_get(at, "top_logprobs");
        int n = (int)json_array_size(top);
        if (json_object_get(at, "top_probs"))
            FAIL(e, E_ENGINE, "it tells probabilities after sampling, which say nothing");
        else if (json_integer_value(json_object_get(at, "id")) != s->ids[row])
            FAIL(e, E_ENGINE, "its list %d is about id %lld, it emitted %d", row,
                 (long long)json_integer_value(json_object_get(at, "id")), s->ids[row]);
        else if (n > q->top_k + 1)
            FAIL(e, E_ENGINE, "a top list of its answer has %d values, %d were asked for", n, q->top_k);
        for (int i = 0; i < n && !e->code; i++) {
            const json_t *entry = json_array_get(top, (size_t)i), *id = json_object_get(entry, "id");
            if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= q->vocab)
                FAIL(e, E_ENGINE, "a top list of its answer names no id of the vocabulary of %d", q->vocab);
            else if (!reply_value(json_object_get(entry, "logprob"), &l[i].value, e))
                l[i].id = (int32_t)json_integer_value(id);
        }
        if (!e->code)
            reply_row(&s->view, row, l, n, q->vocab, dialect_llama_cpp.clamp, e);
    }
    free(l);
    return e->code;
}

/* What it evaluated, and what it had in its cache. */
static int check_shape(const json_t *a, const struct server_ask *q, struct err *e)
{
    const json_t *count = json_object_get(a, "tokens_evaluated"),
                 *cached = json_object_get(json_object_get(a, "timings"), "cache_n");
    if (json_is_true(json_object_get(a, "truncated")))
        return FAIL(e, E_ENGINE, "it cut the prompt short");
    if (!json_is_integer(count) || json_integer_value(count) != q->n)
        return FAIL(e, E_ENGINE, "it counted %lld prompt ids, %d were sent", (long long)json_integer_value(count),
                    q->n);
    if (q->cached < 0)
        return OK;
    if (!json_is_integer(cached))
        return FAIL(e, E_ENGINE,
                    "it does not say how many ids came from its cache (timings.cache_n): the shape of this "
                    "answer cannot be proven");
    if (json_integer_value(cached) != q->cached)
        return FAIL(e, E_ENGINE, "it took %lld ids from its cache where %d were meant to come from there",
                    (long long)json_integer_value(cached), q->cached);
    return OK;
}

static int read(const json_t *answer, const struct server_ask *q, struct stream *s, int32_t **fed, int *feds,
                struct err *e)
{
    const char *stop = member_text(answer, "stop_type");
    (void)fed, (void)feds;
    if (!json_is_object(answer))
        return FAIL(e, E_ENGINE, "it answered %d prompts where one was asked", (int)json_array_size(answer));
    if (check_shape(answer, q, e) ||
        reply_ids(json_object_get(answer, "tokens"), "tokens", q->vocab, &s->ids, &s->n, e))
        return e->code;
    if (q->kind == ASK_NEXT) /* an end of sequence after one id is no news */
        s->finish = FINISH_LENGTH;
    else if (read_finish(stop, "eos", "limit", s, e))
        return e->code;
    return q->top_k ? read_top(json_object_get(answer, "completion_probabilities"), q, s, e) : OK;
}

static int facts(const char *path, const json_t *a, struct server_facts *f, struct err *e)
{
    const json_t *data = json_object_get(a, "data"), *meta = json_object_get(json_array_get(data, 0), "meta");
    if (!strcmp(path, "/props")) {
        snprintf(f->version, sizeof f->version, "%.63s", member_text(a, "build_info"));
        f->slots = (int)json_integer_value(json_object_get(a, "total_slots"));
        json_object_set(f->build, "model_ftype", json_object_get(a, "model_ftype"));
        return *f->version ? OK : FAIL(e, E_ENGINE, "/props: it does not say its build");
    }
    if (json_array_size(data) == 1)
        snprintf(f->model, sizeof f->model, "%.255s", member_text(json_array_get(data, 0), "id"));
    f->vocab = (int)json_integer_value(json_object_get(meta, "n_vocab"));
    json_object_set(f->build, "n_ctx", json_object_get(meta, "n_ctx"));
    json_object_set(f->build, "n_params", json_object_get(meta, "n_params"));
    return OK;
}

DIALECT(llama_cpp) = {
    .name = "llama.cpp",
    .summary = "llama.cpp's server, /completion, one id at a time for forcing",
    .evidence = "recorded",
    .path = "/completion",
    .clamp = -3.4e38f,
    .probe = {"/props", "/v1/models", NULL},
    .facts = facts,
    .request = request,
    .read = read,
};
