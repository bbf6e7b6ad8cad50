/* trace - an op log with the ids that were fed, as a file: recorded by vLLM's module hooks or by any engine with taps
 *
 * safetensors, also packed as .zst. Keys stepS/MODULE/out, outN (bf16), stepS/model.embed_tokens/in0 (I32, the ids of
 * the step); step 0 is the prompt. Files of this program also hold assay/about: JSON with model, its hash and the arm.
 */
#ifndef ASSAY_BISECT_TRACE_H
#define ASSAY_BISECT_TRACE_H

#include "harness/bisect/oplog.h"

struct trace {
    struct op_log log;
    int32_t *prompt, *forced; /* forced: fed after the prompt, one a step */
    int prompts, forceds;
    json_t *about; /* NULL: a file of another program */
};

/* Every step's ids and outputs are checked; E_INPUT names file and key, E_MISSING a file that is not there. Caller
 * frees, also after a failure. */
int trace_read(const char *path, struct trace *t, struct err *e);
void trace_free(struct trace *t); /* zeroed is fine */

/* Whole or not at all; packed when the name ends in .zst. Ops that have no module of vLLM's get keys of their own. */
int trace_write(const char *path, const struct trace *t, struct err *e);

#endif
