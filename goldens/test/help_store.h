/* help_store - stores in the scratch folder, streams of odd floats, and a small sound store to damage */
#ifndef ASSAY_TEST_HELP_STORE_H
#define ASSAY_TEST_HELP_STORE_H

#include "goldens/store.h"

extern const struct run_key test_key;

/* NAME of the scratch folder, opened; the test fails when it cannot be. Caller closes. */
struct store *store_opened(const char *name);
int64_t store_run_of(struct store *s, const struct run_key *k, int fresh);
/* What store_check says, a line each; "error: ..." when it could not look. Valid until the next call. */
const char *store_complaints(struct store *s);
/* Runs SQL on a file of the scratch folder behind the store's back; the test fails when SQLite refuses. */
void store_sql(const char *name, const char *text);

/* n ids and `rows` rows of two values, infinities and NaN among them, as a function of the seed. Caller frees. */
struct stream stream_made(int n, int rows, int hashed, unsigned seed);
/* Three goldens (models m0 to m2, battery b), one run judged FAIL with a stream and a position. */
void store_sound(const char *name);

#endif
