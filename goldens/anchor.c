#include "goldens/anchor.h"

#include "goldens/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX (1 << 24)

void anchor_key(const char *model, const char *battery, const char *arm, const char *device, char out[600])
{
    snprintf(out, 600, "%.127s/%.63s/%.255s/%.127s", model, battery, arm, device);
}

void anchor_free(struct anchor *a)
{
    for (int i = 0; a && a->prompt && i < a->prompts; i++) {
        free(a->prompt[i].name);
        free(a->prompt[i].ids);
        free(a->prompt[i].gap);
    }
    if (a)
        free(a->prompt);
    free(a);
}

const struct anchor_prompt *anchor_find(const struct anchor *a, const char *name)
{
    for (int i = 0; i < a->prompts; i++)
        if (!strcmp(a->prompt[i].name, name))
            return &a->prompt[i];
    return NULL;
}

const char *reason_check(const char *name, char *buf, size_t size)
{
    static const char *const all[] = {
#define REASON(name, text) #name,
#include "goldens/reason.def"
#undef REASON
    };
    size_t n = 0;
    buf[0] = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strcmp(all[i], name))
            return "";
        n += (size_t)snprintf(buf + n, size > n ? size - n : 0, "%s%s", i ? ", " : "", all[i]);
    }
    return buf;
}

/* Text fields in the order of the file. */
static const struct field {
    const char *key;
    size_t at, size;
} fields[] = {
#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
#name, offsetof(struct anchor, name), sizeof((struct anchor *)0)->name                                         \
    }
    FIELD(model),  FIELD(model_sha256), FIELD(battery), FIELD(battery_sha256), FIELD(golden_sha256), FIELD(arm),
    FIELD(device), FIELD(reason),       FIELD(by),      FIELD(note),           FIELD(evidence),
#undef FIELD
};

#define FIELDS ((int)(sizeof fields / sizeof *fields))

/* --- writing --- */

static void put_said(struct text *t, anchor_say *say, void *arg, int32_t id)
{
    char buf[96];
    const char *s = say ? say(arg, id, buf, sizeof buf) : "";
    if (*s) {
        text_put(t, " ");
        text_put(t, s);
    }
}

static void put_prompt(struct text *t, const struct anchor_prompt *p, const struct golden_prompt *g, anchor_say *say,
                       void *arg)
{
    text_printf(t, "prompt %d %s ", p->n, p->finish == FINISH_STOP ? "stop" : "length");
    text_put(t, p->name);
    text_put(t, "\n");
    for (int i = 0; i < p->n; i++) {
        text_printf(t, "%d %d ", i, p->ids[i]);
        if (isfinite(p->gap[i]))
            text_real(t, p->gap[i]);
        else
            text_put(t, "-");
        put_said(t, say, arg, p->ids[i]);
        if (g && i < g->n && g->ids[i] != p->ids[i]) {
            text_printf(t, " (golden %d", g->ids[i]);
            put_said(t, say, arg, g->ids[i]);
            text_put(t, ")");
        }
        text_put(t, "\n");
    }
}

int anchor_text(const struct anchor *a, const struct golden *g, anchor_say *say, void *arg, char **text, size_t *bytes,
                struct err *e)
{
    struct text t = {0};
    text_put(&t, "assay-anchor/1\n");
    for (int i = 0; i < FIELDS; i++) {
        const char *value = (const char *)a + fields[i].at;
        for (const char *c = value; *c; c++)
            if ((unsigned char)*c < 0x20) {
                free(t.data);
                return FAIL(e, E_USAGE, "%s: control characters have no place in it", fields[i].key);
            }
        text_put(&t, fields[i].key);
        text_put(&t, *value ? " " : "");
        text_put(&t, value);
        text_put(&t, "\n");
    }
    text_printf(&t, "run %lld\nprompts %d\n", (long long)a->run, a->prompts);
    for (int i = 0; i < a->prompts; i++)
        put_prompt(&t, &a->prompt[i], g ? golden_find(g, a->prompt[i].name) : NULL, say, arg);
    if (t.failed) {
        free(t.data);
        return FAIL(e, E_NOMEM, "out of memory for an anchor");
    }
    *text = t.data;
    *bytes = t.bytes;
    return OK;
}

/* --- reading --- */

struct reader {
    const char *at, *end, *name;
    int line;
    char text[1024]; /* the current line */
};

static int bad(const struct reader *r, const char *fact, struct err *e)
{
    return FAIL(e, E_INPUT, "%s:%d: %s", r->name, r->line, fact);
}

static int next(struct reader *r, struct err *e)
{
    const char *stop = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
    r->line++;
    if (!stop)
        return bad(r, "the file ends early", e);
    if ((size_t)(stop - r->at) >= sizeof r->text)
        return bad(r, "the line is too long", e);
    memcpy(r->text, r->at, (size_t)(stop - r->at));
    r->text[stop - r->at] = 0;
    r->at = stop + 1;
    return OK;
}

/* The value behind "key ", "" when nothing follows; NULL: another key. */
static const char *value_of(const struct reader *r, const char *key)
{
    size_t n = strlen(key);
    if (strncmp(r->text, key, n) || (r->text[n] && r->text[n] != ' '))
        return NULL;
    return r->text[n] ? r->text + n + 1 : r->text + n;
}

static int read_number(struct reader *r, const char *key, long long most, long long *out, struct err *e)
{
    char *end;
    if (next(r, e))
        return e->code;
    const char *v = value_of(r, key);
    *out = v ? strtoll(v, &end, 10) : -1;
    return v && *v && !*end && *out >= 0 && *out <= most ? OK : bad(r, "a number is expected here", e);
}

static int read_token(struct reader *r, struct anchor_prompt *p, int i, struct err *e)
{
    char *end;
    if (next(r, e))
        return e->code;
    long position = strtol(r->text, &end, 10);
    long long id = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
    if (end == r->text || *end != ' ' || position != i || id < 0 || id > INT32_MAX)
        return bad(r, "\"POSITION ID GAP\" is expected, positions counting up", e);
    const char *gap = end + 1;
    p->ids[i] = (int32_t)id;
    p->gap[i] = *gap == '-' ? NAN : strtod(gap, &end);
    if (*gap == '-')
        end = (char *)(size_t)gap + 1;
    if (end == gap || (*end && *end != ' ') || (*gap != '-' && !(isfinite(p->gap[i]) && p->gap[i] >= 0)))
        return bad(r, "a gap in nats or - is expected behind the id", e);
    return OK;
}

static int read_prompt(struct reader *r, struct anchor_prompt *p, struct err *e)
{
    char finish[16];
    int n, at = 0;
    if (next(r, e))
        return e->code;
    if (sscanf(r->text, "prompt %d %15s %n", &n, finish, &at) < 2 || !at || !r->text[at] || n < 0 || n > TOKENS_MAX ||
        (strcmp(finish, "stop") && strcmp(finish, "length")))
        return bad(r, "\"prompt COUNT stop|length NAME\" is expected", e);
    p->name = strdup(r->text + at);
    p->n = n;
    p->finish = strcmp(finish, "stop") ? FINISH_LENGTH : FINISH_STOP;
    p->ids = calloc((size_t)n + 1, sizeof *p->ids);
    p->gap = calloc((size_t)n + 1, sizeof *p->gap);
    if (!p->name || !p->ids || !p->gap)
        return FAIL(e, E_NOMEM, "%s: out of memory", r->name);
    for (int i = 0; i < n; i++)
        if (read_token(r, p, i, e))
            return e->code;
    return OK;
}

static int read_all(struct reader *r, struct anchor *a, struct err *e)
{
    long long run, prompts;
    if (next(r, e))
        return e->code;
    if (strcmp(r->text, "assay-anchor/1"))
        return bad(r, "\"assay-anchor/1\" is expected", e);
    for (int i = 0; i < FIELDS; i++) {
        if (next(r, e))
            return e->code;
        const char *v = value_of(r, fields[i].key);
        if (!v || strlen(v) >= fields[i].size)
            return FAIL(e, E_INPUT, "%s:%d: \"%s ...\" is expected, below %zu bytes", r->name, r->line, fields[i].key,
                        fields[i].size);
        strcpy((char *)a + fields[i].at, v);
    }
    if (read_number(r, "run", INT64_MAX, &run, e) || read_number(r, "prompts", TOKENS_MAX, &prompts, e))
        return e->code;
    a->run = run;
    if (!(a->prompt = calloc((size_t)prompts + 1, sizeof *a->prompt)))
        return FAIL(e, E_NOMEM, "%s: out of memory", r->name);
    for (a->prompts = 0; a->prompts < prompts;)
        if (read_prompt(r, &a->prompt[a->prompts++], e))
            return e->code;
    r->line++;
    return r->at == r->end ? OK : bad(r, "nothing is expected behind the last prompt", e);
}

int anchor_parse(const char *text, size_t bytes, const char *name, struct anchor **out, struct err *e)
{
    struct reader *r = calloc(1, sizeof *r);
    struct anchor *a = calloc(1, sizeof *a);
    int rc = E_NOMEM;
    if (!r || !a) {
        FAIL(e, E_NOMEM, "%s: out of memory", name);
        goto out;
    }
    r->at = text;
    r->end = text + bytes;
    r->name = name;
    if (!(rc = read_all(r, a, e)))
        *out = a, a = NULL;
out:
    anchor_free(a);
    free(r);
    return rc;
}
