#include "harness/models/round.h"
#include "harness/models/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int missing(const struct owner *w, const char *name, struct err *e)
{
    return FAIL(e, E_INPUT, "%s: tensor \"%s\" is missing", w->checkpoint.folder, name);
}

static void shape_text(const struct tensor *t, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    if (n < size)
        snprintf(out + n, size - n, "]");
}

/* cols 0: the tensor has one dimension. */
static int check_shape(const struct owner *w, const struct tensor *t, int64_t rows, int64_t cols, struct err *e)
{
    char has[96];
    if (t->rank == (cols ? 2 : 1) && t->shape[0] == rows && (!cols || t->shape[1] == cols))
        return OK;
    shape_text(t, has, sizeof has);
    if (cols)
        return FAIL(e, E_INPUT, "%s: tensor \"%s\" has shape %s, config.json wants [%lld,%lld]", w->checkpoint.folder,
                    t->name, has, (long long)rows, (long long)cols);
    return FAIL(e, E_INPUT, "%s: tensor \"%s\" has shape %s, config.json wants [%lld]", w->checkpoint.folder, t->name,
                has, (long long)rows);
}

static int wrong_type(const struct owner *w, const struct tensor *t, const char *wanted, struct err *e)
{
    return FAIL(e, E_INPUT, "%s: tensor \"%s\" has type %s, must be %s", w->checkpoint.folder, t->name,
                dtype_name(t->dtype), wanted);
}

/* Takes NAME = prefix.suffix with type and shape. */
static int take(struct owner *w, const char *prefix, const char *suffix, enum dtype d, int64_t rows, int64_t cols,
                struct tensor *out, struct err *e)
{
    char name[512];
    snprintf(name, sizeof name, "%s.%s", prefix, suffix);
    const struct tensor *t = checkpoint_take(&w->checkpoint, name);
    if (!t)
        return missing(w, name, e);
    if (t->dtype != d)
        return wrong_type(w, t, dtype_name(d), e);
    *out = *t;
    return check_shape(w, t, rows, cols, e);
}

/* Replaces t's data by bf16 in memory of the owner. */
static int round_to_bf16(struct owner *w, struct tensor *t, struct err *e)
{
    size_t n = t->bytes / (size_t)dtype_bytes(t->dtype);
    uint16_t *out = malloc(n * sizeof *out + 1);
    void **more = realloc(w->memory, ((size_t)w->memories + 1) * sizeof *more);
    if (more)
        w->memory = more;
    if (!more || !out) {
        free(out);
        return FAIL(e, E_NOMEM, "%s: tensor \"%s\": out of memory", w->checkpoint.folder, t->name);
    }
    w->memory[w->memories++] = out;
    const char *in = t->data;
    for (size_t i = 0; i < n; i++)
        if (t->dtype == DT_F16) {
            uint16_t h;
            memcpy(&h, in + 2 * i, sizeof h);
            out[i] = bf16_of_float(float_of_f16(h));
        } else {
            float x;
            memcpy(&x, in + 4 * i, sizeof x);
            out[i] = bf16_of_float(x);
        }
    t->data = out;
    t->bytes = n * sizeof *out;
    t->dtype = DT_BF16;
    w->rounded = 1;
    return OK;
}

int take_plain(struct owner *w, const char *name, int64_t rows, int64_t cols, struct tensor *out, struct err *e)
{
    const struct tensor *t = checkpoint_take(&w->checkpoint, name);
    if (!t)
        return missing(w, name, e);
    int rc = check_shape(w, t, rows, cols, e);
    if (rc)
        return rc;
    *out = *t;
    if (t->dtype == DT_BF16)
        return OK;
    if (t->dtype != DT_F16 && t->dtype != DT_F32)
        return wrong_type(w, t, "BF16, F16 or F32", e);
    return round_to_bf16(w, out, e);
}

/* The first scale that is not a number (or is infinite, or negative where the format has no sign), or -1. */
static int64_t bad_scale(const struct tensor *t)
{
    const uint8_t *p = t->data;
    int64_t n = (int64_t)(t->bytes / (size_t)dtype_bytes(t->dtype));
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == DT_F8_E4M3 && p[i] >= 0x7f)
            return i;
        if (t->dtype == DT_U8 && p[i] == 0xff)
            return i;
        if (t->dtype == DT_BF16 && (p[2 * i + 1] & 0x7f) == 0x7f && p[2 * i] >= 0x80)
            return i;
        if (t->dtype == DT_F16 && (p[2 * i + 1] & 0x7c) == 0x7c)
            return i;
    }
    return -1;
}

static int check_scales(const struct owner *w, const struct tensor *t, struct err *e)
{
    int64_t at = bad_scale(t);
    if (at < 0)
        return OK;
    const uint8_t *p = (const uint8_t *)t->data + at * dtype_bytes(t->dtype);
    int negative = t->dtype == DT_F8_E4M3 && *p != 0x7f && *p != 0xff;
    return FAIL(e, E_INPUT, "%s: tensor \"%s\": the scale at [%lld,%lld] is %s", w->checkpoint.folder, t->name,
                (long long)(at / t->shape[1]), (long long)(at % t->shape[1]), negative ? "negative" : "not finite");
}

/* Codes, scales and divisor of compressed-tensors. */
static int take_compressed(struct owner *w, const char *p, struct linear *l, struct err *e)
{
    const struct scheme *s = &w->config.scheme;
    int words = s->format == WF_U4B8, groups = l->group ? l->k / l->group : 1, rc;
    static const enum dtype scale_type[] = {
        [WF_PLAIN] = DT_BF16, [WF_U4B8] = DT_BF16, [WF_NVFP4] = DT_F8_E4M3, [WF_MXFP4] = DT_U8};
    char name[512];
    l->packing = words ? PACK_WORDS : PACK_BYTES;
    if ((rc = take(w, p, "weight_packed", words ? DT_I32 : DT_U8, l->n, l->k / (words ? 8 : 2), &l->weight, e)))
        return rc;
    enum dtype type = scale_type[s->format];
    snprintf(name, sizeof name, "%s.weight_scale", p);
    const struct tensor *scale = checkpoint_take(&w->checkpoint, name);
    if (words && scale && scale->dtype == DT_F16)
        type = DT_F16;
    if ((rc = take(w, p, "weight_scale", type, l->n, groups, &l->scale, e)) || (rc = check_scales(w, &l->scale, e)))
        return rc;
    if (words) {
        struct tensor shape;
        int64_t has[2];
        if ((rc = take(w, p, "weight_shape", DT_I64, 2, 0, &shape, e)))
            return rc;
        memcpy(has, shape.data, sizeof has);
        if (has[0] != l->n || has[1] != l->k)
            return FAIL(e, E_INPUT, "%s: tensor \"%s\" says [%lld,%lld], config.json wants [%d,%d]",
                        w->checkpoint.folder, shape.name, (long long)has[0], (long long)has[1], l->n, l->k);
    }
    if (s->format == WF_NVFP4) {
        struct tensor g;
        if ((rc = take(w, p, "weight_global_scale", DT_F32, 1, 0, &g, e)))
            return rc;
        memcpy(&l->global_scale, g.data, sizeof l->global_scale);
        if (!isfinite(l->global_scale) || l->global_scale <= 0)
            return FAIL(e, E_INPUT, "%s: tensor \"%s\" is %g, must be finite and positive", w->checkpoint.folder,
                        g.name, (double)l->global_scale);
    }
    return OK;
}

/* Without desc_act the groups lie in order; a g_idx that says otherwise would be read wrongly. */
static int check_group_index(const struct owner *w, const struct linear *l, const struct tensor *index, struct err *e)
{
    for (int i = 0; i < l->k; i++) {
        int32_t has, want = l->group ? i / l->group : 0;
        memcpy(&has, (const char *)index->data + 4 * (size_t)i, sizeof has);
        if (has != want)
            return FAIL(e, E_UNSUPPORTED, "%s: tensor \"%s\": input %d is in group %d, not in order (desc_act)",
                        w->checkpoint.folder, index->name, i, (int)has);
    }
    return OK;
}

static int take_gptq(struct owner *w, const char *p, struct linear *l, struct err *e)
{
    int groups = l->group ? l->k / l->group : 1, rc;
    char name[512];
    struct tensor other;
    l->packing = PACK_GPTQ_K;
    if ((rc = take(w, p, "qweight", DT_I32, l->k / 8, l->n, &l->weight, e)))
        return rc;
    snprintf(name, sizeof name, "%s.scales", p);
    const struct tensor *scale = checkpoint_take(&w->checkpoint, name);
    enum dtype type = scale && scale->dtype == DT_BF16 ? DT_BF16 : DT_F16;
    if ((rc = take(w, p, "scales", type, groups, l->n, &l->scale, e)) || (rc = check_scales(w, &l->scale, e)))
        return rc;
    snprintf(name, sizeof name, "%s.qzeros", p);
    if (checkpoint_has(&w->checkpoint, name) && l->n % 8 == 0 &&
        (rc = take(w, p, "qzeros", DT_I32, groups, l->n / 8, &other, e)))
        return rc;
    snprintf(name, sizeof name, "%s.g_idx", p);
    if (!checkpoint_has(&w->checkpoint, name))
        return OK;
    if ((rc = take(w, p, "g_idx", DT_I32, l->k, 0, &other, e)))
        return rc;
    return check_group_index(w, l, &other, e);
}

static int check_group(const struct owner *w, const char *prefix, struct linear *l, struct err *e)
{
    const struct scheme *s = &w->config.scheme;
    l->format = s->format;
    l->group = s->group;
    if (s->kind == SCHEME_PLAIN)
        return FAIL(e, E_INPUT, "%s: \"%s\" is quantised, but config.json has no quantization_config",
                    w->checkpoint.folder, prefix);
    if (l->k % 8 || (l->group && l->k % l->group))
        return FAIL(e, E_UNSUPPORTED, "%s: \"%s\" has %d inputs, no multiple of %s %d", w->checkpoint.folder, prefix,
                    l->k, l->k % 8 ? "a word of" : "the group", l->k % 8 ? 8 : l->group);
    if (l->format == WF_U4B8 && l->group == l->k)
        l->group = 0; /* one scale a row is the channelwise case of every GEMM */
    return OK;
}

/* Parts of formats in which more than the weights is quantised. */
static int refuse_parts(const struct owner *w, const char *prefix, struct err *e)
{
    static const char *const part[][2] = {
        {"input_global_scale", "activations are quantised too (W4A4)"},
        {"input_scale", "activations are quantised too"},
        {"weight_zero_point", "zero points are not built in"},
        {"weight_g_idx", "activation ordering by group is not built in"},
    };
    char name[512];
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, part[i][0]);
        if (checkpoint_has(&w->checkpoint, name))
            return FAIL(e, E_UNSUPPORTED, "%s: tensor \"%s\": %s", w->checkpoint.folder, name, part[i][1]);
    }
    return OK;
}

/* Writers of GPTQ store a bias of zeros where the architecture has none; engines skip it, and so is it here. */
static int take_bias(struct owner *w, const char *name, struct linear *l, struct err *e)
{
    int rc = take_plain(w, name, l->n, 0, &l->bias, e);
    const uint8_t *p = l->bias.data;
    if (rc || l->packing != PACK_GPTQ_K)
        return rc;
    for (size_t i = 0; i < l->bias.bytes; i++)
        if (p[i])
            return OK;
    l->bias = (struct tensor){0};
    return OK;
}

int take_linear(struct owner *w, const char *prefix, int n, int k, struct linear *l, struct err *e)
{
    char plain[512], packed[512], gptq[512], bias[512];
    int rc = refuse_parts(w, prefix, e);
    if (rc)
        return rc;
    *l = (struct linear){.n = n, .k = k, .format = WF_PLAIN, .packing = PACK_NONE, .global_scale = 1};
    snprintf(plain, sizeof plain, "%s.weight", prefix);
    snprintf(packed, sizeof packed, "%s.weight_packed", prefix);
    snprintf(gptq, sizeof gptq, "%s.qweight", prefix);
    snprintf(bias, sizeof bias, "%s.bias", prefix);
    int is_packed = checkpoint_has(&w->checkpoint, packed), is_gptq = checkpoint_has(&w->checkpoint, gptq);
    if (is_packed + is_gptq + checkpoint_has(&w->checkpoint, plain) > 1)
        return FAIL(e, E_INPUT, "%s: \"%s\" is stored twice, in two formats", w->checkpoint.folder, prefix);
    if (!is_packed && !is_gptq)
        rc = take_plain(w, plain, n, k, &l->weight, e);
    else if ((rc = check_group(w, prefix, l, e)) == OK) {
        if (is_gptq != (w->config.scheme.kind == SCHEME_GPTQ))
            rc = FAIL(e, E_INPUT, "%s: \"%s\" is not stored as quantization_config says", w->checkpoint.folder, prefix);
        else
            rc = is_gptq ? take_gptq(w, prefix, l, e) : take_compressed(w, prefix, l, e);
    }
    if (rc == OK && checkpoint_has(&w->checkpoint, bias))
        rc = take_bias(w, bias, l, e);
    return rc;
}
