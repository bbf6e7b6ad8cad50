/* answer - the three kinds of request, on the native engine; private to the native adapters */
#ifndef ASSAY_HARNESS_NATIVE_ANSWER_H
#define ASSAY_HARNESS_NATIVE_ANSWER_H

#include "harness/engine.h"
#include "harness/native/native.h"

/* One worker: a session that grows with the requests. */
struct native_slot {
    const struct native *native;
    struct native_session *session;
    struct team *team; /* owned by the adapter; NULL is fine */
    native_tap *tap;   /* NULL is fine */
    void *tap_arg;
    int sequences, positions;
    uint16_t *logits;            /* [64][vocab] */
    int64_t steps;               /* that the requests so far call for */
    struct native_counts before; /* of sessions that were replaced */
};

void native_slot_close(struct native_slot *s); /* zeroed is fine */
int native_answer(struct native_slot *s, const struct engine_request *q, struct stream *answers, struct err *e);
/* Counters so far, old sessions included. */
struct native_counts native_slot_counts(const struct native_slot *s);

/* Keeps of a full bf16 row what the request asks for, as row `at` of the view. */
void keep_row(const struct engine_request *q, struct view *v, int at, const uint16_t *row, int vocab);
/* Largest value, lowest id among equals. */
int row_argmax(const uint16_t *row, int vocab);

#endif
