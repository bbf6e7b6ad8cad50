/* anchor - an arm's own ratified ids with their teacher-forced gaps: a text that a person reads in a pull request
 *
 * assay-anchor/1: lines of "key value", then for each prompt "prompt COUNT FINISH NAME" and a line a token:
 * "POSITION ID GAP TEXT", with "(golden ID TEXT)" behind it where the oracle's own decode emitted another. The gap is
 * in nats, "-" where no oracle was asked on this prefix. What stands behind the gap is for people and not read back.
 */
#ifndef ASSAY_GOLDENS_ANCHOR_H
#define ASSAY_GOLDENS_ANCHOR_H

#include "harness/base/golden.h"

struct anchor_prompt {
    char *name;
    int32_t *ids;
    double *gap; /* [n] nats; NaN: not known */
    int n;
    enum finish finish;
};

struct anchor {
    char model[128], model_sha256[SHA256_HEX_SIZE], battery[64], battery_sha256[SHA256_HEX_SIZE];
    char golden_sha256[SHA256_HEX_SIZE]; /* judged against */
    char arm[256], device[128], reason[64], by[128], note[512], evidence[256];
    int64_t run;
    struct anchor_prompt *prompt;
    int prompts;
};

/* "MODEL/BATTERY/ARM/DEVICE": one anchor of a key is in force. */
void anchor_key(const char *model, const char *battery, const char *arm, const char *device, char out[600]);

/* say writes a token's quoted text into buf and returns it; NULL is fine. Caller frees *text. */
typedef const char *anchor_say(void *arg, int32_t id, char *buf, size_t size);
int anchor_text(const struct anchor *a, const struct golden *g, anchor_say *say, void *arg, char **text, size_t *bytes,
                struct err *e);
/* Errors name `name` and the line. Caller frees. */
int anchor_parse(const char *text, size_t bytes, const char *name, struct anchor **a, struct err *e);
void anchor_free(struct anchor *a); /* NULL is fine */
const struct anchor_prompt *anchor_find(const struct anchor *a, const char *name);

/* "" when the list has it, else the names that there are. */
const char *reason_check(const char *name, char *buf, size_t size);

#endif
