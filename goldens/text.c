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
