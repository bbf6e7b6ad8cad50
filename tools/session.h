/* session - what a run needs, opened together: store, model, battery, golden, engine */
#ifndef ASSAY_TOOLS_SESSION_H
#define ASSAY_TOOLS_SESSION_H

#include "harness/run/run.h"
#include "tools/command.h"

struct session_spec {
    const char *engine, *model, *battery, *golden; /* golden NULL: the active one */
    const char *witness;                           /* NULL: none; see harness/run/witness.h */
    char *const *flag;
    int flags, threads;
};

struct session {
    struct store *store; /* borrowed */
    struct model *model;
    struct battery *battery;
    struct golden *golden;
    char golden_sha256[SHA256_HEX_SIZE], model_sha256[SHA256_HEX_SIZE];
    /* hash of this program, and of the data that decides the engine's bytes (GPU profile, hardware tables): answers of
     * another build or of other data are never mixed into a run, and evidence of them is never reused */
    char build[80];
    struct engine *engine, *witness;
};

/* Caller closes, also after a failure. The store must be open. */
int session_open(const struct tool *t, struct store *store, const struct session_spec *spec, struct session *s,
                 struct err *e);
void session_close(struct session *s); /* zeroed is fine */

/* An engine's spec as it is, or "adapter:NAME" for the name or file of a profile. */
int session_engine(const struct tool *t, const char *name, char *spec, size_t size, struct err *e);

/* NAME in the store, or a file when it ends in .json. */
int session_battery(struct store *store, const char *name, struct battery **b, struct err *e);

#endif
