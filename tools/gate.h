/* gate - gathers what a policy asks for: evidence that the store has is reused, the rest is made
 *
 * Every piece of evidence is stored when it is complete, before the next is begun.
 */
#ifndef ASSAY_TOOLS_GATE_H
#define ASSAY_TOOLS_GATE_H

#include "goldens/store.h"
#include "harness/gate/policy.h"
#include "tools/session.h"

#define GATE_ITEMS 256

struct gate_item {
    enum gate_check check;
    char set[96], about[128]; /* which flags, which model and battery */
    enum outcome outcome;
    int reused;     /* the store had it */
    int64_t run;    /* 0: none, or several */
    char text[480]; /* what was found, or what is missing */
};

struct gate {
    struct tool *tool;
    struct store *store;
    struct flag_set flags;
    struct policy policy;
    const struct flag *flag;
    int on, sets, items;
    struct gate_set set[GATE_SETS];
    struct gate_item item[GATE_ITEMS];
};

/* Adds an item; its text is empty. NULL with e set when there are too many. */
struct gate_item *gate_add(struct gate *g, enum gate_check c, const struct gate_set *set, const char *about,
                           struct err *e);
__attribute__((format(printf, 3, 4))) void gate_say(struct gate_item *i, enum outcome o, const char *fmt, ...);

/* The policy's fixed words and every flag at the set's value; words[n] are valid until the next call. */
int gate_words(const struct gate *g, const struct gate_set *set, char **words);
int gate_open(const struct gate *g, const struct gate_set *set, const char *model, const char *battery,
              const char *more, struct session *s, struct err *e);

/* What evidence is evidence of: check, arm, hashes of model, battery and golden, this build, the policy's section. New
 * reference. */
json_t *gate_key(const struct gate *g, enum gate_check c, const struct session *s);
/* The newest ledger row of kind "evidence" with that very key: its object, or NULL. New reference. */
int gate_recall(const struct gate *g, const json_t *key, json_t **found, struct err *e);
/* Seals what an item found as evidence with that key. detail is stolen, NULL is fine. */
int gate_record(const struct gate *g, const json_t *key, const struct gate_item *i, json_t *detail, struct err *e);
/* Recall into an item: 1 when it was there. */
int gate_reuse(const struct gate *g, const json_t *key, struct gate_item *i, struct err *e);

/* Each check adds its items; E_... only for what is no finding (usage, a damaged store). */
int gate_parity(struct gate *g, const struct gate_set *set, struct err *e); /* and counters */
int gate_determinism(struct gate *g, const struct gate_set *set, struct err *e);
int gate_graph(struct gate *g, const struct gate_set *set, struct err *e);
int gate_batch(struct gate *g, const struct gate_set *set, struct err *e);
int gate_mutants(struct gate *g, const struct gate_set *set, struct err *e);
int gate_memory(struct gate *g, const struct gate_set *set, struct err *e);
int gate_bench(struct gate *g, const struct gate_set *set, struct err *e);

#endif
