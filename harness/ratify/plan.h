/* plan - what a ratification would change, and whether it may
 *
 * A run may be ratified when it is finished, its seal holds, every difference is benign, its golden is active or
 * pending, and something licenses the arm's ids: the golden itself where all ids are equal, an oracle that was fed the
 * arm's own ids, or the same engine by another route that gives the golden's ids.
 */
#ifndef ASSAY_RATIFY_PLAN_H
#define ASSAY_RATIFY_PLAN_H

#include "goldens/ratify.h"

struct ratify_ask {
    struct store *store;
    int64_t run, ab_run; /* ab_run 0: none */
    const char *reason, *by, *note;
    anchor_say *say; /* NULL is fine */
    void *say_arg;
};

struct ratify_plan {
    char refusal[600]; /* "" when it may be ratified */
    int status;        /* exit status of the refusal: 1 it differs, 4 evidence is missing, 5 the evidence changed */
    json_t *run;
    struct golden *golden;
    struct battery *battery;
    struct stream *stream; /* [golden->prompts], what the arm emitted */
    struct golden *forced; /* the oracle on the arm's own ids; NULL: not asked */
    struct anchor *anchor;
    char *text; /* of the anchor */
    size_t bytes;
    char replaces[SHA256_HEX_SIZE];
    int activates;    /* the golden is pending */
    json_t *outdated; /* active goldens of the same model, battery, arm and device */
    json_t *changes;  /* {against, prompt, position, old_id, new_id, gap_nats, after} */
};

/* A refusal is no error. Caller frees p, also after a failure. */
int ratify_plan(const struct ratify_ask *a, struct ratify_plan *p, struct err *e);
void ratify_plan_free(struct ratify_plan *p); /* zeroed is fine */

/* Used by the files of this folder. Returns 0, so that `return refuse(...)` reads as "not allowed". */
int refuse(struct ratify_plan *p, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What licenses the ids: fills anchor->evidence and p->forced, or refuses. */
int plan_evidence(const struct ratify_ask *a, struct ratify_plan *p, struct err *e);
/* Fills p->changes. */
int plan_changes(const struct ratify_ask *a, struct ratify_plan *p, struct err *e);

#endif
