#include "harness/bisect/trace.h"

#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/models/safetensors.h"
#include "harness/models/tensor_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEPS_MAX  65536
#define LAYERS_MAX 1024
#define UNPACKED   ((size_t)8 << 30)

/* Which module's output an op is, in the order of execution; %d is the layer. An op with several names takes the first
 * that is there and is written by the last. */
enum place { BEFORE, IN_LAYER, AFTER };
static const struct {
    const char *op, *module;
    enum place place;
} names[] = {
    {"embed", "model.embed_tokens/out", BEFORE},
    {"input_residual", "model.layers.%d.input_layernorm/out1", IN_LAYER},
    {"input_norm", "model.layers.%d.input_layernorm/out0", IN_LAYER},
    {"input_norm", "model.layers.%d.input_layernorm/out", IN_LAYER},
    {"qkv_proj", "model.layers.%d.self_attn.qkv_proj/out0", IN_LAYER},
    {"q_norm", "model.layers.%d.self_attn.q_norm/out", IN_LAYER},
    {"k_norm", "model.layers.%d.self_attn.k_norm/out", IN_LAYER},
    {"rotary_q", "model.layers.%d.self_attn.attn/in0", IN_LAYER},
    {"rotary_k", "model.layers.%d.self_attn.attn/in1", IN_LAYER},
    {"attn", "model.layers.%d.self_attn.attn/out", IN_LAYER},
    {"o_proj", "model.layers.%d.self_attn.o_proj/out0", IN_LAYER},
    {"post_residual", "model.layers.%d.post_attention_layernorm/out1", IN_LAYER},
    {"post_norm", "model.layers.%d.post_attention_layernorm/out0", IN_LAYER},
    {"router", "model.layers.%d.mlp.gate/out0", IN_LAYER},
    {"experts_w13", "model.layers.%d.mlp.experts.w13/out", IN_LAYER},
    {"experts_silu_mul", "model.layers.%d.mlp.experts.act_fn/out", IN_LAYER},
    {"experts_w2", "model.layers.%d.mlp.experts.w2/out", IN_LAYER},
    {"gate_up_proj", "model.layers.%d.mlp.gate_up_proj/out0", IN_LAYER},
    {"silu_mul", "model.layers.%d.mlp.act_fn/out", IN_LAYER},
    {"down_proj", "model.layers.%d.mlp.down_proj/out0", IN_LAYER},
    {"moe", "model.layers.%d.mlp/out", IN_LAYER},
    {"final_residual", "model.norm/out1", AFTER},
    {"final_norm", "model.norm/out0", AFTER},
    {"logits", "logits/out", AFTER},
};
#define NAMES ((int)(sizeof names / sizeof *names))

/* The key of name i; the formats are ours and take at most one %d. */
static void make_key(int i, int step, int layer, char *key, size_t size)
{
    char module[128];
    snprintf(module, sizeof module, names[i].module, layer);
    snprintf(key, size, "step%d/%s", step, module);
}

/* Rows and all that follows them: heads are columns here. */
static int add(struct op_log *l, int step, int layer, const char *op, const struct tensor *t, struct err *e)
{
    int64_t cols = 1;
    for (int i = 1; i < t->rank && i < 4; i++)
        cols = t->shape[i] > 1 << 24 || cols > 1 << 24 ? 1 << 24 : cols * t->shape[i];
    if (t->dtype != DT_BF16 || t->rank < 2 || t->shape[0] < 1 || t->shape[0] >= 1 << 24 || cols < 1 || cols >= 1 << 24)
        return FAIL(e, E_INPUT, "%s: a bf16 matrix is expected", t->name);
    struct op_record x = {.step = step, .layer = layer, .rows = (int)t->shape[0], .cols = (int)cols};
    uint16_t *aligned = malloc(t->bytes ? t->bytes : 1);
    if (!aligned)
        return FAIL(e, E_NOMEM, "out of memory for %s", t->name);
    memcpy(aligned, t->data, t->bytes);
    snprintf(x.op, sizeof x.op, "%s", op);
    x.data = aligned;
    int rc = op_log_add(l, &x, e);
    free(aligned);
    return rc;
}

static int add_all(const struct safetensors *s, int step, int layer, enum place place, struct op_log *l, struct err *e)
{
    const char *last = "";
    for (int i = 0; i < NAMES; i++) {
        char key[192];
        if (names[i].place != place || !strcmp(names[i].op, last))
            continue;
        if (!strcmp(names[i].op, "moe") && !strcmp(last, "down_proj")) /* a dense layer's mlp/out says it again */
            continue;
        make_key(i, step, layer, key, sizeof key);
        const struct tensor *t = safetensors_find(s, key);
        if (!t)
            continue;
        last = names[i].op;
        if (add(l, step, layer, last, t, e))
            return e->code;
    }
    return OK;
}

/* Ids fed in a step: I32 [rows]. *ids NULL: there is no such step. */
static int step_ids(const struct safetensors *s, int step, int32_t **ids, int *n, struct err *e)
{
    char key[64];
    snprintf(key, sizeof key, "step%d/model.embed_tokens/in0", step);
    const struct tensor *t = safetensors_find(s, key);
    *ids = NULL;
    *n = 0;
    if (!t && step)
        return OK;
    if (!t || t->dtype != DT_I32 || t->rank != 1 || t->shape[0] < 1 || t->shape[0] > 1 << 24)
        return FAIL(e, E_INPUT, "%s: missing, or not a list of 32-bit ids", key);
    if (step && t->shape[0] != 1)
        return FAIL(e, E_INPUT, "%s: %lld ids; after the prompt each step feeds one", key, (long long)t->shape[0]);
    *ids = malloc(t->bytes);
    if (!*ids)
        return FAIL(e, E_NOMEM, "out of memory for %zu bytes of ids", t->bytes);
    memcpy(*ids, t->data, t->bytes);
    *n = (int)t->shape[0];
    return OK;
}

static int read_ids(const struct safetensors *s, struct trace *t, struct err *e)
{
    int room = 0;
    if (step_ids(s, 0, &t->prompt, &t->prompts, e))
        return e->code;
    for (int step = 1; step < STEPS_MAX; step++) {
        int32_t *one, *more = t->forced;
        int n;
        if (step_ids(s, step, &one, &n, e))
            return e->code;
        if (!one)
            return OK;
        if (t->forceds == room)
            more = realloc(t->forced, (size_t)(room = 2 * room + 64) * sizeof *more);
        if (more) {
            t->forced = more;
            more[t->forceds++] = *one;
        }
        free(one);
        if (!more)
            return FAIL(e, E_NOMEM, "out of memory for the ids of %d steps", step);
    }
    return OK;
}

/* Layers need not all be there; the largest number counts. */
static int count_layers(const struct safetensors *s)
{
    int layers = 0;
    for (int i = 0; i < s->tensors; i++) {
        const char *at = strstr(s->tensor[i].name, "/model.layers.");
        long layer = at ? strtol(at + strlen("/model.layers."), NULL, 10) : -1;
        if (layer >= layers && layer < LAYERS_MAX)
            layers = (int)layer + 1;
    }
    return layers;
}

static int read_all(const struct safetensors *s, struct trace *t, struct err *e)
{
    int layers = count_layers(s);
    const struct tensor *about = safetensors_find(s, "assay/about");
    if (read_ids(s, t, e))
        return e->code;
    if (about && about->dtype == DT_U8)
        t->about = json_loadb(about->data, about->bytes, JSON_REJECT_DUPLICATES, NULL);
    if (about && !json_is_object(t->about))
        return FAIL(e, E_INPUT, "assay/about: not a JSON object");
    for (int step = 0; step <= t->forceds; step++) {
        if (add_all(s, step, -1, BEFORE, &t->log, e))
            return e->code;
        for (int layer = 0; layer < layers; layer++)
            if (add_all(s, step, layer, IN_LAYER, &t->log, e))
                return e->code;
        if (add_all(s, step, -1, AFTER, &t->log, e))
            return e->code;
    }
    return t->log.n ? OK : FAIL(e, E_INPUT, "no output of an op in it (keys stepS/MODULE/out)");
}

static int is_packed(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".zst");
}

/* A file without a name that holds the bytes; `name` receives a path that opens it while fd is open. */
static int unnamed_file(const void *data, size_t bytes, char *name, size_t size, int *fd, struct err *e)
{
    *fd = memfd_create("trace", MFD_CLOEXEC);
    if (*fd < 0)
        return FAIL(e, E_IO, "no memory file: %s", strerror(errno));
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(*fd, (const char *)data + done, bytes - done);
        if (n < 0)
            return FAIL(e, E_IO, "memory file of %zu bytes: %s", bytes, strerror(errno));
        done += (size_t)n;
    }
    snprintf(name, size, "/proc/self/fd/%d", *fd);
    return OK;
}

int trace_read(const char *path, struct trace *t, struct err *e)
{
    struct safetensors s = {0};
    struct err inner = {0};
    char name[64];
    void *data = NULL;
    size_t bytes;
    int fd = -1, rc;
    if (access(path, R_OK))
        return FAIL(e, E_MISSING, "%s: %s", path, strerror(errno));
    if (!is_packed(path)) {
        if ((rc = safetensors_open(path, &s, e)))
            return rc;
    } else if ((rc = packed_read(path, UNPACKED, &data, &bytes, e))) {
        return rc;
    } else if ((rc = unnamed_file(data, bytes, name, sizeof name, &fd, &inner)) ||
               (rc = safetensors_open(name, &s, &inner))) {
        FAIL(e, rc, "%s: %s", path, inner.text);
        goto out;
    }
    if ((rc = read_all(&s, t, &inner)))
        FAIL(e, rc, "%s: %s", path, inner.text);
out:
    safetensors_close(&s);
    free(data);
    if (fd >= 0)
        close(fd);
    return rc;
}

void trace_free(struct trace *t)
{
    op_log_free(&t->log);
    free(t->prompt);
    free(t->forced);
    json_decref(t->about);
    memset(t, 0, sizeof *t);
}

static int name_of(const struct op_record *x)
{
    for (int i = NAMES - 1; i >= 0; i--)
        if (!strcmp(names[i].op, x->op))
            return i;
    return -1;
}

static int put(struct tensor_list *l, const char *key, enum dtype d, int64_t rows, int64_t cols, const void *data,
               struct err *e)
{
    void *to;
    int rc = tensor_list_new(l, key, d, rows, cols, &to, e);
    if (!rc)
        memcpy(to, data, (size_t)rows * (size_t)(cols ? cols : 1) * (size_t)dtype_bytes(d));
    return rc;
}

static int put_all(const struct trace *t, const char *about, struct tensor_list *l, struct err *e)
{
    char key[192];
    for (int step = 0; step <= t->forceds; step++) {
        snprintf(key, sizeof key, "step%d/model.embed_tokens/in0", step);
        if (put(l, key, DT_I32, step ? 1 : t->prompts, 0, step ? &t->forced[step - 1] : t->prompt, e))
            return e->code;
    }
    for (int i = 0; i < t->log.n; i++) {
        const struct op_record *x = &t->log.record[i];
        int name = name_of(x);
        if (name < 0)
            return FAIL(e, E_INTERNAL, "op %s has no key in a trace", x->op);
        make_key(name, x->step, x->layer, key, sizeof key);
        if (put(l, key, DT_BF16, x->rows, x->cols, x->data, e))
            return e->code;
    }
    return put(l, "assay/about", DT_U8, (int64_t)strlen(about), 0, about, e);
}

/* The writer of safetensors writes files; a packed one is written beside, packed and removed. */
static int write_packed(const char *path, const struct tensor_list *l, struct err *e)
{
    char plain[1024];
    void *data;
    size_t bytes;
    snprintf(plain, sizeof plain, "%.900s.unpacked-%d", path, (int)getpid());
    int rc = safetensors_write(plain, l->tensor, l->tensors, e);
    if (!rc && !(rc = packed_read(plain, UNPACKED, &data, &bytes, e))) {
        rc = packed_write(path, data, bytes, e);
        free(data);
    }
    unlink(plain);
    return rc;
}

int trace_write(const char *path, const struct trace *t, struct err *e)
{
    struct tensor_list l = {0};
    char *about = json_dumps(t->about, JSON_COMPACT | JSON_SORT_KEYS);
    int rc = about ? put_all(t, about, &l, e) : FAIL(e, E_NOMEM, "out of memory");
    if (!rc)
        rc = is_packed(path) ? write_packed(path, &l, e) : safetensors_write(path, l.tensor, l.tensors, e);
    tensor_list_free(&l);
    free(about);
    return rc;
}
