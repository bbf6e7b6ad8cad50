/* dialect - how one kind of server is asked: a file harness/engines/dialect_NAME.c that defines DIALECT(NAME)
 *
 * A dialect makes requests and reads answers and touches no connection, so recorded answers are read by the same code
 * as live ones.
 */
#ifndef ASSAY_ENGINES_DIALECT_H
#define ASSAY_ENGINES_DIALECT_H

#include "harness/engines/reply.h"

enum ask_kind {
    ASK_GENERATE, /* greedy decode */
    ASK_NEXT,     /* the row after ids, and its argmax; warm: on what the server remembers of the ids before */
    ASK_PROMPT,   /* one pass: rows about ids[from..n-1] */
};

struct server_ask {
    enum ask_kind kind;
    const int32_t *ids;
    int n, from;
    int max_new, stop_at_eos, top_k;
    int warm, slot;
    int cached;               /* ids that must come from what the server remembers, where it tells; -1: any number */
    const char *model, *salt; /* salt: what is remembered under another one is not used */
    int vocab;
    enum value_kind values;
    const json_t *fields; /* flags that go by request field; NULL: none */
};

/* What a server says about itself. */
struct server_facts {
    json_t *build;   /* object; new reference */
    char model[256]; /* the only model that it serves; "" when there are several or it does not say */
    json_t *models;  /* array of names; new reference, NULL when not said */
    int vocab;       /* 0: not said */
    int slots;       /* 0: not said */
    char version[64];
};

struct dialect {
    const char *name; /* as on the command line */
    const char *summary;
    const char *evidence; /* "recorded" answers of a real server, or "documented" */
    const char *path;     /* of every ask */
    const char *reset;    /* POSTed before a cold ask so that nothing is remembered; NULL: the request can say it */
    int prompt_rows;      /* 1: ASK_PROMPT is known; else one pass is made of cold ASK_NEXT */
    int top_k_max;        /* 0: no limit known */
    float clamp;          /* log-probabilities at or below stand for a probability of 0 */
    const char *probe[4]; /* paths that are read when the server is reached, NULL-terminated */
    int (*facts)(const char *path, const json_t *answer, struct server_facts *f, struct err *e);
    /* New reference. */
    json_t *(*request)(const struct server_ask *q);
    /* s: zeroed; ids and rows as asked (ASK_PROMPT: rows alone). *fed: prompt ids that the server says it was fed, NULL
     * when it does not say; malloc'ed. E_ENGINE says what is wrong. */
    int (*read)(const json_t *answer, const struct server_ask *q, struct stream *s, int32_t **fed, int *feds,
                struct err *e);
};

#define DIALECT(NAME) const struct dialect dialect_##NAME

extern const struct dialect *const dialect_all[]; /* NULL-terminated, made by the Makefile */
const struct dialect *dialect_find(const char *name);

/* Reads a whole answer with its status and type, as it came: what is no 200 or no JSON becomes E_ENGINE with the
 * server's own words. */
int dialect_read(const struct dialect *d, long status, const char *content_type, const char *text, size_t bytes,
                 const struct server_ask *q, struct stream *s, int32_t **fed, int *feds, struct err *e);

/* Shared by the dialects. */
json_t *ids_json(const int32_t *ids, int n);
const char *member_text(const json_t *o, const char *key); /* "" when it is no string */
int read_finish(const char *finish, const char *stop, const char *length, struct stream *s, struct err *e);
/* The only element of "choices". NULL with e set. */
json_t *only_choice(const json_t *answer, struct err *e);
/* vLLM: `n` dictionaries {"<id>": {"logprob": x, ...}} about ids[q->from..q->n-1] -> the view. */
int read_prompt_logprobs(const json_t *list, const struct server_ask *q, struct stream *s, float clamp, struct err *e);
/* "token_id:17" -> 17; -1: it is not of this form. */
int token_id_of(const char *text);

#endif
