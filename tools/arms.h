/* arms - engines of one command line: each --arm E with the flag=value words behind it */
#ifndef ASSAY_TOOLS_ARMS_H
#define ASSAY_TOOLS_ARMS_H

#include "harness/base/err.h"

#define ARMS_MAX 2

struct arm_words {
    const char *engine;
    char **flag; /* within argv */
    int flags;
};

/* Takes the arms out of argv (argc shrinks; argv's words are reordered). Returns how many there are; more than ARMS_MAX
 * or an --arm without a name is E_USAGE, and -1. */
int arms_take(int *argc, char **argv, struct arm_words arm[ARMS_MAX], struct err *e);

#endif
