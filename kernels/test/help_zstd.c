#include "kernels/test/help_zstd.h"

#include "harness/base/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

char *help_unzstd(const char *path, size_t *bytes)
{
    struct err e = {0};
    struct mapped m;
    if (mapped_open(path, &m, &e)) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    *bytes = (size_t)ZSTD_getFrameContentSize(m.data, m.bytes);
    char *out = malloc(*bytes + 1);
    if (!out || ZSTD_decompress(out, *bytes, m.data, m.bytes) != *bytes) {
        fprintf(stderr, "%s: damaged\n", path);
        abort();
    }
    out[*bytes] = 0;
    mapped_close(&m);
    return out;
}
