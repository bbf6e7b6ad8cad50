/* help_run - judged runs in a store, made from toy goldens, for tests of reports */
#ifndef ASSAY_TEST_HELP_RUN_H
#define ASSAY_TEST_HELP_RUN_H

#include "goldens/store.h"
#include "harness/test/help_golden.h"

/* Texts that a report must survive: markup, ends of script and section, controls, direction, quotes, spreadsheets. */
extern const char *const hostile[];
extern const int hostiles;

struct toy_run {
    struct golden *golden;
    struct battery *battery;
    const char *arm, *again;                                                    /* as the run tells them */
    int32_t (*answer)(const struct golden_prompt *p, int prompt, int position); /* the arm's ids; NULL: the golden's */
    int unfinished;                                                             /* stop before judging */
};

/* Stores golden, battery and answers, judges, finishes; returns the run's number. Fails the test when it cannot. */
int64_t toy_run_store(struct store *s, const struct toy_run *t);

/* A report_piece: ids that differ get hostile texts in turn, among them bytes that are no UTF-8. */
int hostile_piece(void *arg, int32_t id, char *buf, int size);

#endif
