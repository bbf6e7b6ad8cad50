/* The adapter asks for one token less, as max_tokens counted with the prompt's last id would. */
#include "harness/fault.h"

static int ask(struct engine_request *q, struct sequence *seq)
{
    int short_of = q->mode == MODE_GENERATE && q->max_new > 1;
    (void)seq;
    q->max_new -= short_of;
    return short_of;
}

FAULT(stops_short) = {.name = "stops_short", .summary = "one token less is asked for", .where = "adapter", .ask = ask};
