#include "harness/engines/reply.h"

#include "harness/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXCERPT 160

void reply_excerpt(const char *text, size_t bytes, char *out, size_t size)
{
    size_t at = 0, from = 0;
    while (from < bytes) {
        char unit[UTF8_UNIT_SIZE];
        size_t took = utf8_visible(text + from, bytes - from, 0, unit);
        if (at + strlen(unit) + 4 >= size)
            break;
        at += (size_t)snprintf(out + at, size - at, "%s", unit);
        from += took;
    }
    snprintf(out + at, size - at, "%s", from < bytes ? "..." : "");
}

/* JSON has no NaN; some programs write it all the same, and the message should say so. */
static int bare_number(const char *text, size_t bytes)
{
    int quoted = 0;
    for (size_t i = 0; i + 3 <= bytes; i++) {
        if (text[i] == '"' && (!i || text[i - 1] != '\\'))
            quoted = !quoted;
        if (!quoted && (!strncmp(text + i, "NaN", 3) || !strncmp(text + i, "Inf", 3) || !strncmp(text + i, "nan", 3)))
            return 1;
    }
    return 0;
}

json_t *reply_parse(const char *text, size_t bytes, struct err *e)
{
    json_error_t je;
    char excerpt[EXCERPT];
    json_t *o = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je);
    if (json_is_object(o) || (json_is_array(o) && json_array_size(o)))
        return o;
    reply_excerpt(text, bytes, excerpt, sizeof excerpt);
    if (o)
        FAIL(e, E_ENGINE, "its answer is no JSON object: %s", excerpt);
    else if (bare_number(text, bytes))
        FAIL(e, E_ENGINE, "its answer holds NaN or Infinity, which JSON has not (column %d): %s", je.column, excerpt);
    else
        FAIL(e, E_ENGINE, "its answer is not JSON (column %d, %.80s): %s", je.column, je.text,
             bytes ? excerpt : "it is empty");
    json_decref(o);
    return NULL;
}

int reply_ids(const json_t *a, const char *what, int vocab, int32_t **ids, int *n, struct err *e)
{
    if (!json_is_array(a))
        return FAIL(e, E_ENGINE, "its answer has no array %s", what);
    *n = (int)json_array_size(a);
    if (!(*ids = malloc(((size_t)*n + 1) * sizeof **ids)))
        return FAIL(e, E_NOMEM, "out of memory for %d ids", *n);
    for (int i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, (size_t)i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (!json_is_integer(v) || id < 0 || id >= vocab)
            return FAIL(e, E_ENGINE, "%s[%d] of its answer is %lld: no id of the vocabulary of %d", what, i,
                        (long long)id, vocab);
        (*ids)[i] = (int32_t)id;
    }
    return OK;
}

int reply_value(const json_t *v, float *out, struct err *e)
{
    const char *s = json_string_value(v);
    if (json_is_number(v))
        *out = (float)json_number_value(v);
    else if (s && !strcmp(s, "nan"))
        *out = NAN;
    else if (s && (!strcmp(s, "inf") || !strcmp(s, "-inf")))
        *out = *s == '-' ? -INFINITY : INFINITY;
    else
        return FAIL(e, E_ENGINE, "a value of a top list is no number");
    return OK;
}

/* NaN first, so that it is never cut off. */
static int larger_first(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value))
        return isnan(y->value) - isnan(x->value);
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const struct listed *)a)->id, y = ((const struct listed *)b)->id;
    return (x > y) - (x < y);
}

int reply_row(struct view *v, int row, struct listed *list, int n, int vocab, float clamp, struct err *e)
{
    qsort(list, (size_t)n, sizeof *list, by_id);
    for (int i = 0; i < n; i++) {
        if (list[i].id < 0 || list[i].id >= vocab)
            return FAIL(e, E_ENGINE, "the top list of row %d names id %d: none of the vocabulary of %d", row,
                        list[i].id, vocab);
        if (i && list[i].id == list[i - 1].id)
            return FAIL(e, E_ENGINE, "the top list of row %d names id %d twice", row, list[i].id);
    }
    qsort(list, (size_t)n, sizeof *list, larger_first);
    while (n && list[n - 1].value <= clamp)
        n--;
    for (int i = 0; i < v->top_k; i++) {
        size_t at = (size_t)row * (size_t)v->top_k + (size_t)i;
        v->top_ids[at] = i < n ? list[i].id : -1;
        v->top_values[at] = i < n ? list[i].value : 0;
    }
    return OK;
}

int reply_greedy(const struct stream *s, struct err *e)
{
    const struct view *v = &s->view;
    for (int row = 0; row < v->rows && row < s->n; row++) {
        const int32_t *id = v->top_ids + (size_t)row * (size_t)v->top_k;
        const float *x = v->top_values + (size_t)row * (size_t)v->top_k;
        int at = 0;
        while (at < v->top_k && id[at] >= 0 && id[at] != s->ids[row])
            at++;
        if (isnan(x[0]) || id[0] < 0)
            continue;
        if (at == v->top_k || id[at] < 0)
            return FAIL(e, E_ENGINE, "it is not greedy: at row %d it emitted id %d, which its own top list lacks", row,
                        s->ids[row]);
        if (x[at] != x[0])
            return FAIL(e, E_ENGINE,
                        "it is not greedy: at row %d it emitted id %d with %.9g, its own maximum is id %d "
                        "with %.9g",
                        row, s->ids[row], (double)x[at], id[0], (double)x[0]);
    }
    return OK;
}

int reply_kind(const struct view *v, struct err *e)
{
    for (int row = 0; row < v->rows && v->kind == VALUE_LOGPROB; row++)
        if (v->top_values[(size_t)row * (size_t)v->top_k] > 1e-4f)
            return FAIL(
                e, E_ENGINE,
                "row %d holds %.9g, which is no log-probability; does the engine tell raw logits? Say values=logit",
                row, (double)v->top_values[(size_t)row * (size_t)v->top_k]);
    return OK;
}

void reply_argmax(const struct view *v, int32_t *ids)
{
    for (int row = 0; row < v->rows; row++)
        ids[row] = v->top_ids[(size_t)row * (size_t)v->top_k];
}

static int check_ids(const struct sequence *q, const int32_t *ids, int n, int vocab, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return FAIL(e, E_INPUT, "prompt %s: id %d at %d is outside the vocabulary of %d; nothing was sent", q->name,
                        ids[i], i, vocab);
    return OK;
}

int request_check(const struct engine_request *q, int vocab, struct err *e)
{
    for (int i = 0; i < q->seqs; i++) {
        const struct sequence *s = &q->seq[i];
        if (!s->prompts)
            return FAIL(e, E_INPUT, "prompt %s is empty; nothing was sent", s->name);
        if (check_ids(s, s->prompt, s->prompts, vocab, e) || check_ids(s, s->forced, s->forceds, vocab, e))
            return e->code;
    }
    return OK;
}
