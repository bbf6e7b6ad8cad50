/* judge_prompt - the verdicts of one prompt: free run, forced rows, the oracle's own noise */
#ifndef ASSAY_JUDGE_PROMPT_H
#define ASSAY_JUDGE_PROMPT_H

#include "harness/judge.h"

struct prompt_judge {
    struct judgement *j;
    const struct battery *battery;
    const struct battery_prompt *fed;
    const struct golden_prompt *golden; /* NULL: the golden has no such prompt */
    const struct arm_answer *answer;
    struct razor_rule rule;
    int bits; /* significand bits of the oracle's logits, 0: not known */
};

/* Adds the prompt's verdict rows and counts to p->j. */
int judge_prompt(const struct prompt_judge *p, struct err *e);

#endif
