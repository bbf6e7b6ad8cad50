#include "reports/escape.h"

#include "harness/base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char *text_visible(const void *bytes, size_t n, int double_backslash)
{
    char *text = NULL, one[UTF8_UNIT_SIZE];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    for (size_t i = 0; i < n;) {
        i += utf8_visible((const char *)bytes + i, n - i, double_backslash, one);
        fputs(one, f);
    }
    fclose(f);
    return text;
}

int text_is_rtl(const char *visible)
{
    for (size_t left = strlen(visible), n; left; visible += n, left -= n) {
        uint32_t c = 0;
        if (!(n = utf8_character(visible, left, &c)))
            return 0;
        if ((c >= 0x590 && c <= 0x8ff) || (c >= 0xfb1d && c <= 0xfdff) || (c >= 0xfe70 && c <= 0xfefc) ||
            (c >= 0x10800 && c <= 0x10fff) || (c >= 0x1e800 && c <= 0x1efff))
            return 1;
    }
    return 0;
}

typedef void put_unit(FILE *f, const char *unit);

static void put_all(FILE *f, const char *text, put_unit *put)
{
    char one[UTF8_UNIT_SIZE];
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; i < n;) {
        i += utf8_visible(text + i, n - i, 0, one);
        put(f, one);
    }
}

static void markup_unit(FILE *f, const char *unit)
{
    switch (*unit) {
    case '&': fputs("&amp;", f); break;
    case '<': fputs("&lt;", f); break;
    case '>': fputs("&gt;", f); break;
    case '"': fputs("&quot;", f); break;
    case '\'': fputs("&#39;", f); break;
    default: fputs(unit, f);
    }
}

void put_html(FILE *f, const char *text)
{
    put_all(f, text, markup_unit);
}

/* Isolated, so that text from right to left does not carry its surroundings along. */
void put_xml(FILE *f, const char *text)
{
    char *visible = text ? text_visible(text, strlen(text), 0) : NULL;
    int rtl = visible && text_is_rtl(visible);
    fputs(rtl ? "\u2068" : "", f);
    put_all(f, visible, markup_unit);
    fputs(rtl ? "\u2069" : "", f);
    free(visible);
}

/* Signs that are never Markdown inside a line; "." only where it does not make "www." a link. */
static int is_plain(unsigned char c)
{
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr(" ,;%/=.-", c));
}

static void markdown_unit(FILE *f, const char *unit)
{
    for (; *unit; unit++)
        fprintf(f, is_plain((unsigned char)*unit) ? "%c" : "&#%d;", *unit);
}

/* A comment inside keeps hosts from seeing a mention or an address, and a copied text stays as it was. */
void put_markdown(FILE *f, const char *text)
{
    char *visible = text ? text_visible(text, strlen(text), 0) : NULL, one[2] = {0};
    int rtl = visible && text_is_rtl(visible);
    fputs(rtl ? "\u2068" : "", f);
    for (const char *s = visible; s && *s; s++) {
        one[0] = *s;
        markdown_unit(f, one);
        if (*s == '@' || (s - visible >= 2 && s[1] == '.' && !strncasecmp(s - 2, "www", 3)))
            fputs("<!-- -->", f);
    }
    fputs(rtl ? "\u2069" : "", f);
    free(visible);
}

static void csv_unit(FILE *f, const char *unit)
{
    fputs(*unit == '"' ? "\"\"" : unit, f);
}

/* 1 when a spreadsheet may take the text for a formula; some read full-width signs as well. */
static int is_formula(const char *text)
{
    static const char *const sign[] = {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"};
    text += strspn(text, " ");
    for (size_t i = 0; i < sizeof sign / sizeof *sign; i++)
        if (!strncmp(text, sign[i], strlen(sign[i])))
            return 1;
    return 0;
}

void put_csv(FILE *f, const char *text)
{
    fputc('"', f);
    if (text && is_formula(text))
        fputc('\'', f);
    put_all(f, text, csv_unit);
    fputc('"', f);
}

int put_script_json(FILE *f, const json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY);
    for (const char *s = text; text && *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&')
            fprintf(f, "\\u%04x", *s);
        else
            fputc(*s, f);
    }
    free(text);
    return text != NULL;
}

void json_visible(json_t *o)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_string(o)) {
        char *text = text_visible(json_string_value(o), json_string_length(o), 0);
        json_string_set(o, text ? text : "?");
        free(text);
    }
    json_array_foreach(o, i, v) json_visible(v);
    json_object_foreach(o, key, v) json_visible(v);
}

json_t *text_json(const char *text)
{
    char *visible = text_visible(text ? text : "", text ? strlen(text) : 0, 0);
    json_t *s = visible ? json_string(visible) : NULL;
    free(visible);
    return s ? s : json_null();
}
