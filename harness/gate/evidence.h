/* evidence - what tools/gpu-gate.sh found on a GPU machine, read from the file that it wrote
 *
 * Such a file names its step, GPU, commit, and the hash of the kernel sources that were tested. It counts while these
 * sources are what lies in DIR; else it is evidence of something else.
 */
#ifndef ASSAY_GATE_EVIDENCE_H
#define ASSAY_GATE_EVIDENCE_H

#include "harness/gate/policy.h"

struct finding {
    enum outcome
        outcome;    /* OUTCOME_OK, OUTCOME_MISSING or OUTCOME_FAILED, never an error: what cannot be read is none */
    char text[480]; /* what was found, or what is missing, with the file's name */
};

/* c: CHECK_MEMORY wants the step "sanitizer", CHECK_GRAPH "steady". path is relative to data_dir. gpu: the GPU that it
 * must be of; NULL or "": any. */
void evidence_judge(const char *data_dir, const char *path, enum gate_check c, const char *gpu, struct finding *f);

/* SHA-256 over the bytes of DIR/kernels/cuda, *.cu and *.cuh, in the order of their names: what gpu-gate.sh calls
 * kernel_sources_sha256. E_MISSING when there are none. */
int evidence_sources(const char *data_dir, char sha256[65], struct err *e);

#endif
