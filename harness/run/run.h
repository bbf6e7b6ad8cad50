/* run - takes a battery through an engine, stores every answer before it judges any, and judges
 *
 * A run resumes where it died: answers that the store holds under the same key are not asked for again.
 */
#ifndef ASSAY_RUN_RUN_H
#define ASSAY_RUN_RUN_H

#include "harness/judge.h"

struct run_options {
    struct store *store;
    struct engine *engine;
    struct golden *golden;     /* the witness may widen its lists in memory */
    const char *golden_sha256; /* as the store sealed it, verified when it was loaded */
    const struct battery *battery;
    const struct model *model; /* NULL for engines that need none */
    struct engine *witness;    /* NULL is fine: tells gaps of ids outside the golden's lists, see witness.h */
    const char *model_sha256;  /* "" without a model */
    const char *commit;        /* of assay, or its build; "" when unknown */
    const char *again;         /* the command that repeats this run, for the report */
    int strict, fresh;
    void (*progress)(void *arg, int done, int total); /* NULL is fine */
    void *arg;
};

struct run_result {
    int64_t run;
    struct judgement judgement;
    int resumed;     /* prompts whose free run was in the store already */
    int widened;     /* positions whose stored list the witness widened */
    json_t *summary; /* the object of `assay run --json` */
    int status;      /* exit status */
};

/* An evidence problem is a verdict (NO_EVIDENCE, VOID) in *r; E_... means that nothing could be judged. The answers
 * stored until then stay. Caller frees r. */
int run_battery(const struct run_options *o, struct run_result *r, struct err *e);
/* Gathers the answers of one shard ("I/N") and judges nothing: a part of a battery has no verdict. o->battery is the
 * part (shard_cut). r->summary: {run, shard, prompts, answered, resumed, missing, ...}; r->status 4 when one is
 * missing.
 */
int run_shard(const struct run_options *o, const char *shard, struct run_result *r, struct err *e);
void run_result_free(struct run_result *r); /* zeroed is fine */

#endif
