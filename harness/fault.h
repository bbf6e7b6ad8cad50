/* fault - a deliberately wrong adapter or golden: mistakes that sit around the engine, not in its kernels
 *
 * A file harness/faults/fault_NAME.c defines FAULT(NAME). Each hook returns how often it changed something: a fault
 * that was never applied proves nothing.
 */
#ifndef ASSAY_FAULT_H
#define ASSAY_FAULT_H

#include "harness/engine.h"

struct fault {
    const char *name, *summary;
    const char *where; /* adapter, golden */
    int control;       /* 1: an inverted control: applied, changes nothing that counts, must survive */
    /* At least one; NULL: that side is left alone. */
    int (*ask)(struct engine_request *q, struct sequence *seq); /* before the engine is asked; q->seq is seq, a copy */
    int (*answer)(const struct engine_request *q, struct stream *answers); /* what the engine said */
    int (*golden)(struct golden *g);                                       /* what the oracle said */
};

#define FAULT(NAME) const struct fault fault_##NAME

extern const struct fault *const fault_all[];     /* NULL-terminated, made by the Makefile */
const struct fault *fault_find(const char *name); /* NULL: none of that name */

/* Puts the fault between the engine and whoever asks; its counter is mutant_applied, its name stands in the arm. Takes
 * the engine over, also when it fails. */
int fault_wrap(const struct fault *f, struct engine *inner, struct engine **out, struct err *e);

#endif
