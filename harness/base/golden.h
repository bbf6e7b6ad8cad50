/* golden - what an oracle said, and what an arm said, about one battery: the records that are compared
 *
 * All pointers are owned by the struct that holds them unless said otherwise.
 */
#ifndef ASSAY_BASE_GOLDEN_H
#define ASSAY_BASE_GOLDEN_H

#include "harness/base/counter.h"
#include "harness/base/err.h"
#include "harness/base/names.h"
#include "harness/base/sha256.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind {
    VALUE_LOGIT,   /* raw logits; log-probability = logit - logsumexp */
    VALUE_LOGPROB, /* log-probabilities (nats); logsumexp is 0 */
};

/* Top lists of `rows` consecutive positions; row r speaks about emitted position r. rows may be 0. */
struct view {
    int rows, top_k;
    enum value_kind kind;
    int32_t *top_ids;  /* [rows,top_k], larger value first, equal values in no particular order; -1 pads a short list */
    float *top_values; /* [rows,top_k] */
    double *logsumexp; /* [rows], of the full row */
    uint8_t *row_sha256; /* [rows,32] of the full row as little-endian bf16; NULL when not known */
};

/* Allocates zeroed arrays; with_hash adds row_sha256. view_free accepts a zeroed struct. */
int view_alloc(struct view *v, int rows, int top_k, int with_hash, struct err *e);
void view_free(struct view *v);

enum finish {
    FINISH_LENGTH, /* max_new_tokens reached */
    FINISH_STOP,   /* end of sequence emitted (it is the last id) */
};

/* What an engine answered for one sequence. view.rows = n when it can tell logits, else 0. Caller frees. */
struct stream {
    int32_t *ids; /* emitted, or the argmax at each forced position */
    int n;
    enum finish finish;
    struct view view;
    struct counter *counter; /* what ran for this answer; NULL: not counted */
    int counters;
};

void stream_free(struct stream *s); /* zeroed is fine */

struct batch_pass {
    int32_t *ids; /* NULL: the same as alone */
    int n;
    int top_equal_to_first; /* -1: not recorded */
};

struct golden_prompt {
    char *name;
    int32_t *prompt_ids, *ids; /* fed; emitted */
    int prompts, n;            /* their counts */
    enum finish finish;
    struct view decode, prefill; /* decode-shaped and prefill-shaped, over ids */
    int rows_equal;              /* decode rows equal to prefill rows in every bit; -1: not recorded */
    struct batch_pass *batch;    /* the same prompt with companions */
    int batches;
    int repeats, repeats_equal; /* repeats made; how many gave equal ids and logits */
    json_t *repeats_json;       /* as recorded; NULL is fine */
};

struct golden {
    char model[128], battery[64], arm[64];
    int top_k;
    json_t *header; /* line 1 of the exchange format, complete: provenance travels unchanged */
    struct golden_prompt *prompt;
    int prompts;
    struct names by_name; /* of the prompts; empty: they are looked up one by one */
};

void golden_free(struct golden *g); /* NULL is fine */
/* NULL when there is no such prompt. */
const struct golden_prompt *golden_find(const struct golden *g, const char *name);

struct battery_prompt {
    char *name, *text; /* text may be NULL */
    int32_t *ids;
    int n;
};

struct battery {
    char name[64];
    char sha256[SHA256_HEX_SIZE];           /* of the file */
    char tokenizer_sha256[SHA256_HEX_SIZE]; /* of tokenizer.json, "" when not stated */
    int max_new_tokens, stop_at_eos;
    double razor_ulp;      /* n of the razor */
    double razor_cap_nats; /* cap of the razor */
    char note[256];
    struct battery_prompt *prompt;
    int prompts;
};

void battery_free(struct battery *b); /* NULL is fine */

#endif
