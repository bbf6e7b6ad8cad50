/* growth_svg - the growth of store, memory and time as a drawing that stands alone */
#ifndef ASSAY_TOOLS_GROWTH_SVG_H
#define ASSAY_TOOLS_GROWTH_SVG_H

#include "harness/base/err.h"

#include <jansson.h>

/* report: of bench_growth. Both axes are logarithmic. */
int growth_svg(const char *path, const json_t *report, struct err *e);

#endif
