/* SGLang, POST /generate: ids in, [log-probability, id, text] entries out; its cache knows single ids */
#include "harness/engines/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern DIALECT(sglang);

static json_t *request(const struct server_ask *q)
{
    json_t *p = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "temperature", 0, "top_p", 1, "top_k", 1, "min_p", 0,
                          "repetition_penalty", 1, "max_new_tokens", q->kind == ASK_GENERATE ? q->max_new : 1,
                          "ignore_eos", !q->stop_at_eos);
    return json_pack("{s:o,s:o,s:b,s:i,s:i,s:b,s:b}", "input_ids", ids_json(q->ids, q->n), "sampling_params", p,
                     "return_logprob", q->top_k || q->kind == ASK_PROMPT, "logprob_start_len",
                     q->kind == ASK_PROMPT ? 0 : -1, "top_logprobs_num",
                     q->top_k                ? q->top_k
                     : q->kind == ASK_PROMPT ? 1
                                             : 0,
                     "return_text_in_logprobs", 0, "stream", 0);
}

/* [log-probability, id, text|null] */
static int entry_of(const json_t *a, struct listed *l, struct err *e)
{
    const json_t *id = json_array_get(a, 1);
    if (json_array_size(a) < 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > INT32_MAX)
        return FAIL(e, E_ENGINE, "an entry of its top lists is no [log-probability, id, text]");
    l->id = (int32_t)json_integer_value(id);
    return reply_value(json_array_get(a, 0), &l->value, e);
}

/* Lists from..from+rows-1 of `top`. */
static int read_lists(const json_t *top, int from, int rows, const struct server_ask *q, struct stream *s,
                      struct err *e)
{
    int top_k = q->top_k ? q->top_k : 1;
    struct listed *l = calloc((size_t)top_k + 2, sizeof *l);
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    if ((int)json_array_size(top) != from + rows)
        FAIL(e, E_ENGINE, "its answer has %d top lists where %d were expected", (int)json_array_size(top), from + rows);
    else if (!view_alloc(&s->view, rows, top_k, 0, e))
        s->view.kind = q->values;
    for (int row = 0; row < rows && !e->code; row++) {
        const json_t *list = json_array_get(top, (size_t)(from + row));
        int n = (int)json_array_size(list);
        if (n > top_k + 1)
            FAIL(e, E_ENGINE, "a top list of its answer has %d values, %d were asked for", n, top_k);
        for (int i = 0; i < n && !e->code; i++)
            entry_of(json_array_get(list, (size_t)i), &l[i], e);
        if (!e->code)
            reply_row(&s->view, row, l, n, q->vocab, dialect_sglang.clamp, e);
    }
    free(l);
    return e->code;
}

/* The ids that it says it was fed: those of its input log-probabilities. */
static int read_fed(const json_t *list, const struct server_ask *q, int32_t **fed, int *feds, struct err *e)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append(ids, json_array_get(json_array_get(list, i), 1));
    int rc = reply_ids(ids, "input_token_logprobs", q->vocab, fed, feds, e);
    json_decref(ids);
    return rc;
}

static int read(const json_t *answer, const struct server_ask *q, struct stream *s, int32_t **fed, int *feds,
                struct err *e)
{
    const json_t *meta = json_object_get(answer, "meta_info"), *count = json_object_get(meta, "prompt_tokens"),
                 *cached = json_object_get(meta, "cached_tokens");
    if (!json_is_object(meta))
        return FAIL(e, E_ENGINE, "its answer has no meta_info");
    if (json_is_integer(count) && json_integer_value(count) != q->n)
        return FAIL(e, E_ENGINE, "it counted %lld prompt ids, %d were sent", (long long)json_integer_value(count),
                    q->n);
    if (q->cached >= 0 && json_is_integer(cached) && json_integer_value(cached) != q->cached)
        return FAIL(e, E_ENGINE, "it took %lld ids from its cache where %d were meant to come from there",
                    (long long)json_integer_value(cached), q->cached);
    if (q->kind == ASK_PROMPT)
        return read_fed(json_object_get(meta, "input_token_logprobs"), q, fed, feds, e)
                   ? e->code
                   : read_lists(json_object_get(meta, "input_top_logprobs"), q->from, q->n - q->from, q, s, e);
    if (reply_ids(json_object_get(answer, "output_ids"), "output_ids", q->vocab, &s->ids, &s->n, e) ||
        read_finish(member_text(json_object_get(meta, "finish_reason"), "type"), "stop", "length", s, e))
        return e->code;
    return q->top_k ? read_lists(json_object_get(meta, "output_top_logprobs"), 0, s->n, q, s, e) : OK;
}

static int facts(const char *path, const json_t *a, struct server_facts *f, struct err *e)
{
    static const char *const kept[] = {
        "attention_backend",  "enable_deterministic_inference", "kv_cache_dtype", "dtype", "quantization", "tp_size",
        "disable_radix_cache"};
    (void)e;
    if (!strcmp(path, "/get_model_info")) {
        snprintf(f->model, sizeof f->model, "%.255s", member_text(a, "model_path"));
        return OK;
    }
    snprintf(f->version, sizeof f->version, "%.63s", member_text(a, "version"));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(a, kept[i]))
            json_object_set(f->build, kept[i], json_object_get(a, kept[i]));
    return OK;
}

DIALECT(sglang) = {
    .name = "sglang",
    .summary = "SGLang's server, /generate",
    .evidence = "documented",
    .path = "/generate",
    .reset = "/flush_cache",
    .prompt_rows = 1,
    .clamp = -9999.0f,
    .probe = {"/get_model_info", "/get_server_info", NULL},
    .facts = facts,
    .request = request,
    .read = read,
};
