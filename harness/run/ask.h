/* ask - puts a battery to an engine, several prompts at once, and hands every answer to one thread that stores it */
#ifndef ASSAY_RUN_ASK_H
#define ASSAY_RUN_ASK_H

#include "harness/run/run.h"

#define PHASES 3 /* enum run_phase */

struct job {
    const struct battery_prompt *fed;
    const struct golden_prompt *golden; /* NULL: only the free run makes sense */
    struct stream answer[PHASES];
    int have[PHASES];
    int resumed;       /* 1: the free run came from the store */
    char missing[256]; /* why there is no answer, "" when there is one */
};

struct answered {
    struct job *job;
    enum run_phase phase;
};

/* Takes over n answers: those that wait while the ones before them are stored. */
typedef int put_answers(void *arg, const struct answered *a, int n, struct err *e);

/* Asks for every phase that a job lacks. Each answer is stored when `put` has returned, in the calling thread.
 * The first failure stops the rest; E_MISSING is no failure but noted in the job. */
int ask_all(struct engine *g, const struct battery *b, int top_k, struct job *job, int jobs, put_answers *put,
            void *arg, struct err *e);

#endif
