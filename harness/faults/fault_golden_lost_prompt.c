/* A prompt of the battery is not in the golden. */
#include "harness/fault.h"

static int golden(struct golden *g)
{
    if (!g->prompts)
        return 0;
    g->prompt[0].name[0] ^= 1;
    return 1;
}

FAULT(golden_lost_prompt) = {.name = "golden_lost_prompt",
                             .summary = "a prompt of the battery is not in the golden",
                             .where = "golden",
                             .golden = golden};
