/* policy - what a flip must show before a default may change: batteries/policies/NAME.json */
#ifndef ASSAY_GATE_POLICY_H
#define ASSAY_GATE_POLICY_H

#include "harness/gate/flags.h"

enum gate_check {
#define GATE_CHECK(name, section, text) name,
#include "harness/gate/gate_check.def"
#undef GATE_CHECK
    CHECK_COUNT
};

struct policy {
    char name[48], summary[256], path[1024], sha256[65];
    char engine[64], device[16];
    char fixed[8][64];                       /* flag=value words that every arm has */
    int fixeds, recent;                      /* recent: how many flags flipped last are paired */
    const char *not_applicable[CHECK_COUNT]; /* NULL, or the reason why this check has no meaning here */
    const json_t *section[CHECK_COUNT];      /* borrowed from file; NULL where not applicable */
    json_t *file;
};

/* NAME in DIR/batteries/policies, or a path that ends in .json. A policy that leaves a check out without a reason is
 * refused. Caller frees. */
int policy_read(const char *data_dir, const char *name, struct policy *p, struct err *e);
void policy_free(struct policy *p); /* zeroed is fine */

/* A combination of flags: the prospective defaults, or these with one flag changed. */
struct gate_set {
    char label[96];
    int on[FLAGS_MAX];
};

#define GATE_SETS 16

/* set[0] is the prospective default set; one more for each flag of `recent` (names, newest first, repeated ones count
 * once) and of the policy's own pairs, with that flag the other way round. Returns how many. */
int gate_sets(const struct flag_set *flags, const struct policy *p, const struct flag *f, int on,
              const char *const *recent, int recents, struct gate_set *set);
/* Does the flag exist for that policy's engine and device? */
int policy_has(const struct policy *p, const struct flag *f);

const char *gate_check_name(enum gate_check c);

/* What one check found. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_NOT_APPLICABLE,
    OUTCOME_MISSING, /* no evidence, or evidence that a person has not said yes to */
    OUTCOME_VOID,    /* measured, but under conditions that do not count */
    OUTCOME_FAILED,
};

const char *outcome_name(enum outcome o);
/* The decision over all: granted (0) only when every one is ok or not applicable and one at least is ok; else the exit
 * status 1 when one failed, 5 when none failed and one is void, 4 otherwise. */
int gate_decide(const enum outcome *o, int n);

#endif
