/* gate_answers - what an engine says to a whole battery, kept in memory to be compared with what it says again */
#ifndef ASSAY_TOOLS_GATE_ANSWERS_H
#define ASSAY_TOOLS_GATE_ANSWERS_H

#include "harness/run/ask.h"

struct answers {
    struct job *job; /* one a prompt */
    int jobs;
};

/* Free run and forced prefill of every prompt, one prompt a request. Caller frees. */
int answers_ask(struct engine *g, const struct battery *b, const struct golden *golden, struct answers *a,
                struct err *e);
/* Free run in batches of `size`; the last batch is filled up from the start of the battery, these answers are dropped.
 */
int answers_ask_batch(struct engine *g, const struct battery *b, int top_k, int size, struct answers *a, struct err *e);
/* 1 when ids, ends, lists and row hashes agree in every bit; else `where` names the first that does not. */
int answers_equal(const struct answers *a, const struct answers *b, char *where, size_t size);
void answers_free(struct answers *a); /* zeroed is fine */

#endif
