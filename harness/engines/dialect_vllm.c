/* vLLM's OpenAI server, POST /v1/completions: ids in, ids and log-probabilities out, prompt log-probabilities for
 * forcing
 *
 * A prompt's log-probabilities are one whole prefill. Warm asks use vLLM's prefix cache, whose blocks hold 16 ids: what
 * is computed anew is between 1 and 16 rows, and without that cache the whole prompt.
 */
#include "harness/engines/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern DIALECT(vllm);

int token_id_of(const char *text)
{
    char *end;
    if (strncmp(text, "token_id:", 9))
        return -1;
    long id = strtol(text + 9, &end, 10);
    return text[9] && !*end && id >= 0 && id <= INT32_MAX ? (int)id : -1;
}

json_t *only_choice(const json_t *answer, struct err *e)
{
    const json_t *choices = json_object_get(answer, "choices");
    if (!json_is_object(answer) || json_array_size(choices) != 1) {
        FAIL(e, E_ENGINE, "its answer has %d choices where one was asked for", (int)json_array_size(choices));
        return NULL;
    }
    return json_array_get(choices, 0);
}

/* All sampling fields are sent: the server's own defaults come from the model's generation_config and are not greedy.
 */
static json_t *request(const struct server_ask *q)
{
    json_t *o =
        json_pack("{s:s,s:o,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:b,s:b,s:s}", "model", q->model, "prompt",
                  ids_json(q->ids, q->n), "max_tokens", q->kind == ASK_GENERATE ? q->max_new : 1, "temperature", 0,
                  "top_p", 1, "top_k", 0, "min_p", 0, "repetition_penalty", 1, "presence_penalty", 0,
                  "frequency_penalty", 0, "seed", 0, "n", 1, "ignore_eos", !q->stop_at_eos, "stream", 0,
                  "return_token_ids", 1, "return_tokens_as_token_ids", 1, "cache_salt", q->salt);
    if (q->kind == ASK_PROMPT)
        json_object_set_new(o, "prompt_logprobs", json_integer(q->top_k ? q->top_k : 1));
    else if (q->top_k)
        json_object_set_new(o, "logprobs", json_integer(q->top_k));
    return o;
}

static int list_of(const json_t *dict, struct listed *l, int max, int *n, struct err *e)
{
    const char *key;
    json_t *v;
    *n = 0;
    json_object_foreach((json_t *)dict, key, v)
    {
        int id = token_id_of(key);
        if (id < 0)
            return FAIL(e, E_ENGINE, "its top list is keyed by text; it does not know return_tokens_as_token_ids");
        if (*n == max || reply_value(v, &l[*n].value, e))
            return e->code ? e->code : FAIL(e, E_ENGINE, "a top list of its answer has more than %d values", max);
        l[(*n)++].id = id;
    }
    return OK;
}

static int read_top(const json_t *choice, const struct server_ask *q, struct stream *s, struct err *e)
{
    const json_t *top = json_object_get(json_object_get(choice, "logprobs"), "top_logprobs");
    struct listed *l = calloc((size_t)q->top_k + 2, sizeof *l);
    int n;
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    if ((int)json_array_size(top) != s->n)
        FAIL(e, E_ENGINE, "its answer has %d top lists for %d ids", (int)json_array_size(top), s->n);
    else if (!view_alloc(&s->view, s->n, q->top_k, 0, e))
        s->view.kind = q->values;
    for (int row = 0; row < s->n && !e->code; row++)
        if (!list_of(json_array_get(top, (size_t)row), l, q->top_k + 1, &n, e))
            reply_row(&s->view, row, l, n, q->vocab, dialect_vllm.clamp, e);
    free(l);
    return e->code;
}

int read_prompt_logprobs(const json_t *list, const struct server_ask *q, struct stream *s, float clamp, struct err *e)
{
    int rows = q->n - q->from, top_k = q->top_k ? q->top_k : 1;
    struct listed *l = calloc((size_t)top_k + 2, sizeof *l);
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    if ((int)json_array_size(list) != q->n)
        FAIL(e, E_ENGINE, "its answer has prompt log-probabilities for %d ids, %d were sent",
             (int)json_array_size(list), q->n);
    else if (!view_alloc(&s->view, rows, top_k, 0, e))
        s->view.kind = q->values;
    for (int row = 0; row < rows && !e->code; row++) {
        const json_t *dict = json_array_get(list, (size_t)(q->from + row));
        const char *key;
        json_t *v;
        int n = 0, seen = 0;
        json_object_foreach((json_t *)dict, key, v)
        {
            char *end;
            long id = strtol(key, &end, 10);
            if (*end || end == key || id < 0 || id >= q->vocab || n > top_k)
                FAIL(e, E_ENGINE, "prompt log-probability %d of its answer: \"%.40s\" is no id", q->from + row, key);
            else if (!reply_value(json_object_get(v, "logprob"), &l[n].value, e))
                l[n++].id = (int32_t)id;
            seen |= id == q->ids[q->from + row];
        }
        if (!e->code && !seen)
            FAIL(e, E_ENGINE, "prompt log-probability %d of its answer lacks the id that was fed, %d", q->from + row,
                 q->ids[q->from + row]);
        if (!e->code)
            reply_row(&s->view, row, l, n, q->vocab, clamp, e);
    }
    free(l);
    return e->code;
}

static int read(const json_t *answer, const struct server_ask *q, struct stream *s, int32_t **fed, int *feds,
                struct err *e)
{
    const json_t *choice = only_choice(answer, e), *told;
    if (!choice)
        return e->code;
    told = json_object_get(choice, "prompt_token_ids");
    if (json_is_array(told) && reply_ids(told, "prompt_token_ids", q->vocab, fed, feds, e))
        return e->code;
    if (q->kind == ASK_PROMPT)
        return read_prompt_logprobs(json_object_get(choice, "prompt_logprobs"), q, s, dialect_vllm.clamp, e);
    if (reply_ids(json_object_get(choice, "token_ids"), "token_ids", q->vocab, &s->ids, &s->n, e) ||
        read_finish(member_text(choice, "finish_reason"), "stop", "length", s, e))
        return e->code;
    return q->top_k ? read_top(choice, q, s, e) : OK;
}

static int facts(const char *path, const json_t *a, struct server_facts *f, struct err *e)
{
    const json_t *data = json_object_get(a, "data");
    if (!strcmp(path, "/version")) {
        snprintf(f->version, sizeof f->version, "%.63s", member_text(a, "version"));
        return *f->version ? OK : FAIL(e, E_ENGINE, "/version: it does not say its version");
    }
    if (!json_array_size(data))
        return FAIL(e, E_ENGINE, "/v1/models: it serves no model");
    f->models = json_array();
    for (size_t i = 0; i < json_array_size(data); i++)
        json_array_append_new(f->models, json_string(member_text(json_array_get(data, i), "id")));
    if (json_array_size(data) == 1)
        snprintf(f->model, sizeof f->model, "%.255s", member_text(json_array_get(data, 0), "id"));
    json_object_set(f->build, "max_model_len", json_object_get(json_array_get(data, 0), "max_model_len"));
    json_object_set(f->build, "root", json_object_get(json_array_get(data, 0), "root"));
    return OK;
}

DIALECT(vllm) = {
    .name = "vllm",
    .summary = "vLLM's OpenAI server, /v1/completions",
    .evidence = "recorded",
    .path = "/v1/completions",
    .prompt_rows = 1,
    .top_k_max = 20,
    .clamp = -9999.0f,
    .probe = {"/version", "/v1/models", NULL},
    .facts = facts,
    .request = request,
    .read = read,
};
