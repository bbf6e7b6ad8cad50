#include "harness/models/gguf.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LIMIT 65535
#define MAX_RANK   4

static const struct type_size {
    int id, block, bytes;
    const char *text;
} types[] = {
#define GGUF_TYPE(name, id, block, bytes, text) {id, block, bytes, text},
#include "harness/models/gguf_type.def"
#undef GGUF_TYPE
};

/* Bytes of a metadata value; 0: variable, -1: no such type. */
static int value_bytes(uint32_t type)
{
    switch (type) {
#define VALUE(name, id, bytes)                                                                                         \
    case id:                                                                                                           \
        return bytes;
#include "harness/models/gguf_value.def"
#undef VALUE
    default: return -1;
    }
}

struct cursor {
    const uint8_t *at, *end;
    const struct gguf *g;
    struct err *e;
};

static int truncated(const struct cursor *c, const char *what)
{
    return FAIL(c->e, E_INPUT, "%s: truncated: %s at byte %zu reaches beyond the end (%zu bytes)", c->g->path, what,
                (size_t)(c->at - (const uint8_t *)c->g->map.data), c->g->map.bytes);
}

static int read_number(struct cursor *c, int bytes, uint64_t *out, const char *what)
{
    uint64_t v = 0;
    if (c->end - c->at < bytes)
        return truncated(c, what);
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | c->at[i];
    c->at += bytes;
    *out = v;
    return OK;
}

static int read_u32(struct cursor *c, uint32_t *out, const char *what)
{
    uint64_t v = 0;
    int rc = read_number(c, 4, &v, what);
    *out = (uint32_t)v;
    return rc;
}

static int skip_string(struct cursor *c, const char *what)
{
    uint64_t n = 0;
    int rc = read_number(c, 8, &n, what);
    if (rc)
        return rc;
    if (n > (uint64_t)(c->end - c->at))
        return truncated(c, what);
    c->at += n;
    return OK;
}

/* A name: copied, not empty, no NUL inside. */
static int read_name(struct cursor *c, char **out, const char *what)
{
    const uint8_t *start = c->at;
    int rc = skip_string(c, what);
    if (rc)
        return rc;
    size_t n = (size_t)(c->at - start - 8);
    if (!n || n > NAME_LIMIT || memchr(start + 8, 0, n))
        return FAIL(c->e, E_INPUT, "%s: %s at byte %zu is empty, absurdly long or holds a NUL", c->g->path, what,
                    (size_t)(start - (const uint8_t *)c->g->map.data));
    if (!(*out = strndup((const char *)start + 8, n)))
        return FAIL(c->e, E_NOMEM, "%s: out of memory", c->g->path);
    return OK;
}

static int skip_value(struct cursor *c, uint32_t type, uint64_t count, const char *name)
{
    int bytes = value_bytes(type), rc = OK;
    if (bytes > 0) {
        if (count > (uint64_t)(c->end - c->at) / (unsigned)bytes)
            return truncated(c, name);
        c->at += count * (unsigned)bytes;
        return OK;
    }
    if (type != GGUF_STRING)
        return FAIL(c->e, E_INPUT, "%s: key \"%.100s\": value type %u is not known", c->g->path, name, type);
    for (uint64_t i = 0; i < count && rc == OK; i++)
        rc = skip_string(c, name);
    return rc;
}

static int read_key(struct cursor *c, struct gguf_key *k)
{
    uint32_t type = 0, element = 0;
    int rc = read_name(c, &k->name, "a key");
    if (rc || (rc = read_u32(c, &type, k->name)))
        return rc;
    k->count = 1;
    if (type == GGUF_ARRAY && ((rc = read_u32(c, &element, k->name)) || (rc = read_number(c, 8, &k->count, k->name))))
        return rc;
    k->data = c->at;
    if ((rc = skip_value(c, type == GGUF_ARRAY ? element : type, k->count, k->name)))
        return rc;
    k->type = (enum gguf_value)type;
    k->element = (enum gguf_value)element;
    return OK;
}

static int set_size(struct cursor *c, struct gguf_tensor *t, uint32_t type)
{
    const struct type_size *s = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].id == type)
            s = &types[i];
    if (!s)
        return FAIL(c->e, E_UNSUPPORTED,
                    "%s: tensor \"%.100s\": type %u is not read (F32, F16, BF16, Q4_1, Q8_0, Q6_K)", c->g->path,
                    t->name, type);
    t->type = (enum gguf_type)type;
    uint64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] <= 0 || __builtin_mul_overflow(count, (uint64_t)t->shape[i], &count) || count > INT64_MAX / 4)
            return FAIL(c->e, E_INPUT, "%s: tensor \"%.100s\": dimension %lld is absurd", c->g->path, t->name,
                        (long long)t->shape[i]);
    if (t->shape[t->rank - 1] % s->block)
        return FAIL(c->e, E_INPUT, "%s: tensor \"%.100s\": rows of %lld are no multiple of a %s block (%d)", c->g->path,
                    t->name, (long long)t->shape[t->rank - 1], s->text, s->block);
    t->bytes = (size_t)(count / (unsigned)s->block) * (unsigned)s->bytes;
    return OK;
}

/* data receives only the offset as yet: the data section's start is not known before the last entry. */
static int read_tensor(struct cursor *c, struct gguf_tensor *t, uint64_t *offset)
{
    uint32_t rank = 0, type = 0;
    uint64_t size = 0;
    int rc = read_name(c, &t->name, "a tensor's name");
    if (rc || (rc = read_u32(c, &rank, t->name)))
        return rc;
    if (rank < 1 || rank > MAX_RANK)
        return FAIL(c->e, E_INPUT, "%s: tensor \"%.100s\" has %u dimensions", c->g->path, t->name, rank);
    t->rank = (int)rank;
    for (int i = t->rank - 1; i >= 0; i--) {
        if ((rc = read_number(c, 8, &size, t->name)))
            return rc;
        t->shape[i] = size > INT64_MAX ? -1 : (int64_t)size;
    }
    if ((rc = read_u32(c, &type, t->name)) || (rc = read_number(c, 8, offset, t->name)))
        return rc;
    return set_size(c, t, type);
}

static int key_order(const void *a, const void *b)
{
    return strcmp(((const struct gguf_key *)a)->name, ((const struct gguf_key *)b)->name);
}

static int tensor_order(const void *a, const void *b)
{
    return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int place_order(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a, *y = *(const struct gguf_tensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static int check_overlap(const struct gguf *g, struct err *e)
{
    int rc = OK;
    const struct gguf_tensor **t = malloc(((size_t)g->tensors + 1) * sizeof(struct gguf_tensor *));
    if (!t)
        return FAIL(e, E_NOMEM, "%s: out of memory", g->path);
    for (int i = 0; i < g->tensors; i++)
        t[i] = &g->tensor[i];
    qsort(t, (size_t)g->tensors, sizeof *t, place_order);
    for (int i = 1; i < g->tensors && rc == OK; i++)
        if (t[i]->data < t[i - 1]->data + t[i - 1]->bytes)
            rc = FAIL(e, E_INPUT, "%s: tensors \"%.100s\" and \"%.100s\" overlap", g->path, t[i - 1]->name, t[i]->name);
    free(t);
    return rc;
}

static int check_names(const struct gguf *g, struct err *e)
{
    for (int i = 1; i < g->keys; i++)
        if (!key_order(&g->key[i - 1], &g->key[i]))
            return FAIL(e, E_INPUT, "%s: key \"%.100s\" is there twice", g->path, g->key[i].name);
    for (int i = 1; i < g->tensors; i++)
        if (!tensor_order(&g->tensor[i - 1], &g->tensor[i]))
            return FAIL(e, E_INPUT, "%s: tensor \"%.100s\" is there twice", g->path, g->tensor[i].name);
    return OK;
}

/* Offsets count from the aligned end of the tensor list. */
static int place_tensors(struct cursor *c, struct gguf *g, const uint64_t *offset)
{
    int64_t alignment = 32;
    const uint8_t *start = g->map.data;
    int rc = OK;
    if (gguf_key(g, "general.alignment") && (rc = gguf_int(g, "general.alignment", 1, 1 << 20, &alignment, c->e)))
        return rc;
    if (alignment & (alignment - 1))
        return FAIL(c->e, E_INPUT, "%s: general.alignment %lld is no power of two", g->path, (long long)alignment);
    size_t base = ((size_t)(c->at - start) + (size_t)alignment - 1) & ~((size_t)alignment - 1);
    for (int i = 0; i < g->tensors; i++) {
        struct gguf_tensor *t = &g->tensor[i];
        size_t room = base <= g->map.bytes ? g->map.bytes - base : 0;
        if (offset[i] % (uint64_t)alignment)
            return FAIL(c->e, E_INPUT, "%s: tensor \"%.100s\" lies at %llu, not aligned to %lld", g->path, t->name,
                        (unsigned long long)offset[i], (long long)alignment);
        if (offset[i] > room || t->bytes > room - offset[i])
            return FAIL(c->e, E_INPUT, "%s: tensor \"%.100s\": %zu bytes at %llu reach beyond the %zu bytes of data",
                        g->path, t->name, t->bytes, (unsigned long long)offset[i], room);
        t->data = start + base + offset[i];
    }
    return OK;
}

static int parse(struct cursor *c, struct gguf *g)
{
    uint32_t version = 0;
    uint64_t tensors = 0, keys = 0, *offset = NULL;
    int rc;
    if (c->end - c->at < 4 || memcmp(c->at, "GGUF", 4))
        return FAIL(c->e, E_INPUT, "%s: not a GGUF file", g->path);
    c->at += 4;
    if ((rc = read_u32(c, &version, "the version")))
        return rc;
    if (version != 2 && version != 3)
        return FAIL(c->e, E_UNSUPPORTED, "%s: GGUF version %u is not read, only 2 and 3", g->path, version);
    if ((rc = read_number(c, 8, &tensors, "the header")) || (rc = read_number(c, 8, &keys, "the header")))
        return rc;
    /* an entry takes at least 12 bytes: so counts beyond the file are refused before memory is asked for */
    if (tensors > g->map.bytes / 12 || keys > g->map.bytes / 12 || tensors > 1 << 24 || keys > 1 << 24)
        return FAIL(c->e, E_INPUT, "%s: %llu tensors and %llu keys are absurd for %zu bytes", g->path,
                    (unsigned long long)tensors, (unsigned long long)keys, g->map.bytes);
    g->key = calloc(keys + 1, sizeof *g->key);
    g->tensor = calloc(tensors + 1, sizeof *g->tensor);
    offset = calloc(tensors + 1, sizeof *offset);
    if (!g->key || !g->tensor || !offset)
        rc = FAIL(c->e, E_NOMEM, "%s: out of memory", g->path);
    for (uint64_t i = 0; i < keys && rc == OK; i++, g->keys++)
        rc = read_key(c, &g->key[i]);
    if (rc == OK)
        qsort(g->key, (size_t)g->keys, sizeof *g->key, key_order);
    for (uint64_t i = 0; i < tensors && rc == OK; i++, g->tensors++)
        rc = read_tensor(c, &g->tensor[i], &offset[i]);
    if (rc == OK && (rc = place_tensors(c, g, offset)) == OK) {
        qsort(g->tensor, (size_t)g->tensors, sizeof *g->tensor, tensor_order);
        if ((rc = check_names(g, c->e)) == OK)
            rc = check_overlap(g, c->e);
    }
    free(offset);
    return rc;
}

int gguf_open(const char *path, struct gguf *g, struct err *e)
{
    memset(g, 0, sizeof *g);
    int rc = mapped_open(path, &g->map, e);
    if (rc)
        return rc;
    strncpy(g->path, path, sizeof g->path - 1);
    struct cursor c = {g->map.data, (const uint8_t *)g->map.data + g->map.bytes, g, e};
    if ((rc = parse(&c, g)))
        gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g)
{
    for (int i = 0; g->key && g->key[i].name; i++)
        free(g->key[i].name);
    for (int i = 0; g->tensor && g->tensor[i].name; i++)
        free(g->tensor[i].name);
    free(g->key);
    free(g->tensor);
    mapped_close(&g->map);
    memset(g, 0, sizeof *g);
}

const struct gguf_key *gguf_key(const struct gguf *g, const char *name)
{
    const struct gguf_key want = {.name = (char *)(size_t)name};
    return g->keys ? bsearch(&want, g->key, (size_t)g->keys, sizeof want, key_order) : NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    const struct gguf_tensor want = {.name = (char *)(size_t)name};
    return g->tensors ? bsearch(&want, g->tensor, (size_t)g->tensors, sizeof want, tensor_order) : NULL;
}
