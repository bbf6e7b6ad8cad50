/* owed - mirrors that must still be written, remembered across the death of the process that owes them */
#ifndef ASSAY_GOLDENS_OWED_H
#define ASSAY_GOLDENS_OWED_H

#include "goldens/db.h"
#include "goldens/ratify.h"

/* Before the ledger says anything: notes that the mirror of s, and the one in folder (NULL: none), are to be written.
 * Waits for another process that is about the same. *fd is for one of the next two. */
int owed_note(struct store *s, const char *folder, int *fd, struct err *e);
/* Nothing came of it. */
void owed_forget(struct store *s, int fd);
/* Writes both and removes the note; after an error it stays. */
int owed_pay(struct store *s, const char *folder, int fd, int *files, struct err *e);
/* When a store is opened: pays what a dead process owes. What cannot be written stays owed, and `store check` names it.
 */
void owed_settle(struct store *s);

/* store_mirror without the note. */
int store_mirror_write(struct store *s, const char *folder, int *files, struct err *e);

#endif
