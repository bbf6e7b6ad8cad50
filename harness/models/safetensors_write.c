#include "harness/models/safetensors.h"

#include "harness/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The safetensors library sorts by its own list of types, last first, then by name: so every tensor is aligned. */
static int rank_of(enum dtype d)
{
    static const int rank[DT_COUNT] = {
        [DT_BOOL] = 0, [DT_U8] = 1,  [DT_I8] = 2,  [DT_F8_E4M3] = 3, [DT_I16] = 4, [DT_F16] = 5,
        [DT_BF16] = 6, [DT_I32] = 7, [DT_F32] = 8, [DT_F64] = 9,     [DT_I64] = 10};
    return rank[d];
}

static int order(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a, *y = *(const struct tensor *const *)b;
    int dx = rank_of(x->dtype), dy = rank_of(y->dtype);
    return dx != dy ? dy - dx : strcmp(x->name, y->name);
}

static int write_header(FILE *f, const struct tensor *const *t, int n)
{
    size_t at = 0;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", f);
    for (int i = 0; i < n; i++) {
        json_t *name = json_string(t[i]->name);
        char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        json_decref(name);
        if (!quoted)
            return 0;
        fprintf(f, ",%s:{\"dtype\":\"%s\",\"shape\":[", quoted, dtype_name(t[i]->dtype));
        free(quoted);
        for (int k = 0; k < t[i]->rank; k++)
            fprintf(f, "%s%lld", k ? "," : "", (long long)t[i]->shape[k]);
        fprintf(f, "],\"data_offsets\":[%zu,%zu]}", at, at + t[i]->bytes);
        at += t[i]->bytes;
    }
    fputs("}", f);
    return !ferror(f);
}

static int write_all(FILE *f, const struct tensor *const *t, int n)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *header = open_memstream(&text, &bytes);
    if (!header)
        return 0;
    int good = write_header(header, t, n);
    good = !fclose(header) && good;
    size_t padded = (bytes + 7) / 8 * 8;
    for (int i = 0; good && i < 8; i++)
        putc((int)((uint64_t)padded >> 8 * i & 0xff), f);
    good = good && fwrite(text, 1, bytes, f) == bytes;
    for (size_t i = bytes; good && i < padded; i++)
        putc(' ', f);
    for (int i = 0; good && i < n; i++)
        good = fwrite(t[i]->data, 1, t[i]->bytes, f) == t[i]->bytes;
    free(text);
    return good && !ferror(f);
}

int safetensors_write(const char *path, const struct tensor *t, int n, struct err *e)
{
    char temporary[1024];
    int rc = OK;
    snprintf(temporary, sizeof temporary, "%s.partial", path);
    const struct tensor **sorted = malloc(((size_t)n + 1) * sizeof(struct tensor *));
    FILE *f = sorted ? fopen(temporary, "wb") : NULL;
    if (!f) {
        rc = FAIL(e, sorted ? E_IO : E_NOMEM, "%s: %s", temporary, strerror(errno));
        goto out;
    }
    for (int i = 0; i < n; i++)
        sorted[i] = &t[i];
    qsort(sorted, (size_t)n, sizeof *sorted, order);
    int good = write_all(f, sorted, n);
    good = !fclose(f) && good;
    if (!good || rename(temporary, path)) {
        rc = FAIL(e, E_IO, "%s: cannot write: %s", path, strerror(errno));
        unlink(temporary);
    }
out:
    free(sorted);
    return rc;
}
