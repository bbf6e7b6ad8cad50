/* vllmcpp - golden folders of vllm.cpp: greedy_ids, greedy_dist, our_ids, neartie_gap_mnats, pN_prompt.i32 */
#ifndef ASSAY_GOLDENS_VLLMCPP_H
#define ASSAY_GOLDENS_VLLMCPP_H

#include "harness/base/golden.h"

struct vllmcpp_root {
    int prompt, position;
    int32_t oracle_id, arm_id;
    int gap_mnats;
};

struct vllmcpp {
    int prompts, tokens, runs;     /* N, T, K */
    int strict_prompts, divergent; /* prompts without a difference; positions that differ */
    int multi_valued;              /* cells in which the K runs disagree */
    int roots;
    struct vllmcpp_root *root; /* owned */
    int traps;                 /* positions at which the equal token has a gap all the same */
    struct vllmcpp_root *trap; /* owned */
    int outside;               /* gaps that only say "outside the oracle's list" */
    int grid_mnats;            /* every gap is a multiple of about 1000/32; 0: no gap to tell it from */
    struct golden *golden;     /* ids of run 0 with their prompts; no lists of logits */
};

/* variant: "" or "_metal". The golden's model and battery are named after the folder. Caller frees. */
int vllmcpp_read(const char *folder, const char *variant, struct vllmcpp *v, struct err *e);
/* The report: every number, and where integer milli-nats hide the truth. */
json_t *vllmcpp_json(const struct vllmcpp *v);
void vllmcpp_free(struct vllmcpp *v); /* zeroed is fine */

#endif
