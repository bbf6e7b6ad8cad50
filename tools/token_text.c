#include "tools/token_text.h"

#include "harness/base/json.h"
#include "harness/models/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_MAX (1 << 20)

struct token_text {
    json_t *file;     /* owns the strings */
    const char **raw; /* [n], NULL: no such id */
    int n;
    uint8_t of_rank[256]; /* bytes without a printable form of their own, in order */
};

/* Bytes that the GPT-2 alphabet writes as themselves. */
static int is_plain(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static int set(struct token_text *tok, json_int_t id, const char *text)
{
    if (id < 0 || id >= IDS_MAX || !text)
        return 0;
    if (id >= tok->n) {
        int n = (int)id + 4096;
        const char **bigger = realloc(tok->raw, (size_t)n * sizeof *bigger);
        if (!bigger)
            return 0;
        memset(bigger + tok->n, 0, (size_t)(n - tok->n) * sizeof *bigger);
        tok->raw = bigger;
        tok->n = n;
    }
    tok->raw[id] = text;
    return 1;
}

static void index_file(struct token_text *tok)
{
    const char *text;
    json_t *id, *added;
    size_t i;
    json_object_foreach(json_object_get(json_object_get(tok->file, "model"), "vocab"), text, id)
        set(tok, json_is_integer(id) ? json_integer_value(id) : -1, text);
    json_array_foreach(json_object_get(tok->file, "added_tokens"), i, added)
    {
        id = json_object_get(added, "id");
        set(tok, json_is_integer(id) ? json_integer_value(id) : -1,
            json_string_value(json_object_get(added, "content")));
    }
}

struct token_text *token_text_open(const struct tool *t, const char *model)
{
    char folder[1024], path[1100];
    struct err quiet = {0};
    struct token_text *tok = calloc(1, sizeof *tok);
    int rank = 0;
    if (!tok || model_find(model, t->data_dir, t->cache_dir, folder, sizeof folder, &quiet))
        goto none;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!(tok->file = json_read(path, &quiet)))
        goto none;
    for (int byte = 0; byte < 256; byte++)
        if (!is_plain(byte))
            tok->of_rank[rank++] = (uint8_t)byte;
    index_file(tok);
    if (tok->n)
        return tok;
none:
    token_text_close(tok);
    return NULL;
}

void token_text_close(struct token_text *tok)
{
    if (!tok)
        return;
    json_decref(tok->file);
    free(tok->raw);
    free(tok);
}

/* One character of valid UTF-8 (Jansson checked it); returns its length. */
static int code_point(const char *s, int *cp)
{
    const uint8_t *u = (const uint8_t *)s;
    int n = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    *cp = n == 1 ? u[0] : u[0] & (0xff >> (n + 1));
    for (int i = 1; i < n; i++)
        *cp = *cp << 6 | (u[i] & 0x3f);
    return n;
}

static size_t to_bytes(const struct token_text *tok, const char *raw, uint8_t *out, size_t size)
{
    size_t n = 0;
    int cp, length;
    for (; *raw && n + 4 < size; raw += length) {
        length = code_point(raw, &cp);
        if (cp >= 0x100 && cp < 0x144)
            out[n++] = tok->of_rank[cp - 0x100];
        else if (cp < 0x100 && is_plain(cp))
            out[n++] = (uint8_t)cp;
        else
            for (int i = 0; i < length; i++)
                out[n++] = (uint8_t)raw[i];
    }
    return n;
}

/* Length of the character of well-formed UTF-8 at s, 0 when it is cut or no UTF-8: a token may hold a part of one. */
static size_t whole_character(const uint8_t *s, size_t left)
{
    size_t n = *s < 0x80                 ? 1
               : *s >= 0xc2 && *s < 0xe0 ? 2
               : *s >= 0xe0 && *s < 0xf0 ? 3
               : *s >= 0xf0 && *s < 0xf5 ? 4
                                         : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* How one character is shown; *used: bytes it takes from s. */
static int escape(const uint8_t *s, size_t left, char *out, size_t size, size_t *used)
{
    size_t n = whole_character(s, left);
    *used = n ? n : 1;
    if (*s == '\n' || *s == '\t' || *s == '\r')
        return snprintf(out, size, "\\%c", *s == '\n' ? 'n' : *s == '\t' ? 't' : 'r');
    if (*s == '"' || *s == '\\')
        return snprintf(out, size, "\\%c", *s);
    /* C1 controls would reach a terminal as commands, too. */
    if (!n || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) {
        *used = 1;
        return snprintf(out, size, "\\x%02x", *s);
    }
    return snprintf(out, size, "%.*s", (int)n, (const char *)s);
}

const char *token_text_quote(const struct token_text *tok, int32_t id, char *buf, size_t size)
{
    uint8_t bytes[256];
    char one[8];
    size_t at = 0, used = 0;
    *buf = 0;
    if (!tok || id < 0 || id >= tok->n || !tok->raw[id] || size < 8)
        return buf;
    size_t n = to_bytes(tok, tok->raw[id], bytes, sizeof bytes);
    buf[at++] = '"';
    for (size_t i = 0; i < n; i += used) {
        size_t length = (size_t)escape(bytes + i, n - i, one, sizeof one, &used);
        if (at + length + 2 > size)
            break;
        memcpy(buf + at, one, length);
        at += length;
    }
    buf[at++] = '"';
    buf[at] = 0;
    return buf;
}
