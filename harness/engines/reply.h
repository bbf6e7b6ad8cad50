/* reply - what a foreign engine said, checked before anything of it is believed
 *
 * Ids must lie in the vocabulary; a list may not name an id twice; an emitted id must be its own list's maximum, else
 * the engine is not greedy. Everything that fails is E_ENGINE with the place.
 */
#ifndef ASSAY_ENGINES_REPLY_H
#define ASSAY_ENGINES_REPLY_H

#include "harness/engine.h"

struct listed {
    int32_t id;
    float value;
};

/* Parses text as one JSON object. E_ENGINE: it is not, with its first characters. New reference. */
json_t *reply_parse(const char *text, size_t bytes, struct err *e);
/* The first characters of an untrusted text, made harmless; for messages. */
void reply_excerpt(const char *text, size_t bytes, char *out, size_t size);
/* Array of ids of the vocabulary -> malloc'ed. */
int reply_ids(const json_t *a, const char *what, int vocab, int32_t **ids, int *n, struct err *e);
/* A number, "nan", "inf" or "-inf". */
int reply_value(const json_t *v, float *out, struct err *e);
/* Puts a row into v: sorts larger first (lower id among equals), keeps v->top_k. An entry of a clamped zero probability
 * (at or below clamp) is left out. Fewer than wanted are padded with -1. */
int reply_row(struct view *v, int row, struct listed *list, int n, int vocab, float clamp, struct err *e);
/* ids[r] must be a maximum of row r. */
int reply_greedy(const struct stream *s, struct err *e);
/* Log-probabilities above 0 are none. */
int reply_kind(const struct view *v, struct err *e);
/* The first of equal maxima of each row, the lowest id. ids[v->rows]. */
void reply_argmax(const struct view *v, int32_t *ids);

/* Every id of a request against the vocabulary, before it is sent. E_INPUT. */
int request_check(const struct engine_request *q, int vocab, struct err *e);

#endif
