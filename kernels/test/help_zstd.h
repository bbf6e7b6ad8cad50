/* help_zstd - a zstd file of the tests, unpacked */
#ifndef ASSAY_KERNELS_TEST_HELP_ZSTD_H
#define ASSAY_KERNELS_TEST_HELP_ZSTD_H

#include <stddef.h>

/* The whole file, a zero byte after it; aborts the test when it cannot be read. Caller frees. */
char *help_unzstd(const char *path, size_t *bytes);

#endif
