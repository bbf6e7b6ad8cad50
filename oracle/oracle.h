/* oracle - what is trusted: it says the logits that a golden is made of
 *
 * A file oracle/oracle_NAME.c defines ORACLE(NAME). Logits are rounded to bf16 once, at the end, so that the razor's
 * ULP means the same for every oracle.
 */
#ifndef ASSAY_ORACLE_H
#define ASSAY_ORACLE_H

#include "harness/base/err.h"
#include "harness/base/model.h"

#include <jansson.h>
#include <stdint.h>

struct oracle;

/* Row i of a feed: bf16 logits [vocab], borrowed for the call. */
typedef void oracle_row(void *arg, int row, const uint16_t *logits, int vocab);

struct oracle_ops {
    const char *name, *summary;
    /* The model is borrowed until close. */
    int (*open)(const struct model *m, struct oracle **o, struct err *e);
    void (*close)(struct oracle *o); /* NULL is fine */
    void (*reset)(struct oracle *o); /* forgets the sequence */
    /* Feeds n ids after what was fed before, in one pass; shows the rows from first_row on. */
    int (*feed)(struct oracle *o, const int32_t *ids, int n, int first_row, oracle_row *show, void *arg, struct err *e);
    /* name, version, dtype, regime: what a golden's header says about its oracle. New reference. */
    json_t *(*provenance)(const struct oracle *o);
};

#define ORACLE(NAME) const struct oracle_ops oracle_##NAME

extern const struct oracle_ops *const oracle_all[];     /* NULL-terminated, made by the Makefile */
const struct oracle_ops *oracle_find(const char *name); /* NULL: none of that name */

#endif
