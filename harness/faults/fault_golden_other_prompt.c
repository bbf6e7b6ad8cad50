/* The first two prompts of the golden have changed places. */
#include "harness/fault.h"

static int golden(struct golden *g)
{
    if (g->prompts < 2)
        return 0;
    struct golden_prompt first = g->prompt[0];
    char *name = g->prompt[1].name;
    g->prompt[0] = g->prompt[1];
    g->prompt[1] = first;
    g->prompt[1].name = name;
    g->prompt[0].name = first.name;
    return 1;
}

FAULT(golden_other_prompt) = {.name = "golden_other_prompt",
                              .summary = "two prompts of the golden have changed places",
                              .where = "golden",
                              .golden = golden};
