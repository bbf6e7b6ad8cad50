/* bench - one thing that `assay bench` measures: a file tools/bench_NAME.c that defines BENCH(NAME) */
#ifndef ASSAY_TOOLS_BENCH_H
#define ASSAY_TOOLS_BENCH_H

#include "tools/command.h"

/* As a verb is: .name "bench NAME" (for messages), .summary, .usage, .order; argv[0] of run is NAME. */
#define BENCH(NAME) const struct command bench_of_##NAME

extern const struct command *const bench_of_all[]; /* NULL-terminated, made by the Makefile */

#endif
