#include "goldens/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct text *t, size_t more)
{
    if (t->failed)
        return 0;
    if (t->bytes + more + 1 > t->room) {
        size_t room = t->room ? t->room * 2 : 4096;
        while (room < t->bytes + more + 1)
            room *= 2;
        char *p = realloc(t->data, room);
        if (!p) {
            t->failed = 1;
            return 0;
        }
        t->data = p;
        t->room = room;
    }
    return 1;
}

void text_put(struct text *t, const char *s)
{
    size_t n = strlen(s);
    if (!reserve(t, n))
        return;
    memcpy(t->data + t->bytes, s, n + 1);
    t->bytes += n;
}

void text_printf(struct text *t, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    text_put(t, small);
}

/* digits d1 d2 ... of d1.d2... * 10^exponent, trailing zeros dropped. */
static int shortest(double x, char *digits, int *exponent)
{
    char s[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(s, sizeof s, "%.*e", precision, x);
        if (strtod(s, NULL) == x)
            break;
    }
    int n = 0;
    const char *p = s;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    *exponent = atoi(p + 1);
    return n;
}

void text_real(struct text *t, double x)
{
    char digits[24];
    int exponent, n = shortest(x < 0 ? -x : x, digits, &exponent);
    if (x < 0 || (x == 0 && 1 / x < 0))
        text_put(t, "-");
    if (exponent < -4 || exponent >= 16) {
        text_printf(t, n > 1 ? "%.1s.%s" : "%.1s%s", digits, digits + 1);
        text_printf(t, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        text_printf(t, "0.%.*s%s", -exponent - 1, "000", digits);
        return;
    }
    for (int i = 0; i <= exponent; i++)
        text_printf(t, "%c", i < n ? digits[i] : '0');
    text_printf(t, ".%s", n > exponent + 1 ? digits + exponent + 1 : "0");
}

/* One UTF-8 sequence; Jansson has checked that it is one. */
static unsigned decode_utf8(const unsigned char **at)
{
    const unsigned char *p = *at;
    int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
    unsigned c = more ? *p & (0x3fu >> more) : *p;
    for (int i = 1; i <= more; i++)
        c = c << 6 | (p[i] & 0x3fu);
    *at = p + more + 1;
    return c;
}

static void put_character(struct text *t, unsigned c)
{
    static const char plain[] = "\b\t\n\f\r\"\\", letter[] = "btnfr\"\\";
    const char *short_form = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (short_form)
        text_printf(t, "\\%c", letter[short_form - plain]);
    else if (c >= 0x20 && c < 0x7f)
        text_printf(t, "%c", (int)c);
    else if (c < 0x10000)
        text_printf(t, "\\u%04x", c);
    else
        text_printf(t, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
}

static void put_quoted(struct text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    text_put(t, "\"");
    while (*p)
        put_character(t, decode_utf8(&p));
    text_put(t, "\"");
}

static void put_members(struct text *t, json_t *o)
{
    const char *key, *comma = "";
    json_t *value;
    text_put(t, "{");
    json_object_foreach(o, key, value)
    {
        text_put(t, comma);
        put_quoted(t, key);
        text_put(t, ":");
        text_value(t, value);
        comma = ",";
    }
    text_put(t, "}");
}

void text_value(struct text *t, const json_t *v)
{
    if (!v) {
        t->failed = 1;
    } else if (json_is_object(v)) {
        put_members(t, (json_t *)(size_t)v);
    } else if (json_is_array(v)) {
        text_put(t, "[");
        for (size_t i = 0; i < json_array_size(v); i++) {
            text_put(t, i ? "," : "");
            text_value(t, json_array_get(v, i));
        }
        text_put(t, "]");
    } else if (json_is_string(v)) {
        put_quoted(t, json_string_value(v));
    } else if (json_is_integer(v)) {
        text_printf(t, "%lld", (long long)json_integer_value(v));
    } else if (json_is_real(v)) {
        text_real(t, json_real_value(v));
    } else {
        text_put(t, json_is_null(v) ? "null" : json_is_true(v) ? "true" : "false");
    }
}
