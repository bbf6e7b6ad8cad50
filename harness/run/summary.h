/* summary - a judged run as one JSON object: what `assay run --json` prints, `show` renders and the store keeps */
#ifndef ASSAY_RUN_SUMMARY_H
#define ASSAY_RUN_SUMMARY_H

#include "harness/run/run.h"

/* NULL without memory. Caller releases. `missing`: one sentence a prompt without an answer, borrowed. */
json_t *summary_make(const struct run_options *o, const struct judgement *j, int64_t run, const struct counter *counter,
                     int counters, json_t *missing);

#endif
