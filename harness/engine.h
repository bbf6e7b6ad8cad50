/* engine - what emits tokens: one struct of function pointers an adapter
 *
 * An adapter is a file harness/engines/engine_NAME.c that defines ENGINE(NAME). The spec on the command line is
 * NAME or NAME:REST; flags are "flag=value" words. An engine answers requests in up to `slots` threads at once; the
 * same request gives the same answer whatever the slot.
 */
#ifndef ASSAY_ENGINE_H
#define ASSAY_ENGINE_H

#include "harness/base/counter.h"
#include "harness/base/err.h"
#include "harness/base/golden.h"
#include "harness/base/model.h"

#include <jansson.h>
#include <stdint.h>

enum engine_mode {
    MODE_GENERATE,      /* greedy decode, all sequences of the request submitted at once */
    MODE_FORCE_DECODE,  /* feed `forced` one id at a time on a warm cache: decode-shaped rows */
    MODE_FORCE_PREFILL, /* one pass over prompt + forced: prefill-shaped rows */
};

struct sequence {
    const char *name; /* of the prompt; replay looks it up */
    const int32_t *prompt, *forced;
    int prompts, forceds; /* counts */
};

struct engine_request {
    enum engine_mode mode;
    const struct sequence *seq;
    int seqs;        /* 1, or up to 64: companions of one batch */
    int max_new;     /* MODE_GENERATE */
    int stop_at_eos; /* MODE_GENERATE */
    int top_k;       /* rows keep that many values; 0: none */
    int row_hash;    /* also hash full rows, where the engine has bf16 rows */
};

struct engine_flag {
    const char *name, *value;
};

struct engine_open {
    const char *spec; /* after NAME:, "" when absent */
    const struct engine_flag *flag;
    int flags;
    const struct model *model; /* NULL for engines that need none */
    const char *data_dir;      /* where shipped data lies */
    int threads;               /* 0: one a CPU */
};

struct engine;

/* Sees the output of every op of every forward step, in order: bf16 [rows,cols]. Layer -1: not in a layer. Where the
 * engine says so (tap_feeds), what it leaves in data is what the next ops read. */
typedef void engine_tap(void *arg, int layer, const char *op, uint16_t *data, int rows, int cols);

struct engine_ops {
    const char *name, *summary;
    int needs_model;
    int wants_model; /* 1: opens the model where its files are at hand, and can do without */
    int isolated;    /* 1: an answer that fails (E_ENGINE) says nothing about the next, and costs its own prompt only */
    int recording;   /* 1: answers from a record; cannot be asked anything new, stands for any model */
    const char *flag_help; /* "route=dense|grouped|par1  reduce=f32|f16 ..." */
    /* Caller closes. Unknown flags or values: E_USAGE that says what is valid. */
    int (*open)(const struct engine_open *o, struct engine **out, struct err *e);
    void (*close)(struct engine *g); /* NULL is fine */
    /* answers[req->seqs], zeroed by the caller. slot < slots. */
    int (*answer)(struct engine *g, int slot, const struct engine_request *req, struct stream *answers, struct err *e);
    /* Shows the ops of slot 0 to tap from now on. NULL: this engine cannot be looked into. */
    int (*tap)(struct engine *g, engine_tap *tap, void *arg, struct err *e);
    int tap_feeds; /* 1: what a tap changes goes on */
    /* Fills up to max counters, sums over all slots since open; returns how many there are. */
    int (*counters)(struct engine *g, struct counter *out, int max);
    /* NULL is fine. The same of one slot, asked between its answers: so each answer is stored with its own counters.
     * Without it they are shared out as answers come, and a process that is killed takes some with it. */
    int (*slot_counters)(struct engine *g, int slot, struct counter *out, int max);
    /* NULL is fine. The prompt ids that the arm says it was fed (a server that tokenises itself, a record); 0 when it
     * does not say. Borrowed until the engine closes. */
    int (*fed)(struct engine *g, const char *prompt, const int32_t **ids, int *n);
};

struct engine {
    const struct engine_ops *ops;
    int slots;          /* answers that may run at once */
    int vocab;          /* ids are below; 0: that of the model that it was opened with */
    int has_logits;     /* views are filled */
    int bf16_rows;      /* row_sha256 is filled on request */
    char arm[256];      /* every flag at its value: "native:cpu gpu=h200 reduce=f32 route=dense" */
    json_t *build;      /* what it is: version, commit, compiler, CPU features, GPU profile; owned */
    char warning[256];  /* "" or what its caller should know: a deprecated flag was set */
    char forecast[256]; /* "" or why its bytes are a forecast (profile rests on documentation) */
};

#define ENGINE(NAME) const struct engine_ops engine_##NAME

/* NULL when there is none of that name (the part of spec before ':'). */
const struct engine_ops *engine_find(const char *spec);
extern const struct engine_ops *const engine_all[]; /* NULL-terminated, made by the Makefile */

/* Finds, opens and parses "flag=value" words. */
int engine_open_spec(const char *spec, char *const *words, int n, const struct model *m, const char *data_dir,
                     int threads, struct engine **out, struct err *e);

#endif
