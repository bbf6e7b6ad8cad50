/* gather - everything that the forms show about one run, read once from the store
 *
 * All texts in here are as stored: each form escapes them (escape.h). Token texts are visible already.
 */
#ifndef ASSAY_REPORTS_GATHER_H
#define ASSAY_REPORTS_GATHER_H

#include "goldens/store.h"

#include <jansson.h>

/* The bytes of a token into buf (size at least 256); returns how many, negative: not known. */
typedef int report_piece(void *arg, int32_t id, char *buf, int size);

struct report_position {
    struct verdict_row row; /* of the free run; of equal positions with the gap of the golden's own id */
    int judged;             /* 0: this run holds no judgement here */
    int after_root;         /* 1: the prefix is no longer the golden's */
    int in_golden, in_arm;  /* the stream reaches this far */
    double margin_nats;     /* oracle's largest value minus its second; NaN: not stored */
    const struct verdict_row *decode, *prefill; /* forced differences, NULL: none */
};

struct report_prompt {
    const char *name;
    const struct golden_prompt *golden; /* NULL: the golden has no such prompt, or is not at hand */
    struct stream free, decode, prefill;
    int has_free, has_decode, has_prefill;
    struct report_position *position;
    int positions;
    const struct verdict_row *tokenisation; /* NULL: the prompt ids agree */
    const struct verdict_row *root;         /* the first difference of the free run, NULL: none */
    enum verdict verdict;                   /* the gravest of all its positions; V_COUNT: never judged */
};

struct report {
    int64_t id;
    json_t *run;           /* store_run_get */
    const json_t *summary; /* object, or NULL: the run never finished */
    const char *model, *battery_name, *arm;
    enum run_verdict verdict; /* RV_COUNT: the run never finished */
    char why[600];            /* one sentence */
    char note[3][300];        /* what could not be shown, and why; "" when nothing is missing */
    int notes;
    struct golden *golden;   /* NULL: see note */
    struct battery *battery; /* NULL: see note */
    struct verdict_row *row; /* as stored */
    int rows;
    struct report_prompt *prompt;
    int prompts, answered; /* answered: prompts whose free run is stored */
    report_piece *piece;   /* NULL: no token texts */
    void *piece_arg;
    char **text; /* visible token texts by id, filled on demand */
    int texts;
};

/* run 0: the newest. piece may be NULL; it and its argument are borrowed until report_free. Caller frees *r. */
int report_gather(struct store *s, int64_t run, report_piece *piece, void *arg, struct report **r, struct err *e);
void report_free(struct report *r); /* NULL is fine */

/* Visible text of a token, "" when not known. Borrowed until report_free. */
const char *report_text(const struct report *r, int32_t id);

/* Both sides' rows at a position: the oracle's view, and the arm's where one stands on the golden's prefix. NULL: not
 * stored. */
void report_rows(const struct report_prompt *p, int position, int prefill, const struct view **oracle,
                 const struct view **arm);

/* 1 when both rows hold the same ids and bits. */
int report_rows_equal(const struct view *a, const struct view *b, int position);

/* "strict: p6 token 11: DIVERGENT: got 783 " moon", oracle 412 " Moon", gap 0.1875 nat (3 ULP, razor 2)"; visible.
 * Caller frees; NULL without memory. */
char *report_sentence(const struct report *r, const struct verdict_row *row);

/* "PASS", ..., or "NOT FINISHED". */
const char *report_verdict(const struct report *r);

/* "2048 tokens judged, 0 independent roots; ...", "" when the run never finished. */
void report_power(const struct report *r, char *buf, size_t size);

/* 1 when the free run has the golden's ids and length, and no forced position differs. */
int report_prompt_exact(const struct report_prompt *p);

#endif
