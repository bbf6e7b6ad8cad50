/* flags - an engine's flags, their defaults and stages of life: batteries/flags.json
 *
 * The engine reads its defaults from that file and nothing but a granted flip edits it.
 */
#ifndef ASSAY_GATE_FLAGS_H
#define ASSAY_GATE_FLAGS_H

#include "harness/base/err.h"

#include <jansson.h>

#define FLAGS_MAX 32

enum flag_stage {
#define FLAG_STAGE(name, spelling, on, flips, text) name,
#include "harness/gate/flag_stage.def"
#undef FLAG_STAGE
    STAGE_COUNT
};

struct flag {
    char name[48], engine[32], device[16]; /* device "": any of the engine's */
    char summary[256];
    char since[16], removal[16]; /* removal "": none is planned */
    char spelling[2][32];        /* the engine's other word for off and on ("route=dense"), "" when there is none */
    enum flag_stage stage;
    int on; /* the default */
};

struct flag_set {
    char path[1024], version[16];
    struct flag flag[FLAGS_MAX];
    int flags;
    json_t *file;
};

/* DIR/batteries/flags.json. E_INPUT names the flag and what is wrong with it. Caller frees. */
int flags_read(const char *data_dir, struct flag_set *s, struct err *e);
void flags_free(struct flag_set *s); /* zeroed is fine */

/* NULL: none of that name. */
const struct flag *flags_find(const struct flag_set *s, const char *name);
/* Reads "FLAG=VALUE", also in the engine's other word. E_USAGE says what there is. */
int flags_parse(const struct flag_set *s, const char *word, const struct flag **f, int *on, struct err *e);
/* May its default become `on`? E_USAGE says why not. */
int flags_may_flip(const struct flag *f, int on, struct err *e);
/* Writes the new default and its stage of life: a new file that takes the old one's place in one step. */
int flags_flip(struct flag_set *s, const struct flag *f, int on, struct err *e);

/* A deprecated flag that was set: the one sentence that says so. */
void flags_deprecation(const struct flag *f, char *out, int size);

const char *flag_stage_name(enum flag_stage stage);
static inline const char *flag_value(int on)
{
    return on ? "on" : "off";
}

#endif
