/* judge - a whole arm against a golden: order of judging, verdict per position, verdict of the run
 *
 * Order: model and tokenizer hashes, tokenisation, counters, ids, razor. A difference found late never hides one that
 * comes earlier. Pure functions over records; nothing here reads, writes or prints.
 */
#ifndef ASSAY_JUDGE_H
#define ASSAY_JUDGE_H

#include "goldens/store.h"
#include "harness/engine.h"
#include "harness/razor.h"

/* What an arm answered for one prompt; NULL: that phase was not run or gave nothing. Borrowed. */
struct arm_answer {
    const struct stream *free, *decode, *prefill; /* free run; forced decode-shaped and prefill-shaped */
    const int32_t *fed;                           /* prompt ids as the arm tells them; NULL: those of the battery */
    int feds;
};

struct judge_input {
    const struct golden *golden;
    const struct battery *battery;
    const struct model *model;       /* NULL: the arm has no model files to compare */
    const struct arm_answer *answer; /* [battery->prompts] */
    const struct counter *counter;
    int counters;
    int recording; /* the arm is a record: cascades cannot be asked about, its model may be another one on purpose */
};

struct row_count {
    int rows, equal; /* compared; equal in every bit */
};

struct noise {                          /* the oracle's own, from the golden */
    int batch_roots;                    /* prompts at which some batch pass leaves the lone stream */
    double batch_ulp;                   /* widest gap at a root of a batch pass; 0 when there is none */
    int rows, rows_equal, argmax_equal; /* prefill view against decode view */
};

struct judgement {
    struct verdict_row *row; /* everything that is not EQUAL, in battery order */
    int rows, row_capacity;
    int prompts, prompts_exact, prompts_missing, tokens, tokens_equal;
    int roots, cascades, cascades_unjudged;
    double worst_nats, worst_ulp; /* over roots with a known gap */
    int forced, forced_equal;     /* forced positions judged; argmax equal */
    double forced_worst_nats, forced_worst_ulp;
    struct row_count decode, prefill; /* logits rows */
    struct noise noise;
    long judged; /* positions judged on an identical prefix */
    int grid_inferred, unresolved;
    enum run_verdict verdict;
    char why[512]; /* one sentence: what decided */
};

/* Fills j (zeroed by the caller or earlier freed). Fails only without memory. */
int judge_run(const struct judge_input *in, struct judgement *j, struct err *e);
void judgement_free(struct judgement *j); /* zeroed is fine */

/* Overrules the verdict: the evidence changed underneath. */
void judgement_void(struct judgement *j, const char *why);

/* Names the first file whose hash differs from the golden's header; returns 1 when all agree. */
int model_matches(const struct golden *g, const struct model *m, char *why, size_t size);

#endif
