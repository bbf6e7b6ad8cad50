/* profile_engine - how somebody's engine is reached: a JSON file "assay-engine/1" in batteries/engines, or words on the
 * command line
 *
 *   NAME               batteries/engines/NAME.json of the data folder
 *   FILE.json          a file
 *   COMMAND ...        exec without a profile: every flag goes to the program
 *   DIALECT@URL        http without a profile
 */
#ifndef ASSAY_ENGINES_PROFILE_ENGINE_H
#define ASSAY_ENGINES_PROFILE_ENGINE_H

#include "harness/engine.h"

#include <stddef.h>

#define PROFILE_FLAGS 64

enum flag_via { VIA_HELLO, VIA_ARGUMENT, VIA_ENVIRONMENT, VIA_FIELD };

struct profile_flag {
    char name[64], key[128]; /* on assay's command line; what the engine calls it */
    enum flag_via via;
    const json_t *values; /* strings that are allowed; NULL: any */
    char value[128];      /* "" when it is not passed on */
};

struct engine_profile {
    json_t *json;                 /* NULL without a file; holds every borrowed string */
    char sha256[SHA256_HEX_SIZE]; /* of the file, "" without one */
    char name[64];                /* of the profile; "" without one */
    char dialect[32], url[512];
    char **command; /* exec: the program; http: how the server is started, NULL: it runs already */
    int commands;
    char command_text[512]; /* as it was given */
    struct profile_flag flag[PROFILE_FLAGS];
    int flags, any_flag;    /* any_flag: flags that are not listed go to the program */
    char served[256];       /* the model's name at the server; "" when not said */
    int vocab, top_k;       /* 0: not said */
    int slots;              /* answers at once, at least 1 */
    enum value_kind values; /* of top lists */
    int values_said;
    double connect_seconds, answer_seconds, ready_seconds;
    size_t answer_bytes;
    char ready_path[128], token_file[512], ca_file[512], log_file[512];
};

/* adapter: "exec" or "http". Own words of every adapter: slots=N timeout=S ready=S model=NAME vocab=N
 * values=logit|logprob. Caller
 * frees with engine_profile_free, also after a failure. */
int engine_profile_open(const char *adapter, const struct engine_open *o, struct engine_profile *p, struct err *e);
void engine_profile_free(struct engine_profile *p); /* zeroed is fine */
/* The command with {port}, {model}, {model_dir} filled in and the flags that go by argument behind it. Caller frees
 * with words_free. */
int engine_profile_command(const struct engine_profile *p, const struct model *m, int port, char ***argv,
                           struct err *e);
/* "NAME=value" words of the flags that go by environment. Caller frees with words_free. */
int engine_profile_environment(const struct engine_profile *p, char ***env, struct err *e);
/* Flags at their values, " name=value ...", for an arm. */
void engine_profile_flags_text(const struct engine_profile *p, char *out, size_t size);

/* Profiles in the data folder: array of the files' objects with "file"; new reference. */
json_t *engine_profile_list(const char *data_dir, struct err *e);

#endif
