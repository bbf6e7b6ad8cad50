/* Patterns are written for Oniguruma (Ruby's syntax). What PCRE2 reads otherwise is rewritten, or refused by name: a
 * pattern that is nearly right gives ids that are nearly right. */
#include "harness/tokenizer/private.h"

#include <stdlib.h>
#include <string.h>

/* White_Space. PCRE2's own \s also holds U+180E. */
#define SPACE "\\x{9}-\\x{d}\\x{85}\\p{Z}"

struct rewrite {
    const char *name, *p;
    char *out;
    size_t n;
    int in_class;
};

static int refuse(const struct rewrite *r, const char *why, size_t length, struct err *e)
{
    return FAIL(e, E_UNSUPPORTED, "%s: pre_tokenizer pattern at \"%.*s\": %s", r->name, (int)length, r->p, why);
}

static void copy(struct rewrite *r, size_t length)
{
    memcpy(r->out + r->n, r->p, length);
    r->n += length;
    r->p += length;
}

static void put(struct rewrite *r, const char *text)
{
    size_t length = strlen(text);
    memcpy(r->out + r->n, text, length);
    r->n += length;
}

/* \p{Name}: PCRE2 takes the name of a script for its extensions, too. */
static void property(struct rewrite *r)
{
    size_t close = strcspn(r->p, "}");
    if (r->p[2] != '{' || !r->p[close]) {
        copy(r, 2);
        return;
    }
    copy(r, 3);
    if (close > 5 && *r->p != '^') /* general categories have one letter or two */
        put(r, "sc:");
    copy(r, close - 2);
}

static int escape(struct rewrite *r, struct err *e)
{
    unsigned char c = (unsigned char)r->p[1];
    if (c == 's' || (c == 'S' && !r->in_class)) {
        put(r, r->in_class ? SPACE : c == 's' ? "[" SPACE "]" : "[^" SPACE "]");
        r->p += 2;
        return OK;
    }
    if (c == 'p' || c == 'P') {
        property(r);
        return OK;
    }
    int alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!c || (alphanumeric && !strchr("dDrntfaexAz", c)))
        return refuse(r, "this escape is not understood", c ? 2 : 1, e);
    copy(r, 2);
    return OK;
}

static int group(struct rewrite *r, struct err *e)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    if (r->p[1] != '?') {
        copy(r, 1);
        return OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(r->p, known[i], strlen(known[i]))) {
            copy(r, strlen(known[i]));
            return OK;
        }
    return refuse(r, "this group is not understood", 3, e);
}

static int in_class(struct rewrite *r, struct err *e)
{
    if (*r->p == '[' || !strncmp(r->p, "&&", 2))
        return refuse(r, "a class within a class is not understood", 2, e);
    if (*r->p == ']')
        r->in_class = 0;
    copy(r, 1);
    return OK;
}

static int outside(struct rewrite *r, struct err *e)
{
    if (*r->p == '(')
        return group(r, e);
    if (*r->p == '}' && r->p[1] == '+')
        return refuse(r, "a repeat of a repeat is not understood", 2, e);
    if (*r->p == '[') {
        r->in_class = 1;
        copy(r, r->p[1] == '^' ? 2 : 1);
        if (*r->p == ']') /* a literal to one, the end to the other */
            return refuse(r, "an empty class is not understood", 1, e);
        return OK;
    }
    copy(r, 1);
    return OK;
}

int tokenizer_pattern(const char *pattern, const char *name, char **out, struct err *e)
{
    /* two bytes of pattern become at most a class */
    struct rewrite r = {.name = name, .p = pattern, .out = malloc(strlen(pattern) * sizeof SPACE + sizeof SPACE)};
    if (!r.out)
        return FAIL(e, E_NOMEM, "%s: out of memory", name);
    int rc = OK;
    while (*r.p && !rc)
        rc = *r.p == '\\' ? escape(&r, e) : r.in_class ? in_class(&r, e) : outside(&r, e);
    if (rc) {
        free(r.out);
        return rc;
    }
    r.out[r.n] = 0;
    *out = r.out;
    return OK;
}
