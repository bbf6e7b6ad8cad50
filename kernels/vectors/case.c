/* Reads one line of a case file. */
#include "kernels/vectors/vectors.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"norm", "cancel", "wide", "tiny", "big", "spec", "lows"};
static const char *const builds[] = {"sm90", "ptx80"};

const char *vector_build_name(enum vector_build b)
{
    return builds[b];
}

int vector_build_by_name(const char *name)
{
    for (int i = 0; i < BUILDS; i++)
        if (!strcmp(name, builds[i]))
            return i;
    return -1;
}

static int number(const json_t *o, const char *key, int64_t lo, int64_t hi, int *out, const char *where, struct err *e)
{
    int64_t x;
    if (json_get_int(o, key, lo, hi, &x, where, e))
        return e->code;
    *out = (int)x;
    return OK;
}

/* Looks a word up; names of this file differ from the program's in "moe", "fp32" and "r16". */
static int word(const json_t *o, const char *key, int (*by_name)(const char *), int *out, const char *where,
                struct err *e)
{
    static const char *const other[][2] = {{"moe", "grouped"}, {"fp32", "f32"}, {"r16", "f16"}};
    const char *text;
    if (json_get_str(o, key, &text, where, e))
        return e->code;
    const char *ours = text;
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, other[i][0]) && by_name(text) < 0)
            ours = other[i][1];
    *out = by_name(ours);
    return *out < 0 ? FAIL(e, E_INPUT, "%s: \"%s\" is \"%s\", which is unknown", where, key, text) : OK;
}

static int kind_by_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
        if (!strcmp(name, kinds[i]))
            return i;
    return -1;
}

static int read_problem(const json_t *o, struct vector_case *c, const char *where, struct err *e)
{
    struct gemm_shape *s = &c->shape;
    int route, format, act, kind, reduce;
    if (word(o, "route", route_by_name, &route, where, e) || word(o, "format", format_by_name, &format, where, e) ||
        word(o, "dtype", activation_by_name, &act, where, e) || word(o, "kind", kind_by_name, &kind, where, e) ||
        word(o, "reduce", reduce_by_name, &reduce, where, e) || number(o, "m", 1, 1 << 20, &s->m, where, e) ||
        number(o, "n", 1, 1 << 20, &s->n, where, e) || number(o, "k", 1, 1 << 20, &s->k, where, e) ||
        number(o, "group", -1, 1 << 20, &c->group, where, e) || number(o, "bias", 0, 1, &c->bias, where, e) ||
        number(o, "E", 1, 1024, &s->experts, where, e) || number(o, "topk", 1, 2, &s->topk, where, e) ||
        number(o, "mul", 0, 1, &c->mul, where, e))
        return e->code;
    if (c->group == 0)
        return FAIL(e, E_INPUT, "%s: \"group\" is 0; channelwise is written -1", where);
    s->route = (enum gemm_route)route;
    s->format = (enum weight_format)format;
    s->act = (enum activation)act;
    s->reduce = (enum gemm_reduce)reduce;
    s->group = c->group < 0 ? 0 : c->group;
    c->kind = (enum vector_kind)kind;
    if (s->format == WF_U4B8 && s->group == s->k)
        s->group = 0;
    if (s->route == ROUTE_DENSE)
        return OK;
    return number(o, "bm", 8, 64, &s->block_rows, where, e) || number(o, "blocks", 1, 1 << 20, &s->blocks, where, e)
               ? e->code
               : OK;
}

static int read_launches(const json_t *o, const char *key, struct vector_case *c, int build, const char *where,
                         struct err *e)
{
    const json_t *all = json_object_get(o, key);
    if (!json_is_array(all) || json_array_size(all) > PLAN_LAUNCHES_MAX)
        return FAIL(e, E_INPUT, "%s: \"%s\" must hold 1..%d launches", where, key, PLAN_LAUNCHES_MAX);
    c->launches[build] = (int)json_array_size(all);
    for (int i = 0; i < c->launches[build]; i++) {
        const json_t *l = json_array_get(all, (size_t)i);
        for (int j = 0; j < 7; j++) {
            if (!json_is_integer(json_array_get(l, (size_t)j)))
                return FAIL(e, E_INPUT, "%s: \"%s\"[%d] must be [rows,tk,tn,threads,mb,m8,grid,registers]", where, key,
                            i);
            c->launch[build][i][j] = (int)json_integer_value(json_array_get(l, (size_t)j));
        }
    }
    return OK;
}

static int read_hash(const json_t *o, const char *key, char *out, const char *where, struct err *e)
{
    const char *text;
    uint8_t hash[SHA256_BYTES];
    if (!json_object_get(o, key))
        return OK;
    if (json_get_str(o, key, &text, where, e))
        return e->code;
    if (!sha256_parse(text, hash))
        return FAIL(e, E_INPUT, "%s: \"%s\" is not 64 hexadecimal digits", where, key);
    snprintf(out, SHA256_HEX_SIZE, "%s", text);
    return OK;
}

static int read_results(const json_t *o, struct vector_case *c, const char *where, struct err *e)
{
    const char *text;
    if (json_get_str(o, "builds", &text, where, e))
        return e->code;
    for (int b = 0; b < BUILDS; b++) {
        int differs = b == BUILD_PTX80 && json_object_get(o, "launch_ptx80");
        c->has[b] = !strcmp(text, "both") || !strcmp(text, builds[b]);
        if (read_launches(o, differs ? "launch_ptx80" : "launch", c, b, where, e) ||
            read_hash(o, "sha256", c->sha256[b], where, e))
            return e->code;
    }
    if (!c->has[BUILD_SM90] && !c->has[BUILD_PTX80])
        return FAIL(e, E_INPUT, "%s: \"builds\" is \"%s\", must be sm90, ptx80 or both", where, text);
    c->raw_is_ptx80 = !json_object_get(o, "sha256_ptx80");
    if (read_hash(o, "sha256_ptx80", c->sha256[BUILD_PTX80], where, e))
        return e->code;
    const json_t *raw = json_object_get(o, "raw");
    if (!raw)
        return OK;
    c->raw_offset = json_integer_value(json_array_get(raw, 0));
    c->raw_bytes = json_integer_value(json_array_get(raw, 1));
    if (c->raw_offset < 0 || c->raw_bytes != (int64_t)2 * c->shape.m * c->shape.topk * c->shape.n)
        return FAIL(e, E_INPUT, "%s: \"raw\" must be [offset, length] and the length that of the output", where);
    return OK;
}

int vector_case_parse(const char *text, size_t bytes, const char *name, int line, struct vector_case *c, struct err *e)
{
    char where[600];
    const char *id;
    memset(c, 0, sizeof *c);
    snprintf(where, sizeof where, "%s:%d", name, line);
    json_t *o = json_parse(text, bytes, name, line, e);
    if (!o)
        return e->code;
    if (json_get_str(o, "id", &id, where, e))
        goto out;
    if (strlen(id) >= sizeof c->id) {
        FAIL(e, E_INPUT, "%s: \"id\" has more than %zu bytes", where, sizeof c->id - 1);
        goto out;
    }
    snprintf(c->id, sizeof c->id, "%s", id);
    if (!read_problem(o, c, where, e))
        read_results(o, c, where, e);
out:
    json_decref(o);
    return e->code;
}
