/* lmeval - sample files of lm-eval (samples_TASK_DATE.jsonl) as a source of prompts
 *
 * One object a document and filter. The context of each request (arguments.gen_args_I.arg_0, or arguments[I][0]) is a
 * prompt; one that comes again (another filter, another continuation of the same context) is taken once.
 */
#ifndef ASSAY_GOLDENS_LMEVAL_H
#define ASSAY_GOLDENS_LMEVAL_H

#include "harness/base/err.h"

#include <stddef.h>

/* Gives JSON Lines {"name","text"}: doc3, or doc3.1 for the second context of a document. *prompts of them out of
 * *lines objects. Errors name file and line. Caller frees *out. */
int lmeval_prompts(const char *path, const char *text, size_t bytes, char **out, size_t *out_bytes, int *prompts,
                   int *lines, struct err *e);

#endif
