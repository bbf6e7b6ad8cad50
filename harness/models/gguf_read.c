#include "harness/models/gguf.h"
#include "harness/models/round.h"

#include <string.h>

static int wrong(const struct gguf *g, const char *name, const char *wanted, struct err *e)
{
    return FAIL(e, E_INPUT, "%s: key \"%s\" %s", g->path, name, gguf_key(g, name) ? wanted : "is missing");
}

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

int gguf_int(const struct gguf *g, const char *name, int64_t lo, int64_t hi, int64_t *out, struct err *e)
{
    const struct gguf_key *k = gguf_key(g, name);
    int64_t v;
    switch (k ? k->type : GGUF_STRING) {
    case GGUF_BOOL:
    case GGUF_U8: v = k->data[0]; break;
    case GGUF_I8: v = (int8_t)k->data[0]; break;
    case GGUF_U16: v = (int64_t)number(k->data, 2); break;
    case GGUF_I16: v = (int16_t)number(k->data, 2); break;
    case GGUF_U32: v = (int64_t)number(k->data, 4); break;
    case GGUF_I32: v = (int32_t)number(k->data, 4); break;
    case GGUF_U64:
    case GGUF_I64: v = (int64_t)number(k->data, 8); break;
    default: return wrong(g, name, "is not an integer", e);
    }
    if (v < lo || v > hi || (k->type == GGUF_U64 && v < 0))
        return FAIL(e, E_INPUT, "%s: key \"%s\" is %lld, must be in [%lld, %lld]", g->path, name, (long long)v,
                    (long long)lo, (long long)hi);
    *out = v;
    return OK;
}

int gguf_real(const struct gguf *g, const char *name, double *out, struct err *e)
{
    const struct gguf_key *k = gguf_key(g, name);
    if (k && k->type == GGUF_F32) {
        *out = (double)float_of_bits((uint32_t)number(k->data, 4));
        return OK;
    }
    if (!k || k->type != GGUF_F64)
        return wrong(g, name, "is not a float", e);
    memcpy(out, k->data, sizeof *out);
    return OK;
}

void gguf_next_string(const uint8_t **at, const char **text, size_t *bytes)
{
    *bytes = (size_t)number(*at, 8);
    *text = (const char *)*at + 8;
    *at += 8 + *bytes;
}

int gguf_string(const struct gguf *g, const char *name, const char **text, size_t *bytes, struct err *e)
{
    const struct gguf_key *k = gguf_key(g, name);
    if (!k || k->type != GGUF_STRING)
        return wrong(g, name, "is not a string", e);
    const uint8_t *at = k->data;
    gguf_next_string(&at, text, bytes);
    return OK;
}
