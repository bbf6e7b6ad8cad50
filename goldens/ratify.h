/* ratify - a person's signed yes in the store: the anchor in force, goldens that become active or are superseded, and
 * the text files that mirror what is in force
 *
 * Everything is a new row in the ledger; nothing is taken back but by another row.
 */
#ifndef ASSAY_GOLDENS_RATIFY_H
#define ASSAY_GOLDENS_RATIFY_H

#include "goldens/anchor.h"
#include "goldens/store.h"

struct ratification {
    const struct anchor *anchor;
    const char *text; /* anchor_text of it */
    size_t bytes;
    const char *replaces;   /* hash of the anchor that was in force when it was shown, "" for none */
    int activates;          /* its golden is pending and becomes active */
    const json_t *outdated; /* hashes of the active goldens that it supersedes; NULL: none */
    const json_t *more;     /* what else the ledger says (changes, evidence); NULL is fine */
    const char *mirror;     /* folder that gets the texts too; NULL: beside the store only */
};

/* One transaction, then the mirrors; a process that dies in between owes them, and the next that opens the store writes
 * them. E_VOID when what was shown is no longer so. *seq names the row, *files counts the anchors in force. */
int store_ratify(struct store *s, const struct ratification *r, int64_t *seq, int *files, struct err *e);

/* Takes ratification `seq` back: the anchor before it is in force again, a golden that it made active is pending, those
 * that it superseded are active. E_MISSING: no such row; E_USAGE: taken back already, or not the newest of its key.
 * Mirrors as above. */
int store_unratify(struct store *s, int64_t seq, const char *by, const char *note, const char *mirror, int *files,
                   struct err *e);

/* The anchor in force; E_MISSING when there is none. sha256 names it. Caller frees. */
int store_anchor_get(struct store *s, const char *model, const char *battery, const char *arm, const char *device,
                     struct anchor **a, char sha256[SHA256_HEX_SIZE], struct err *e);
/* Every anchor in force: array of {key, anchor, seq, golden, stale}; stale: null, or why it no longer counts. */
int store_anchor_list(struct store *s, json_t **list, struct err *e);

/* Writes the text of every anchor in force into PATH-ratified beside the store, and into folder (NULL is fine), and
 * removes the files of keys that have none any more. *files: how many there are. */
int store_mirror(struct store *s, const char *folder, int *files, struct err *e);

#endif
