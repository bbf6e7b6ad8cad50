#include "goldens/lmeval.h"

#include "goldens/text.h"
#include "harness/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
    const char *path;
    int line, prompts;
    struct text out;
    json_t *seen; /* document -> contexts, in order */
};

/* Context of request i; NULL: there is none, "" with e set: it is there and no text. */
static const json_t *context_of(const json_t *arguments, size_t i)
{
    char key[32];
    const json_t *one = json_array_get(arguments, i);
    if (json_is_object(arguments)) {
        snprintf(key, sizeof key, "gen_args_%zu", i);
        one = json_object_get(arguments, key);
    }
    return json_is_array(one) ? json_array_get(one, 0) : json_object_get(one, "arg_0");
}

static int put(struct source *s, const char *document, size_t number, const json_t *context, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, number ? "doc%.40s.%zu" : "doc%.40s", document, number);
    json_t *o = json_pack("{s:s,s:O}", "name", name, "text", context);
    if (!o)
        return FAIL(e, E_NOMEM, "%s: out of memory", s->path);
    text_value(&s->out, o);
    text_put(&s->out, "\n");
    json_decref(o);
    s->prompts++;
    return OK;
}

static int add(struct source *s, const char *document, const json_t *context, struct err *e)
{
    size_t i;
    json_t *one, *all = json_object_get(s->seen, document);
    if (!json_is_string(context) || !json_string_length(context))
        return FAIL(e, E_INPUT, "%s:%d: document %s: a request without a context", s->path, s->line, document);
    if (!all)
        json_object_set_new(s->seen, document, all = json_array());
    json_array_foreach(all, i, one)
    {
        if (json_equal(one, context))
            return OK;
    }
    json_array_append(all, (json_t *)(size_t)context);
    return put(s, document, json_array_size(all) - 1, context, e);
}

static int read_line(struct source *s, const char *text, size_t bytes, struct err *e)
{
    json_t *o = json_parse(text, bytes, s->path, s->line, e);
    const json_t *id = json_object_get(o, "doc_id"), *arguments = json_object_get(o, "arguments"), *context;
    char document[48];
    size_t i = 0;
    int rc = o ? OK : e->code;
    if (!rc && !json_is_integer(id) && !json_is_string(id))
        rc = FAIL(e, E_INPUT, "%s:%d: no doc_id: not a sample of lm-eval", s->path, s->line);
    else if (!rc && !json_is_object(arguments) && !json_is_array(arguments))
        rc = FAIL(e, E_INPUT, "%s:%d: no arguments: not a sample of lm-eval", s->path, s->line);
    if (!rc && json_is_integer(id))
        snprintf(document, sizeof document, "%lld", (long long)json_integer_value(id));
    else if (!rc)
        snprintf(document, sizeof document, "%.40s", json_string_value(id));
    for (; !rc && (context = context_of(arguments, i)); i++)
        rc = add(s, document, context, e);
    if (!rc && !i)
        rc = FAIL(e, E_INPUT, "%s:%d: document %s has no request", s->path, s->line, document);
    json_decref(o);
    return rc;
}

int lmeval_prompts(const char *path, const char *text, size_t bytes, char **out, size_t *out_bytes, int *prompts,
                   int *lines, struct err *e)
{
    struct source s = {.path = path, .seen = json_object()};
    const char *end = text + bytes;
    int rc = OK;
    *lines = 0;
    while (text < end && !rc) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        s.line++;
        if (n) {
            rc = read_line(&s, text, n, e);
            ++*lines;
        }
        text += n + 1;
    }
    if (!rc && !s.prompts)
        rc = FAIL(e, E_INPUT, "%s: no sample in it", path);
    if (!rc && s.out.failed)
        rc = FAIL(e, E_NOMEM, "%s: out of memory", path);
    json_decref(s.seen);
    if (rc)
        free(s.out.data);
    *out = s.out.data;
    *out_bytes = s.out.bytes;
    *prompts = s.prompts;
    return rc;
}
