/* verdict - names of the closed lists of verdicts */
#ifndef ASSAY_BASE_VERDICT_H
#define ASSAY_BASE_VERDICT_H

enum verdict {
#define VERDICT(name, benign, text) V_##name,
#include "harness/base/verdict.def"
#undef VERDICT
    V_COUNT
};

enum run_verdict {
#define RUN_VERDICT(name, status, text) RV_##name,
#include "harness/base/run_verdict.def"
#undef RUN_VERDICT
    RV_COUNT
};

const char *verdict_name(enum verdict v);
const char *verdict_text(enum verdict v);
int verdict_is_benign(enum verdict v);
/* V_COUNT when the name is unknown. */
enum verdict verdict_by_name(const char *name);

const char *run_verdict_name(enum run_verdict v);
const char *run_verdict_text(enum run_verdict v);
/* strict turns PASS_BY_RAZOR into status 1. */
int run_verdict_exit_status(enum run_verdict v, int strict);
enum run_verdict run_verdict_by_name(const char *name);

#endif
