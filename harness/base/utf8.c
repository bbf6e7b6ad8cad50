#include "harness/base/utf8.h"

#include <stdio.h>

size_t utf8_character(const char *text, size_t left, uint32_t *code_point)
{
    const uint8_t *s = (const uint8_t *)text;
    uint32_t c;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!n || n > left)
        return 0;
    c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *code_point = c;
    return n;
}

/* Characters that a reader cannot see, or that move others: controls, marks of direction, separators, no width. */
static int is_hidden(uint32_t c)
{
    static const uint32_t range[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},
                                        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                                        {0xfdd0, 0xfdef}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (c >= range[i][0] && c <= range[i][1])
            return 1;
    return (c & 0xfffe) == 0xfffe;
}

size_t utf8_visible(const char *s, size_t left, int double_backslash, char out[UTF8_UNIT_SIZE])
{
    uint32_t cp = 0;
    size_t n = utf8_character(s, left, &cp);
    if (!n)
        snprintf(out, UTF8_UNIT_SIZE, "\\x%02x", (unsigned char)s[0]);
    else if (cp == '\n' || cp == '\t' || cp == '\r')
        snprintf(out, UTF8_UNIT_SIZE, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : 'r');
    else if (cp == '\\' && double_backslash)
        snprintf(out, UTF8_UNIT_SIZE, "\\\\");
    else if (is_hidden(cp))
        snprintf(out, UTF8_UNIT_SIZE, cp < 0x80 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
    else
        snprintf(out, UTF8_UNIT_SIZE, "%.*s", (int)n, s);
    return n ? n : 1;
}
