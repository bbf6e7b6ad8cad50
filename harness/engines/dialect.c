#include "harness/engines/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct dialect *dialect_find(const char *name)
{
    for (int i = 0; dialect_all[i]; i++)
        if (!strcmp(dialect_all[i]->name, name))
            return dialect_all[i];
    return NULL;
}

json_t *ids_json(const int32_t *ids, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

const char *member_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

int read_finish(const char *finish, const char *stop, const char *length, struct stream *s, struct err *e)
{
    char excerpt[80];
    if (!strcmp(finish, stop))
        s->finish = FINISH_STOP;
    else if (!strcmp(finish, length))
        s->finish = FINISH_LENGTH;
    else {
        reply_excerpt(finish, strlen(finish), excerpt, sizeof excerpt);
        return FAIL(e, E_ENGINE, "it finished for the reason \"%s\"", excerpt);
    }
    return OK;
}

/* The server's own words: {"error":{"message":..}}, {"error":"..."}, {"message":..}, or the text. */
static int refused(long status, const char *text, size_t bytes, struct err *e)
{
    char excerpt[240];
    json_t *o = json_loadb(text, bytes, 0, NULL), *error = json_object_get(o, "error");
    const char *m =
        json_is_string(error) ? json_string_value(error) : member_text(json_is_object(error) ? error : o, "message");
    reply_excerpt(*m ? m : text, *m ? strlen(m) : bytes, excerpt, sizeof excerpt);
    json_decref(o);
    return status >= 300 && status < 400
               ? FAIL(e, E_ENGINE, "the server sends elsewhere (status %ld); redirects are not followed", status)
               : FAIL(e, E_ENGINE, "the server refused (status %ld): %s", status, excerpt);
}

static int check_stream(const struct server_ask *q, const struct stream *s, struct err *e)
{
    int rows = q->kind == ASK_PROMPT ? q->n - q->from : s->n;
    if (q->kind != ASK_PROMPT && (s->n < 1 || s->n > q->max_new))
        return FAIL(e, E_ENGINE, "its answer has %d ids where at most %d were asked for", s->n, q->max_new);
    if (q->kind == ASK_GENERATE && s->finish == FINISH_LENGTH && s->n < q->max_new)
        return FAIL(e, E_ENGINE, "it finished by length after %d of %d ids", s->n, q->max_new);
    if (q->top_k && s->view.rows != rows)
        return FAIL(e, E_ENGINE, "its answer has %d top lists for %d ids", s->view.rows, rows);
    for (int row = 0; row < s->view.rows; row++)
        if (s->view.top_ids[(size_t)row * (size_t)s->view.top_k] < 0)
            return FAIL(e, E_ENGINE, "the top list of row %d is empty", row);
    return OK;
}

int dialect_read(const struct dialect *d, long status, const char *content_type, const char *text, size_t bytes,
                 const struct server_ask *q, struct stream *s, int32_t **fed, int *feds, struct err *e)
{
    *fed = NULL;
    if (status != 200)
        return refused(status, text, bytes, e);
    if (*content_type && strcmp(content_type, "application/json"))
        return FAIL(e, E_ENGINE, "its answer is of type %.60s, not application/json", content_type);
    json_t *o = reply_parse(text, bytes, e);
    if (!o)
        return e->code;
    if (!d->read(o, q, s, fed, feds, e) && !check_stream(q, s, e) && !reply_kind(&s->view, e) && q->kind != ASK_PROMPT)
        reply_greedy(s, e);
    json_decref(o);
    if (e->code) {
        stream_free(s);
        memset(s, 0, sizeof *s);
        free(*fed);
        *fed = NULL;
    }
    return e->code;
}
