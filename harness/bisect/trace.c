/* A recorded trace of vLLM's modules as an op log. */
#include "harness/base/json.h"
#include "harness/bisect/oplog.h"
#include "harness/models/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which module's output an op of ours is; %d is the layer. Ops with several names take the first that is there. */
static const struct {
    const char *op, *module;
    int in_layer;
} names[] = {
    {"embed", "model.embed_tokens/out", 0},
    {"input_norm", "model.layers.%d.input_layernorm/out", 1},
    {"input_norm", "model.layers.%d.input_layernorm/out0", 1},
    {"qkv_proj", "model.layers.%d.self_attn.qkv_proj/out0", 1},
    {"rotary_q", "model.layers.%d.self_attn.attn/in0", 1},
    {"rotary_k", "model.layers.%d.self_attn.attn/in1", 1},
    {"attn", "model.layers.%d.self_attn.attn/out", 1},
    {"o_proj", "model.layers.%d.self_attn.o_proj/out0", 1},
    {"post_norm", "model.layers.%d.post_attention_layernorm/out0", 1},
    {"router", "model.layers.%d.mlp.gate/out0", 1},
    {"moe", "model.layers.%d.mlp/out", 1},
    {"gate_up_proj", "model.layers.%d.mlp.gate_up_proj/out0", 1},
    {"silu_mul", "model.layers.%d.mlp.act_fn/out", 1},
    {"down_proj", "model.layers.%d.mlp.down_proj/out0", 1},
    {"final_norm", "model.norm/out0", 0},
    {"logits", "logits/out", 0},
};

static int add(struct op_log *l, int step, int layer, const char *op, const struct tensor *t, struct err *e)
{
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        struct op_record *p = realloc(l->record, (size_t)room * sizeof *p);
        if (!p)
            return FAIL(e, E_NOMEM, "out of memory for %d ops", room);
        l->record = p;
        l->room = room;
    }
    if (t->dtype != DT_BF16 || t->rank != 2 || t->shape[0] > 1 << 20 || t->shape[1] > 1 << 20)
        return FAIL(e, E_INPUT, "%s: a bf16 matrix is expected", t->name);
    struct op_record *x = &l->record[l->n];
    *x = (struct op_record){.step = step, .layer = layer, .rows = (int)t->shape[0], .cols = (int)t->shape[1]};
    snprintf(x->op, sizeof x->op, "%s", op);
    x->data = malloc(t->bytes ? t->bytes : 1);
    if (!x->data)
        return FAIL(e, E_NOMEM, "out of memory for %s", t->name);
    memcpy(x->data, t->data, t->bytes);
    l->n++;
    return OK;
}

static int add_all(const struct safetensors *s, int step, int layer, struct op_log *l, int *found, struct err *e)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char module[128], key[160];
        if (names[i].in_layer != (layer >= 0))
            continue;
        snprintf(module, sizeof module, names[i].module, layer); /* the format is ours, at most one %d */
        snprintf(key, sizeof key, "step%d/%s", step, module);
        const struct tensor *t = safetensors_find(s, key);
        if (!t)
            continue;
        *found = 1;
        if (add(l, step, layer, names[i].op, t, e))
            return e->code;
    }
    return OK;
}

/* Ids fed in a step: I32 [rows]. */
static int step_ids(const struct safetensors *s, int step, int32_t **ids, int *n, struct err *e)
{
    char key[64];
    snprintf(key, sizeof key, "step%d/model.embed_tokens/in0", step);
    const struct tensor *t = safetensors_find(s, key);
    if (!t || t->dtype != DT_I32 || t->rank != 1)
        return FAIL(e, E_INPUT, "%s: missing, or not a list of 32-bit ids", key);
    *ids = malloc(t->bytes ? t->bytes : 1);
    if (!*ids)
        return FAIL(e, E_NOMEM, "out of memory");
    memcpy(*ids, t->data, t->bytes);
    *n = (int)t->shape[0];
    return OK;
}

static int read_steps(const struct safetensors *s, const char *path, struct op_log *out, struct err *e)
{
    int found = 1;
    for (int step = 0; found; step++) {
        found = 0;
        if (add_all(s, step, -1, out, &found, e))
            return err_prefix(e, "%s", path);
        for (int layer = 0, more = found; more; layer++) {
            more = 0;
            if (add_all(s, step, layer, out, &more, e))
                return err_prefix(e, "%s", path);
        }
    }
    return out->n ? OK : FAIL(e, E_INPUT, "%s: no step of a trace in it (keys stepS/MODULE/out)", path);
}

int op_log_trace(const char *path, struct op_log *out, int32_t **prompt, int *prompts, struct err *e)
{
    struct safetensors s;
    if (safetensors_open(path, &s, e))
        return e->code;
    int rc = read_steps(&s, path, out, e);
    if (!rc && (rc = step_ids(&s, 0, prompt, prompts, e)))
        err_prefix(e, "%s", path);
    safetensors_close(&s);
    return rc;
}

int op_trace_forced(const char *path, int32_t **ids, int *n, struct err *e)
{
    struct safetensors s;
    if (safetensors_open(path, &s, e))
        return e->code;
    *ids = calloc(4096, sizeof **ids);
    *n = 0;
    for (int step = 1; *ids && step < 4096; step++) {
        struct err last = {0};
        int32_t *one;
        int rows;
        if (step_ids(&s, step, &one, &rows, &last))
            break;
        if (rows == 1)
            (*ids)[(*n)++] = one[0];
        free(one);
    }
    safetensors_close(&s);
    return *ids ? OK : FAIL(e, E_NOMEM, "out of memory");
}
