/* capture - asks an oracle for everything that makes a golden */
#ifndef ASSAY_CAPTURE_H
#define ASSAY_CAPTURE_H

#include "harness/base/golden.h"
#include "harness/base/model.h"
#include "oracle/oracle.h"

struct capture_spec {
    const struct oracle_ops *oracle;
    const struct model *model;
    const struct battery *battery;
    int repeats, top_k; /* passes over a prompt, at least 1; values kept at a position */
    const char *arm;    /* of the golden */
    /* NULL: the oracle decodes greedily. Else [battery->prompts] ids that it is fed token by token and in one pass:
     * what it says about an arm's own tokens. */
    const struct stream *forced;
    const char *date; /* YYYY-MM-DD */
    /* NULL is fine: sees every decode-shaped row of the first pass, in order, whole. */
    void (*row)(void *arg, const uint16_t *logits, int vocab);
    void *row_arg;
    /* NULL is fine */
    void (*progress)(void *arg, const char *prompt, int done, int total);
    void *progress_arg;
};

/* Ids are checked against the vocabulary before the oracle sees any. Caller frees. */
int capture_golden(const struct capture_spec *c, struct golden **g, struct err *e);

#endif
