/* store - the SQLite store: goldens, runs, verdicts, ledger; the only code that knows SQLite
 *
 * WAL, foreign keys, strict tables, migrations by user_version; a store of a newer version is refused untouched.
 * Blobs are zstd. One writer at a time; calls on one struct store come from one thread.
 */
#ifndef ASSAY_GOLDENS_STORE_H
#define ASSAY_GOLDENS_STORE_H

#include "harness/base/golden.h"
#include "harness/base/verdict.h"

struct store;

/* Opens or creates (also missing folders). E_STORE: damaged, newer version, read-only, disk full. Caller closes. */
int store_open(const char *path, struct store **s, struct err *e);
void store_close(struct store *s); /* NULL is fine */

/* Imports every shipped golden (DIR/goldens, *.jsonl or *.jsonl.zst) that the store does not hold yet, by hash of the
 * file, and every battery that is new or whose razor changed. `progress` may be NULL. */
int store_import_shipped(struct store *s, const char *data_dir, void (*progress)(void *, int done, int total),
                         void *arg, struct err *e);

/* The same, but of the goldens only those of one model: what a shard needs. */
int store_import_model(struct store *s, const char *data_dir, const char *model, struct err *e);

/* Inserts a golden (identity: SHA-256 of its canonical exchange text). status: active, pending, negative.
 * The same content again is no error and gives the same id; it keeps its status and may receive row hashes. */
int store_golden_put(struct store *s, const struct golden *g, const char *status, int64_t *id, struct err *e);
/* arm: its name, or 8 digits or more of its hash; NULL: the active golden of (model, battery), arm "eager" first.
 * E_MISSING when there is none; caller frees. */
int store_golden_get(struct store *s, const char *model, const char *battery, const char *arm, struct golden **g,
                     char sha256[SHA256_HEX_SIZE], struct err *e);
/* The same by hash, or by its first 8 digits or more. */
int store_golden_by_hash(struct store *s, const char *sha256, struct golden **g, char found[SHA256_HEX_SIZE],
                         struct err *e);
/* The status that a golden has now: what the ledger said last (active, pending, negative, superseded). */
int store_golden_status_of(struct store *s, const char *sha256, char status[16], struct err *e);
/* Goldens by status, names and what the ledger knows, oldest first; NULL: any. Array of {golden, model, battery, arm,
 * status, created, id}. */
int store_golden_list(struct store *s, const char *model, const char *battery, const char *status, json_t **list,
                      struct err *e);
/* The status that a golden really has, whatever was asked for when its content came again. */
int store_golden_status(struct store *s, int64_t id, char status[16], struct err *e);
/* Recomputes the hashes from the stored row: E_STORE "golden ... was edited" when text, names, status or row hashes do
 * not match what was sealed. */
int store_golden_verify(struct store *s, const char *sha256, struct err *e);

int store_battery_put(struct store *s, const struct battery *b, struct err *e);
int store_battery_get(struct store *s, const char *name, struct battery **b, struct err *e);
/* The newest battery of each name, by name: array of {name, prompts, max_new_tokens, razor_ulp, razor_cap_nats, note}.
 */
int store_battery_list(struct store *s, json_t **list, struct err *e);

/* A run resumes where it died: the same key continues the newest unfinished run that no living process works on. */
struct run_key {
    const char *model, *model_sha256; /* name; hash over its file hashes */
    const char *battery, *battery_sha256, *golden_sha256, *arm;
    const char *commit; /* of assay, "" when unknown */
    const char *shard;  /* "I/N", NULL: the whole battery */
};

enum run_phase {
    PHASE_FREE,
    PHASE_FORCE_DECODE,
    PHASE_FORCE_PREFILL,
};

/* fresh != 0 always starts a new run. *run identifies it from now on (small integer shown to people). */
int store_run_open(struct store *s, const struct run_key *key, int fresh, int64_t *run, struct err *e);
/* Durable when it returns: ids and rows are stored before any judgement. */
int store_stream_put(struct store *s, int64_t run, const char *prompt, enum run_phase phase, const struct stream *st,
                     struct err *e);
struct answer {
    const char *prompt;
    enum run_phase phase;
    const struct stream *stream;
};
/* Several at once: all are durable when it returns OK, else none is stored. */
int store_answers_put(struct store *s, int64_t run, const struct answer *a, int n, struct err *e);
/* *found = 0 when it was not stored. Caller frees st. */
int store_stream_get(struct store *s, int64_t run, const char *prompt, enum run_phase phase, struct stream *st,
                     int *found, struct err *e);

/* One judged position with the inputs of the decision. */
struct verdict_row {
    char prompt[64];
    int position;
    int forced; /* 0 free run, 1 forced decode-shaped, 2 forced prefill-shaped */
    int root;   /* 1 at the first difference of a prompt */
    enum verdict verdict;
    int32_t golden_id, arm_id;
    double gap_nats, gap_ulp; /* NaN: outside what was stored; then gap_bound_nats is a lower bound */
    double gap_bound_nats;
    double ulp, razor_nats, jitter_nats, self_gap_nats; /* inputs; NaN where unknown */
    int ties;                                           /* tokens at the oracle's maximum */
};

/* Stores the verdicts of a run, its summary (one JSON object) and its verdict in one transaction, and seals it in the
 * ledger: nothing of a finished run ever changes. */
int store_run_finish(struct store *s, int64_t run, const struct verdict_row *row, int rows, enum run_verdict v,
                     const json_t *summary, struct err *e);

/* "" or NULL: no filter. Newest first. Array of {run, started, finished, model, battery, arm, verdict, summary}. */
struct run_filter {
    const char *model, *battery, *verdict, *since;
    int limit; /* 0: 50 */
};
int store_run_list(struct store *s, const struct run_filter *f, json_t **list, struct err *e);
/* run 0: the newest. {run, key..., verdict, summary, positions:[verdict rows]}; E_MISSING. */
int store_run_get(struct store *s, int64_t run, json_t **object, struct err *e);
/* E_STORE when a finished run is no longer what the ledger sealed. */
int store_run_verify(struct store *s, int64_t run, struct err *e);

/* Where the answers of a shard go in the store that they are merged into. */
enum merge_into {
    MERGE_ANY,        /* a finished run of the same key must hold the same answers; else an unfinished or a new one */
    MERGE_UNFINISHED, /* an unfinished run of the same key, or a new one */
    MERGE_NEW,
};

/* Brings the goldens, batteries and finished runs of other stores into s, and joins their shards (and unfinished runs)
 * of one (model, battery, golden, arm, commit) to one run, ready to be judged. All in one transaction: on any conflict
 * nothing is changed and report.conflicts names each one with both stores (returns OK).
 * report: {store, stores, goldens, batteries, runs_copied, answers, decisions_left (ratifications,
 * records and the like, which stay where they were signed), joined: [{run, model, battery, arm, shards: [..],
 * prompts, answered, missing: [names]}], conflicts: [..]}. progress may be NULL. */
int store_merge(struct store *s, const char *const *path, int paths, enum merge_into into,
                void (*progress)(void *, int done, int total), void *arg, json_t **report, struct err *e);

/* --- the ledger: append-only, each row hashing the one before --- */

/* kind: import, rows, capture, ratify, unratify, supersede, restore, evidence, record, flip, run, battery. what: one
 * object, borrowed. Durable when it returns. */
int store_ledger_add(struct store *s, const char *kind, const json_t *what, struct err *e);
/* Oldest first: array of {seq, at, kind, what, sha256}; kind NULL: all. */
int store_ledger_list(struct store *s, const char *kind, json_t **list, struct err *e);

/* --- records: sealed bytes of a kind and a name, each with a row in the ledger --- */

/* The same bytes again are no error. more (NULL is fine): what else the ledger row says. */
int store_record_put(struct store *s, const char *kind, const char *name, const void *data, size_t bytes,
                     const json_t *more, char sha256[SHA256_HEX_SIZE], struct err *e);
/* The newest record of that kind whose name, or hash (8 digits or more), is `name`. E_MISSING. Caller frees *data,
 * which ends in a zero that is not counted. */
int store_record_get(struct store *s, const char *kind, const char *name, char **data, size_t *bytes,
                     char sha256[SHA256_HEX_SIZE], struct err *e);
/* Array of {record, name, bytes, created}, oldest first. */
int store_record_list(struct store *s, const char *kind, json_t **list, struct err *e);

/* Integrity: SQLite's own check, foreign keys, hashes of goldens and ledger chain, orphans. Names the first bad row. */
int store_check(struct store *s, json_t **report, struct err *e);
/* Rows and bytes per table. */
int store_stats(struct store *s, json_t **report, struct err *e);

#endif
