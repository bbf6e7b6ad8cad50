/* assay-golden/1, writing: compact JSON, numbers in their shortest form that reads back the same. */
#include "goldens/exchange.h"
#include "goldens/text.h"

#include <stdlib.h>
#include <string.h>

static void put_ids(struct text *t, const int32_t *ids, int n)
{
    text_put(t, "[");
    for (int i = 0; i < n; i++)
        text_printf(t, i ? ",%d" : "%d", ids[i]);
    text_put(t, "]");
}

static int row_length(const struct view *v, int r)
{
    int n = 0;
    while (n < v->top_k && v->top_ids[(size_t)r * (size_t)v->top_k + (size_t)n] >= 0)
        n++;
    return n;
}

static void put_view(struct text *t, const char *key, const struct view *v)
{
    text_printf(t, ",\"%s\":", key);
    if (!v->top_ids) {
        text_put(t, "null");
        return;
    }
    text_put(t, "{\"top_ids\":[");
    for (int r = 0; r < v->rows; r++) {
        text_put(t, r ? "," : "");
        put_ids(t, v->top_ids + (size_t)r * (size_t)v->top_k, row_length(v, r));
    }
    text_put(t, "],\"top_logits\":[");
    for (int r = 0; r < v->rows; r++) {
        text_put(t, r ? ",[" : "[");
        for (int i = 0, n = row_length(v, r); i < n; i++) {
            text_put(t, i ? "," : "");
            text_real(t, v->top_values[(size_t)r * (size_t)v->top_k + (size_t)i]);
        }
        text_put(t, "]");
    }
    text_put(t, "],\"logsumexp\":[");
    for (int r = 0; r < v->rows; r++) {
        text_put(t, r ? "," : "");
        text_real(t, v->logsumexp[r]);
    }
    text_put(t, "]}");
}

static void put_string(struct text *t, const char *s)
{
    json_t *o = json_string(s); /* NULL when it is not UTF-8 */
    text_value(t, o);
    json_decref(o);
}

static void put_batches(struct text *t, const struct golden_prompt *p)
{
    text_put(t, ",\"batch\":[");
    for (int i = 0; i < p->batches; i++) {
        static const char *const words[] = {"null", "false", "true"};
        text_put(t, i ? ",{\"ids\":" : "{\"ids\":");
        if (p->batch[i].ids)
            put_ids(t, p->batch[i].ids, p->batch[i].n);
        else
            text_put(t, "null");
        text_printf(t, ",\"top_equal_to_first\":%s}", words[p->batch[i].top_equal_to_first + 1]);
    }
    text_put(t, "]");
}

static void put_prompt(struct text *t, const struct golden_prompt *p)
{
    text_put(t, "{\"prompt\":");
    put_string(t, p->name);
    text_put(t, ",\"prompt_ids\":");
    put_ids(t, p->prompt_ids, p->prompts);
    text_put(t, ",\"ids\":");
    put_ids(t, p->ids, p->n);
    text_printf(t, ",\"finish\":\"%s\",\"repeats\":", p->finish == FINISH_STOP ? "stop" : "length");
    if (p->repeats_json)
        text_value(t, p->repeats_json);
    else
        text_put(t, "[]");
    put_batches(t, p);
    put_view(t, "decode", &p->decode);
    put_view(t, "prefill", &p->prefill);
    if (p->rows_equal < 0)
        text_put(t, ",\"decode_rows_equal_prefill_rows\":null}\n");
    else
        text_printf(t, ",\"decode_rows_equal_prefill_rows\":%d}\n", p->rows_equal);
}

int golden_text(const struct golden *g, char **text, size_t *bytes, struct err *e)
{
    struct text t = {0};
    text_value(&t, g->header);
    text_put(&t, "\n");
    for (int i = 0; i < g->prompts; i++)
        put_prompt(&t, &g->prompt[i]);
    if (t.failed) {
        free(t.data);
        return FAIL(e, E_NOMEM, "golden %s %s %s: cannot be written: no header, a name that is not UTF-8, or no memory",
                    g->model, g->battery, g->arm);
    }
    *text = t.data;
    *bytes = t.bytes;
    return OK;
}

int golden_write(const char *path, const struct golden *g, struct err *e)
{
    char *text;
    size_t bytes;
    if (golden_text(g, &text, &bytes, e))
        return e->code;
    int rc = packed_write(path, text, bytes, e);
    free(text);
    return rc;
}
