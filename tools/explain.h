/* explain - one position of a stored run: both sides' rows and the razor's inputs */
#ifndef ASSAY_TOOLS_EXPLAIN_H
#define ASSAY_TOOLS_EXPLAIN_H

#include "goldens/store.h"
#include "harness/razor.h"
#include "tools/run_text.h"

struct explain {
    int64_t run;
    int position; /* -1 before explain_load: the first difference */
    int lines, prefill;
    int narrow;     /* explain_text: both sides one below the other */
    json_t *object; /* the stored run */
    struct golden *golden;
    struct battery *battery;
    const struct golden_prompt *prompt; /* of the golden */
    struct stream free_run, forced;     /* n = 0 when not stored */
    const struct view *oracle, *arm;    /* arm NULL: no row of the arm stands on the golden's prefix here */
    int32_t arm_id;                     /* -1: unknown */
    struct gap gap;
    struct jitter jitter;
    double razor_nats;
    enum verdict verdict;
};

/* Caller frees x with explain_free, also after a failure. */
int explain_load(struct store *s, int64_t run, const char *prompt, int prefill, struct explain *x, struct err *e);
void explain_text(FILE *f, const struct explain *x, const struct token_text *tok);
json_t *explain_json(const struct explain *x);
void explain_free(struct explain *x);

#endif
