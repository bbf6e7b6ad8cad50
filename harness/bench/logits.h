/* logits - what full logits weigh when an engine foretells them, how fast they come back and are proven, and how fast
 * verdicts enter a store
 */
#ifndef ASSAY_BENCH_LOGITS_H
#define ASSAY_BENCH_LOGITS_H

#include "harness/base/golden.h"
#include "harness/engine.h"

struct logits_spec {
    struct engine *exact, *other; /* the oracle's stand-in; another arm that foretells it badly. NULL other is fine */
    const struct golden *golden;  /* its row hashes prove that the stand-in gives the oracle's own rows */
    const char *store;            /* a new file for verdicts; removed again */
    int verdicts;                 /* rows to write */
    void (*progress)(void *arg, const char *what, int done, int total);
    void *arg;
};

/* {rows, vocabulary, proven: rows that hash as the golden's, raw_bytes, exact: {bytes, bytes_10000}, other: {same_rows,
 * bytes, bytes_10000} | null, unpack_gb_s, equal, verdicts, verdicts_s, rows_s}. bytes_10000: for 10,000 rows of this
 * vocabulary. equal false: what came back is not what went in. */
int bench_logits(const struct logits_spec *s, json_t **report, struct err *e);

#endif
