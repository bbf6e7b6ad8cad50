/* dtype - element types of tensors */
#ifndef ASSAY_BASE_DTYPE_H
#define ASSAY_BASE_DTYPE_H

enum dtype {
#define DTYPE(name, bytes, text) name,
#include "harness/base/dtype.def"
#undef DTYPE
    DT_COUNT
};

static inline int dtype_bytes(enum dtype d)
{
    static const int bytes[] = {
#define DTYPE(name, bytes, text) bytes,
#include "harness/base/dtype.def"
#undef DTYPE
    };
    return bytes[d];
}

static inline const char *dtype_name(enum dtype d)
{
    static const char *const names[] = {
#define DTYPE(name, bytes, text) text,
#include "harness/base/dtype.def"
#undef DTYPE
    };
    return names[d];
}

#endif
