/* vLLM's token endpoint, POST /inference/v1/generate: the same engine behind a door that knows ids alone */
#include "harness/engines/dialect.h"

#include <stdlib.h>
#include <string.h>

extern DIALECT(vllm);
extern DIALECT(vllm_generate);

static json_t *request(const struct server_ask *q)
{
    json_t *p = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "temperature", 0, "top_p", 1, "top_k", 0, "min_p", 0,
                          "repetition_penalty", 1, "seed", 0, "max_tokens", q->kind == ASK_GENERATE ? q->max_new : 1,
                          "ignore_eos", !q->stop_at_eos);
    if (q->kind == ASK_PROMPT)
        json_object_set_new(p, "prompt_logprobs", json_integer(q->top_k ? q->top_k : 1));
    else if (q->top_k)
        json_object_set_new(p, "logprobs", json_integer(q->top_k));
    return json_pack("{s:s,s:o,s:o,s:b,s:s}", "model", q->model, "token_ids", ids_json(q->ids, q->n), "sampling_params",
                     p, "stream", 0, "cache_salt", q->salt);
}

static int read_top(const json_t *choice, const struct server_ask *q, struct stream *s, struct err *e)
{
    const json_t *content = json_object_get(json_object_get(choice, "logprobs"), "content");
    struct listed *l = calloc((size_t)q->top_k + 2, sizeof *l);
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    if ((int)json_array_size(content) != s->n)
        FAIL(e, E_ENGINE, "its answer has %d top lists for %d ids", (int)json_array_size(content), s->n);
    else if (!view_alloc(&s->view, s->n, q->top_k, 0, e))
        s->view.kind = q->values;
    for (int row = 0; row < s->n && !e->code; row++) {
        const json_t *top = json_object_get(json_array_get(content, (size_t)row), "top_logprobs");
        int n = (int)json_array_size(top);
        if (n > q->top_k + 1)
            FAIL(e, E_ENGINE, "a top list of its answer has %d values, %d were asked for", n, q->top_k);
        for (int i = 0; i < n && !e->code; i++) {
            const json_t *entry = json_array_get(top, (size_t)i);
            l[i].id = token_id_of(member_text(entry, "token"));
            if (l[i].id < 0)
                FAIL(e, E_ENGINE, "its top list is keyed by text, not by ids");
            else
                reply_value(json_object_get(entry, "logprob"), &l[i].value, e);
        }
        if (!e->code)
            reply_row(&s->view, row, l, n, q->vocab, dialect_vllm_generate.clamp, e);
    }
    free(l);
    return e->code;
}

static int read(const json_t *answer, const struct server_ask *q, struct stream *s, int32_t **fed, int *feds,
                struct err *e)
{
    const json_t *choice = only_choice(answer, e);
    (void)fed, (void)feds;
    if (!choice)
        return e->code;
    if (q->kind == ASK_PROMPT) /* beside the choices, not in them */
        return read_prompt_logprobs(json_object_get(answer, "prompt_logprobs"), q, s, dialect_vllm_generate.clamp, e);
    if (reply_ids(json_object_get(choice, "token_ids"), "token_ids", q->vocab, &s->ids, &s->n, e) ||
        read_finish(member_text(choice, "finish_reason"), "stop", "length", s, e))
        return e->code;
    return q->top_k ? read_top(choice, q, s, e) : OK;
}

static int facts(const char *path, const json_t *a, struct server_facts *f, struct err *e)
{
    return dialect_vllm.facts(path, a, f, e);
}

DIALECT(vllm_generate) = {
    .name = "vllm-generate",
    .summary = "vLLM's token endpoint, /inference/v1/generate",
    .evidence = "recorded",
    .path = "/inference/v1/generate",
    .prompt_rows = 1,
    .top_k_max = 20,
    .clamp = -9999.0f,
    .probe = {"/version", "/v1/models", NULL},
    .facts = facts,
    .request = request,
    .read = read,
};
