/* Weights of the native engine: merged as vLLM merges them, packed once. */
#include "goldens/exchange.h"
#include "harness/native/native.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct owned {
    struct owned *next;
    void *data;
};

static void *own(struct native *n, void *data)
{
    struct owned *o = data ? malloc(sizeof *o) : NULL;
    if (!o) {
        free(data);
        return NULL;
    }
    *o = (struct owned){n->owned, data};
    n->owned = o;
    return data;
}

static int pack(struct native *n, const struct linear *const *part, int parts, float max_scale, struct packed_weight *w,
                struct err *e)
{
    struct weight_source s = {.parts = parts, .nvfp4_max_scale = max_scale};
    for (int i = 0; i < parts; i++)
        s.part[i] = part[i];
    s.scale_shift = n->o.mutation.scale_group;
    size_t bytes = weight_bytes(&s, n->o.decoded);
    void *memory = own(n, aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (!memory)
        return FAIL(e, E_NOMEM, "out of memory for %zu bytes of weights", bytes);
    n->weight_bytes += bytes;
    return weight_pack(&s, ACT_BF16, n->o.decoded, memory, w, e);
}

static int pack_one(struct native *n, const struct linear *l, struct packed_weight *w, struct err *e)
{
    return pack(n, &l, 1, 0, w, e);
}

/* One NVFP4 factor over all experts of a stack; the gate's global scale stands for the merged w13. */
static int pack_experts(struct native *n, const struct layer *l, struct native_layer *out, struct err *e)
{
    int experts = n->model->config.experts;
    float most13 = 0, most2 = 0;
    out->w13 = own(n, calloc((size_t)experts, sizeof *out->w13));
    out->w2 = own(n, calloc((size_t)experts, sizeof *out->w2));
    if (!out->w13 || !out->w2)
        return FAIL(e, E_NOMEM, "out of memory for %d experts", experts);
    for (int i = 0; i < experts; i++) {
        struct weight_source s13 = {.part = {&l->experts[i].gate, &l->experts[i].up}, .parts = 2};
        struct weight_source s2 = {.part = {&l->experts[i].down}, .parts = 1};
        most13 = fmaxf(most13, weight_max_scale(&s13));
        most2 = fmaxf(most2, weight_max_scale(&s2));
    }
    for (int i = 0; i < experts; i++) {
        struct linear up = l->experts[i].up;
        up.global_scale = l->experts[i].gate.global_scale;
        const struct linear *w13[2] = {&l->experts[i].gate, &up}, *w2[1] = {&l->experts[i].down};
        if (pack(n, w13, 2, most13, &out->w13[i], e) || pack(n, w2, 1, most2, &out->w2[i], e))
            return e->code;
    }
    return pack_one(n, &l->router, &out->router, e);
}

static int pack_layer(struct native *n, const struct layer *l, struct native_layer *out, struct err *e)
{
    const struct linear *qkv[3] = {&l->q, &l->k, &l->v}, *gate_up[2] = {&l->gate, &l->up};
    if (pack(n, qkv, 3, 0, &out->qkv, e) || pack_one(n, &l->o, &out->o, e))
        return e->code;
    if (l->experts)
        return pack_experts(n, l, out, e);
    if (pack(n, gate_up, 2, 0, &out->gate_up, e) || pack_one(n, &l->down, &out->down, e))
        return e->code;
    return OK;
}

/* tables_sha256: the hash of what it was and of this file's name and hash. */
static int add_table(struct native *n, const char *path, struct err *e)
{
    char file[SHA256_HEX_SIZE];
    uint8_t hash[SHA256_BYTES];
    const char *name = strrchr(path, '/');
    if (sha256_file(path, file, e))
        return e->code;
    struct sha256 *h = sha256_new();
    if (!h)
        return FAIL(e, E_NOMEM, "out of memory");
    sha256_add(h, n->tables_sha256, strlen(n->tables_sha256));
    sha256_add(h, name, strlen(name) + 1);
    sha256_add(h, file, strlen(file));
    sha256_end(h, hash);
    sha256_hex(hash, n->tables_sha256);
    return OK;
}

static int read_table(struct native *n, const char *data_dir, const char *name, size_t entries, const int8_t **out,
                      struct err *e)
{
    char path[1024];
    void *data;
    size_t bytes;
    snprintf(path, sizeof path, "%s/kernels/tables/%s", data_dir, name);
    if (packed_read(path, entries + 1, &data, &bytes, e))
        return e->code;
    if (!own(n, data))
        return FAIL(e, E_NOMEM, "out of memory for %s", path);
    if (bytes != entries)
        return FAIL(e, E_INPUT, "%s: %zu entries, %zu expected", path, bytes, entries);
    *out = data;
    return add_table(n, path, e);
}

static uint16_t round_bf16(double x)
{
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Rows that no measured table covers: the CPU's functions give the GPU's bf16 but for a few entries in 10^5. */
static int compute_rope(struct native *n, int rows, struct err *e)
{
    int d = n->model->config.head_dim;
    n->rope = own(n, malloc((size_t)rows * (size_t)d * sizeof *n->rope));
    if (!n->rope)
        return FAIL(e, E_NOMEM, "out of memory for %d rotary rows", rows);
    for (int i = 0; i < d / 2; i++) {
        float power = (float)pow(n->model->config.rope_theta, (double)(2.0f * (float)i / (float)d));
        float frequency = 1.0f / power;
        for (int p = 0; p < rows; p++) {
            float phase = (float)p * frequency;
            n->rope[(size_t)p * (size_t)d + (size_t)i] = round_bf16(cos((double)phase));
            n->rope[(size_t)p * (size_t)d + (size_t)(i + d / 2)] = round_bf16(sin((double)phase));
        }
    }
    n->rope_rows = rows;
    return OK;
}

static int read_rope(struct native *n, const char *data_dir, struct err *e)
{
    const struct model_config *c = &n->model->config;
    static const int known_rows[] = {512, 8192};
    for (size_t i = 0; i < sizeof known_rows / sizeof *known_rows; i++) {
        char path[1024];
        void *data;
        size_t bytes, want = (size_t)known_rows[i] * (size_t)c->head_dim * 2;
        struct err none = {0};
        snprintf(path, sizeof path, "%s/kernels/tables/rope_%.0f_%d_%d.bf16.zst", data_dir, c->rope_theta, c->head_dim,
                 known_rows[i]);
        if (packed_read(path, want + 1, &data, &bytes, &none)) {
            if (none.code == E_MISSING)
                continue;
            return FAIL(e, none.code, "%s", none.text);
        }
        if (!own(n, data) || bytes != want)
            return FAIL(e, E_INPUT, "%s: %zu bytes, %zu expected", path, bytes, want);
        n->rope = data;
        n->rope_rows = known_rows[i];
        n->rope_measured = 1;
        return add_table(n, path, e);
    }
    return compute_rope(n, c->max_positions, e);
}

static int check_config(const struct model *m, struct err *e)
{
    const struct model_config *c = &m->config;
    if (c->head_dim != HEAD_DIM)
        return FAIL(e, E_UNSUPPORTED, "%s: head_dim %d; the native engine knows attention for %d only", m->path,
                    c->head_dim, HEAD_DIM);
    if (c->hidden % 16 || c->kv_heads < 1 || c->heads % c->kv_heads)
        return FAIL(e, E_UNSUPPORTED, "%s: hidden %d must be a multiple of 16 and heads %d of kv_heads %d", m->path,
                    c->hidden, c->heads, c->kv_heads);
    return OK;
}

int native_open(const struct model *m, const char *data_dir, const char *gpu, const struct native_options *o,
                struct native **out, struct err *e)
{
    char path[1024];
    const int8_t *ex2, *rcp, *rsq, *lg2;
    if (check_config(m, e))
        return e->code;
    struct native *n = calloc(1, sizeof *n);
    if (!n)
        return FAIL(e, E_NOMEM, "out of memory");
    n->model = m;
    n->o = *o;
    snprintf(path, sizeof path, "%s/batteries/gpus/%s.json", data_dir, gpu);
    if (profile_read(path, &n->gpu, e) || sha256_file(path, n->profile_sha256, e) ||
        read_table(n, data_dir, "ex2.i8.zst", HW_EX2_ENTRIES, &ex2, e) ||
        read_table(n, data_dir, "rcp.i8.zst", HW_RCP_ENTRIES, &rcp, e) ||
        read_table(n, data_dir, "rsq.i8.zst", HW_RSQ_ENTRIES, &rsq, e) ||
        read_table(n, data_dir, "lg2.i32i8i16.zst", HW_LG2_BYTES, &lg2, e) || read_rope(n, data_dir, e))
        goto out;
    hw_init(&n->hw, ex2, rcp, rsq, lg2);
    n->silu = own(n, malloc(65536 * sizeof *n->silu));
    n->layer = own(n, calloc((size_t)m->config.layers, sizeof *n->layer));
    if (!n->silu || !n->layer) {
        FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    op_silu_table(n->silu);
    for (int i = 0; i < m->config.layers; i++)
        if (pack_layer(n, &m->layer[i], &n->layer[i], e)) {
            err_prefix(e, "%s: layer %d", m->path, i);
            goto out;
        }
    if (pack_one(n, &m->head, &n->head, e))
        goto out;
    *out = n;
    return OK;
out:
    native_close(n);
    return e->code;
}

void native_close(struct native *n)
{
    if (!n)
        return;
    while (n->owned) {
        struct owned *o = n->owned;
        n->owned = o->next;
        free(o->data);
        free(o);
    }
    profile_free(&n->gpu);
    free(n);
}
