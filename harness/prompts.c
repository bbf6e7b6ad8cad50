#include "harness/prompts.h"

#include "harness/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 63

struct source {
    struct battery *b;
    struct tokenizer *t;
    const char *path;
    int room;
};

static int add_prompt(struct source *s, int line, const char *name, const char *text, size_t bytes, struct err *e)
{
    struct battery *b = s->b;
    struct err own = {0};
    if (!*name || strlen(name) > NAME_MAX_BYTES)
        return FAIL(e, E_INPUT, "%s:%d: a prompt needs a name of 1 to %d bytes", s->path, line, NAME_MAX_BYTES);
    for (int i = 0; i < b->prompts; i++)
        if (!strcmp(b->prompt[i].name, name))
            return FAIL(e, E_INPUT, "%s:%d: prompt \"%s\" appears twice", s->path, line, name);
    if (b->prompts == s->room) {
        int room = s->room ? 2 * s->room : 64;
        struct battery_prompt *more = realloc(b->prompt, (size_t)room * sizeof *more);
        if (!more)
            return FAIL(e, E_NOMEM, "%s: out of memory", s->path);
        b->prompt = more;
        s->room = room;
    }
    struct battery_prompt *p = &b->prompt[b->prompts];
    *p = (struct battery_prompt){0};
    if (tokenizer_encode(s->t, text, bytes, &p->ids, &p->n, &own))
        return FAIL(e, own.code, "%s:%d: prompt \"%s\": %s", s->path, line, name, own.text);
    b->prompts++;
    p->name = strdup(name);
    p->text = strndup(text, bytes);
    return p->name && p->text ? OK : FAIL(e, E_NOMEM, "%s: out of memory", s->path);
}

static size_t line_length(const char *p, const char *end)
{
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    return stop ? (size_t)(stop - p) + 1 : (size_t)(end - p);
}

static int is_blank(const char *p, size_t bytes)
{
    while (bytes && strchr(" \t\r\n", p[bytes - 1]))
        bytes--;
    return !bytes;
}

/* The line end before the blank line does not belong to the prompt; blanks at its beginning do. */
static int add_paragraph(struct source *s, int line, const char *p, size_t bytes, struct err *e)
{
    char name[32];
    while (bytes && (p[bytes - 1] == '\n' || p[bytes - 1] == '\r'))
        bytes--;
    snprintf(name, sizeof name, "p%02d", s->b->prompts);
    return add_prompt(s, line, name, p, bytes, e);
}

static int add_paragraphs(struct source *s, const char *text, size_t bytes, struct err *e)
{
    const char *end = text + bytes, *start = NULL;
    int line = 0, first = 0;
    for (const char *p = text; p < end;) {
        size_t n = line_length(p, end);
        line++;
        if (!is_blank(p, n)) {
            if (!start)
                start = p, first = line;
        } else if (start) {
            if (add_paragraph(s, first, start, (size_t)(p - start), e))
                return e->code;
            start = NULL;
        }
        p += n;
    }
    return start ? add_paragraph(s, first, start, (size_t)(end - start), e) : OK;
}

static int add_object(struct source *s, int line, const json_t *o, struct err *e)
{
    char where[300];
    const char *name, *text, *key;
    json_t *value;
    snprintf(where, sizeof where, "%.280s:%d", s->path, line);
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: not an object", where);
    json_object_foreach((json_t *)(size_t)o, key, value) if (strcmp(key, "name") && strcmp(key, "text")) return FAIL(
        e, E_INPUT, "%s: unknown key \"%.60s\"; a line holds \"name\" and \"text\"", where, key);
    if (json_get_str(o, "name", &name, where, e) || json_get_str(o, "text", &text, where, e))
        return e->code;
    return add_prompt(s, line, name, text, strlen(text), e);
}

static int add_lines(struct source *s, const char *text, size_t bytes, struct err *e)
{
    int line = 0;
    for (const char *p = text, *end = text + bytes; p < end;) {
        size_t n = line_length(p, end);
        line++;
        if (!is_blank(p, n)) {
            json_t *o = json_parse(p, n, s->path, line, e);
            int rc = o ? add_object(s, line, o, e) : e->code;
            json_decref(o);
            if (rc)
                return rc;
        }
        p += n;
    }
    return OK;
}

/* A text may begin with a brace, a JSON object on a line of its own it is not. */
static int is_json_lines(const char *text, size_t bytes)
{
    json_t *o = json_parse(text, line_length(text, text + bytes), "", 1, NULL);
    int yes = json_is_object(o);
    json_decref(o);
    return yes;
}

int prompts_add(struct battery *b, struct tokenizer *t, const char *path, const char *text, size_t bytes, struct err *e)
{
    struct source s = {.b = b, .t = t, .path = path, .room = b->prompts};
    int before = b->prompts;
    if (memchr(text, 0, bytes))
        return FAIL(e, E_INPUT, "%s: a NUL byte at %zu; a text is expected", path,
                    (size_t)((const char *)memchr(text, 0, bytes) - text));
    if (bytes && is_json_lines(text, bytes) ? add_lines(&s, text, bytes, e) : add_paragraphs(&s, text, bytes, e))
        return e->code;
    return b->prompts > before ? OK : FAIL(e, E_INPUT, "%s: no text in it: an empty battery proves nothing", path);
}
