#include "kernels/profile.h"

#include "harness/base/json.h"
#include "kernels/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const evidence_names[] = {"measured", "compiled", "documented"};
static const char *const block_keys[] = {"m8", "mb1", "mb2", "mb3", "mb4"};
enum { BLOCKS = sizeof block_keys / sizeof *block_keys };

const char *evidence_name(enum evidence v)
{
    return evidence_names[v];
}

static int read_evidence(const json_t *o, struct gpu_profile *p, const char *where, struct err *e)
{
    const char *name;
    if (json_get_str(o, "evidence", &name, where, e))
        return e->code;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, evidence_names[i])) {
            p->evidence = (enum evidence)i;
            return OK;
        }
    return FAIL(e, E_INPUT, "%s: \"evidence\" is \"%s\", must be measured, compiled or documented", where, name);
}

static int read_text(const json_t *o, const char *key, char *out, size_t size, const char *where, struct err *e)
{
    const char *text;
    if (json_get_str(o, key, &text, where, e))
        return e->code;
    if (strlen(text) >= size)
        return FAIL(e, E_INPUT, "%s: \"%s\" has more than %zu bytes", where, key, size - 1);
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

static int read_head(const json_t *o, struct gpu_profile *p, const char *where, struct err *e)
{
    int64_t sms, smem, sm;
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: not a JSON object", where);
    if (read_text(o, "name", p->name, sizeof p->name, where, e) || json_get_int(o, "sms", 1, 4096, &sms, where, e) ||
        json_get_int(o, "smem_optin", 16384, 1 << 24, &smem, where, e) ||
        json_get_int(o, "sm", 80, 999, &sm, where, e) || read_evidence(o, p, where, e) ||
        read_text(o, "source", p->source, sizeof p->source, where, e))
        return e->code;
    if (!json_is_boolean(json_object_get(o, "native_code")))
        return FAIL(e, E_INPUT, "%s: \"native_code\" must be true (code generated for sm_90 or later) or false", where);
    p->sms = (int)sms;
    p->smem_optin = (int)smem;
    p->sm = (int)sm;
    p->native_code = json_is_true(json_object_get(o, "native_code"));
    return OK;
}

/* One object of "registers": an instance family with a triple of counts for each height of block that is known. */
static int read_family(const json_t *o, struct gpu_profile *p, const char *where, struct err *e)
{
    const char *format, *dtype;
    int64_t group;
    if (json_get_str(o, "format", &format, where, e) || json_get_str(o, "dtype", &dtype, where, e) ||
        json_get_int(o, "group", 0, 65536, &group, where, e))
        return e->code;
    int f = format_by_name(format), a = activation_by_name(dtype);
    if (f < 0 || f == WF_PLAIN || a < 0)
        return FAIL(e, E_INPUT, "%s: \"%s\" %s is no kernel family: format u4b8, nvfp4 or mxfp4, dtype bf16 or fp16",
                    where, format, dtype);
    for (int b = 0; b < BLOCKS; b++) {
        int32_t *regs;
        int n;
        if (!json_object_get(o, block_keys[b]))
            continue;
        if (json_get_ids(o, block_keys[b], 1, 255, &regs, &n, where, e))
            return e->code;
        if (n == 3 && !profile_registers(p, (enum weight_format)f, (enum activation)a, (int)group, b, 0))
            p->row[p->rows++] = (struct register_row){
                (enum weight_format)f, (enum activation)a, (int)group, b, {regs[0], regs[1], regs[2]}};
        else
            FAIL(e, E_INPUT, "%s: \"%s\" %s", where, block_keys[b],
                 n == 3 ? "is given twice for this kernel" : "must hold three counts, one a tile of the table");
        free(regs);
        if (e->code)
            return e->code;
    }
    return OK;
}

int profile_read(const char *path, struct gpu_profile *p, struct err *e)
{
    struct err none = {0};
    if (!e)
        e = &none;
    memset(p, 0, sizeof *p);
    json_t *o = json_read(path, e);
    if (!o || read_head(o, p, path, e))
        goto out;
    const json_t *families = json_object_get(o, "registers");
    if (!json_is_array(families)) {
        FAIL(e, E_INPUT, "%s: \"registers\" must be an array; [] when nothing is known", path);
        goto out;
    }
    p->row = calloc(json_array_size(families) * BLOCKS + 1, sizeof *p->row);
    if (!p->row) {
        FAIL(e, E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    for (size_t i = 0; i < json_array_size(families); i++) {
        char where[600];
        snprintf(where, sizeof where, "%s: registers[%zu]", path, i);
        if (read_family(json_array_get(families, i), p, where, e))
            break;
    }
out:
    json_decref(o);
    if (e->code)
        profile_free(p);
    return e->code;
}

void profile_free(struct gpu_profile *p)
{
    free(p->row);
    p->row = NULL;
    p->rows = 0;
}

int profile_registers(const struct gpu_profile *p, enum weight_format f, enum activation a, int group, int mb, int tile)
{
    for (int i = 0; i < p->rows; i++) {
        const struct register_row *r = &p->row[i];
        if (r->format == f && r->act == a && r->group == group && r->mb == mb)
            return r->regs[tile];
    }
    return 0;
}
