/* profile - what a GPU's scheduler and tensor core look like to a GEMM plan; data files batteries/gpus/NAME.json */
#ifndef ASSAY_KERNELS_PROFILE_H
#define ASSAY_KERNELS_PROFILE_H

#include "harness/base/err.h"
#include "harness/base/model.h"

enum activation {
    ACT_BF16,
    ACT_F16,
};

enum evidence {
    EVIDENCE_MEASURED,   /* byte-compared with that GPU */
    EVIDENCE_COMPILED,   /* registers from the compiler, nothing ran there */
    EVIDENCE_DOCUMENTED, /* from documentation only */
};

/* Registers per thread of one kernel instance; decides CTAs per SM of the grouped operator. */
struct register_row {
    enum weight_format format;
    enum activation act;
    int group;   /* 0: channelwise */
    int mb;      /* 0: the 8-row variant, else rows of a block / 16 */
    int regs[3]; /* by place in the tile table */
};

struct gpu_profile {
    char name[32];
    int sms, smem_optin; /* streaming multiprocessors; opt-in shared memory of a block, bytes */
    int sm;              /* compute capability, 90 for 9.0: picks the tensor-core rule */
    int native_code;     /* 1: code generated for sm_90 or later; 0: compute_80 PTX (what vLLM ships for bf16) */
    enum evidence evidence;
    char source[256]; /* where the figures come from, for reports */
    struct register_row *row;
    int rows;
};

/* Reads a profile; `path` is a JSON file. Caller frees with profile_free. */
int profile_read(const char *path, struct gpu_profile *p, struct err *e);
void profile_free(struct gpu_profile *p);

/* Registers of an instance, or 0 when the profile does not know (the caller must not guess). */
int profile_registers(const struct gpu_profile *p, enum weight_format f, enum activation a, int group, int mb,
                      int tile);

const char *activation_name(enum activation a);
int activation_by_name(const char *name); /* -1: unknown */
const char *evidence_name(enum evidence v);

#endif
