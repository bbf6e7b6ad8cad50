#include "harness/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int status;
} codes[] = {
#define ERR(name, status, text) {#name, status},
#include "harness/base/err.def"
#undef ERR
};

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (!e || e->code != OK)
        return e ? e->code : code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    e->code = code;
    return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (!e || e->code == OK)
        return e ? e->code : OK;
    char head[256], tail[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, e->text, sizeof tail);
    snprintf(e->text, sizeof e->text, "%s: %.*s", head, (int)(sizeof e->text - sizeof head - 3), tail);
    return e->code;
}

int err_exit_status(int code)
{
    return code >= 0 && code < (int)(sizeof codes / sizeof *codes) ? codes[code].status : 3;
}

const char *err_name(int code)
{
    return code >= 0 && code < (int)(sizeof codes / sizeof *codes) ? codes[code].name : "E_?";
}
