#include "harness/base/verdict.h"

#include <string.h>

static const struct {
    const char *name, *text;
    int benign;
} verdicts[] = {
#define VERDICT(name, benign, text) {#name, text, benign},
#include "harness/base/verdict.def"
#undef VERDICT
};

static const struct {
    const char *name, *text;
    int status;
} runs[] = {
#define RUN_VERDICT(name, status, text) {#name, text, status},
#include "harness/base/run_verdict.def"
#undef RUN_VERDICT
};

const char *verdict_name(enum verdict v)
{
    return v < V_COUNT ? verdicts[v].name : "?";
}

const char *verdict_text(enum verdict v)
{
    return v < V_COUNT ? verdicts[v].text : "?";
}

int verdict_is_benign(enum verdict v)
{
    return v < V_COUNT && verdicts[v].benign;
}

enum verdict verdict_by_name(const char *name)
{
    int v = 0;
    while (v < V_COUNT && strcmp(name, verdicts[v].name))
        v++;
    return v;
}

const char *run_verdict_name(enum run_verdict v)
{
    return v < RV_COUNT ? runs[v].name : "?";
}

const char *run_verdict_text(enum run_verdict v)
{
    return v < RV_COUNT ? runs[v].text : "?";
}

int run_verdict_exit_status(enum run_verdict v, int strict)
{
    if (v == RV_PASS_BY_RAZOR && strict)
        return 1;
    return v < RV_COUNT ? runs[v].status : 3;
}

enum run_verdict run_verdict_by_name(const char *name)
{
    int v = 0;
    while (v < RV_COUNT && strcmp(name, runs[v].name))
        v++;
    return v;
}
