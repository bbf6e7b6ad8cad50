#include "harness/bench/logits.h"

#include "goldens/logits.h"
#include "goldens/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEASURE_S 1.0

struct rows {
    uint16_t *row;
    int n, room, vocab, failed;
};

/* Of this thread alone: a core's figure, also on a machine that others use. */
static double core_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The last row of a step speaks about the next token; a prompt's earlier rows are not kept. */
static void keep(void *arg, int layer, const char *op, uint16_t *data, int rows, int cols)
{
    struct rows *r = arg;
    if (layer >= 0 || strcmp(op, "logits") || r->failed)
        return;
    if (r->n == r->room) {
        int room = r->room ? 2 * r->room : 256;
        uint16_t *more = realloc(r->row, (size_t)room * (size_t)cols * sizeof *more);
        if (!more) {
            r->failed = 1;
            return;
        }
        r->row = more;
        r->room = room;
    }
    r->vocab = cols;
    memcpy(r->row + (size_t)r->n++ * (size_t)cols, data + (size_t)(rows - 1) * (size_t)cols, (size_t)cols * 2);
}

/* Every decode-shaped row of the golden's own streams. */
static int gather(const struct logits_spec *s, struct engine *g, const char *what, struct rows *r, struct err *e)
{
    struct err ignored = {0};
    if (!g->ops->tap)
        return FAIL(e, E_UNSUPPORTED, "engine %s shows no logits", g->arm);
    int rc = g->ops->tap(g, keep, r, e);
    for (int i = 0; i < s->golden->prompts && !rc; i++) {
        const struct golden_prompt *p = &s->golden->prompt[i];
        struct sequence seq = {
            .name = p->name, .prompt = p->prompt_ids, .prompts = p->prompts, .forced = p->ids, .forceds = p->n};
        struct engine_request q = {.mode = MODE_FORCE_DECODE, .seq = &seq, .seqs = 1};
        struct stream answer = {0};
        int before = r->n;
        rc = g->ops->answer(g, 0, &q, &answer, e);
        stream_free(&answer);
        if (!rc && r->n - before != p->n)
            rc = FAIL(e, E_INTERNAL, "prompt %s: %d rows of logits for %d tokens", p->name, r->n - before, p->n);
        if (s->progress)
            s->progress(s->arg, what, i + 1, s->golden->prompts);
    }
    g->ops->tap(g, NULL, NULL, &ignored);
    return rc || !r->failed ? rc : FAIL(e, E_NOMEM, "out of memory for %d rows of logits", r->n);
}

static int count_proven(const struct golden *g, const struct rows *r)
{
    int proven = 0, at = 0;
    for (int i = 0; i < g->prompts; i++)
        for (int k = 0; k < g->prompt[i].n; k++, at++) {
            uint8_t hash[SHA256_BYTES];
            const uint8_t *want = g->prompt[i].decode.row_sha256;
            sha256_of(r->row + (size_t)at * (size_t)r->vocab, (size_t)r->vocab * 2, hash);
            proven +=
                want && k < g->prompt[i].decode.rows && !memcmp(hash, want + (size_t)k * SHA256_BYTES, SHA256_BYTES);
        }
    return proven;
}

static json_t *weight(const struct rows *r, size_t bytes, int same)
{
    return json_pack("{s:i,s:I,s:f}", "same_rows", same, "bytes", (json_int_t)bytes, "bytes_10000",
                     (double)bytes / r->n * 10000);
}

/* Packs, unpacks in place of what was foretold, and compares. Where nothing is left over it goes on for a second. */
static int measure(const struct rows *r, const struct rows *foretold, json_t **weighed, double *gb_s, int *equal,
                   struct err *e)
{
    void *packed = NULL;
    size_t bytes, wide = (size_t)r->vocab * 2, raw = (size_t)r->n * wide;
    int same = 0, passes = 0;
    uint16_t *back = malloc(raw + 1);
    if (!back)
        return FAIL(e, E_NOMEM, "out of memory for %d rows of logits", r->n);
    memcpy(back, foretold->row, raw);
    int rc = logits_pack(r->row, foretold->row, r->n, r->vocab, &packed, &bytes, e);
    double start = core_seconds(), used = 0;
    while (!rc && used < MEASURE_S && (!passes || foretold == r)) {
        rc = logits_unpack(packed, bytes, back, r->n, r->vocab, "packed logits", back, e);
        used = core_seconds() - start;
        passes++;
    }
    for (int i = 0; i < r->n; i++)
        same += !memcmp(r->row + (size_t)i * (size_t)r->vocab, foretold->row + (size_t)i * (size_t)r->vocab, wide);
    *equal &= !rc && !memcmp(back, r->row, raw);
    *gb_s = (double)raw * passes / used / 1e9;
    *weighed = weight(r, rc ? 0 : bytes, same);
    free(packed);
    free(back);
    return rc;
}

/* One run of that many verdicts into a store of its own, its seal included. */
static int measure_verdicts(const struct logits_spec *s, double *seconds, struct err *e)
{
    static const char nothing[] = "0000000000000000000000000000000000000000000000000000000000000000";
    const struct run_key key = {"bench", nothing, "bench", nothing, nothing, "bench", "", NULL};
    struct verdict_row *row = calloc((size_t)s->verdicts + 1, sizeof *row);
    json_t *summary = json_object();
    struct store *store = NULL;
    int64_t run;
    int rc = row && summary ? store_open(s->store, &store, e) : FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; row && i < s->verdicts; i++) {
        row[i] = (struct verdict_row){.position = i % 1000, .verdict = V_NEAR_TIE, .golden_id = i, .arm_id = i + 1};
        snprintf(row[i].prompt, sizeof row[i].prompt, "p%06d", i / 1000);
        row[i].gap_nats = row[i].gap_bound_nats = row[i].ulp = row[i].razor_nats = 0.0625;
    }
    if (!rc)
        rc = store_run_open(store, &key, 1, &run, e);
    double start = core_seconds();
    if (!rc)
        rc = store_run_finish(store, run, row, s->verdicts, RV_PASS_BY_RAZOR, summary, e);
    *seconds = core_seconds() - start;
    store_close(store);
    unlink(s->store);
    json_decref(summary);
    free(row);
    return rc;
}

int bench_logits(const struct logits_spec *s, json_t **report, struct err *e)
{
    struct rows exact = {0}, other = {0};
    json_t *a = NULL, *b = NULL;
    double gb_s = 0, ignored, seconds = 1;
    int equal = 1;
    if (gather(s, s->exact, "logits", &exact, e) || measure(&exact, &exact, &a, &gb_s, &equal, e))
        goto out;
    if (s->other &&
        (gather(s, s->other, "another arm's", &other, e) || measure(&exact, &other, &b, &ignored, &equal, e)))
        goto out;
    if (measure_verdicts(s, &seconds, e))
        goto out;
    *report = json_pack("{s:i,s:i,s:i,s:I,s:O,s:o,s:f,s:b,s:i,s:f,s:f}", "rows", exact.n, "vocabulary", exact.vocab,
                        "proven", count_proven(s->golden, &exact), "raw_bytes", (json_int_t)exact.n * exact.vocab * 2,
                        "exact", a, "other", b ? json_incref(b) : json_null(), "unpack_gb_s", gb_s, "equal", equal,
                        "verdicts", s->verdicts, "verdicts_s", seconds, "rows_s", s->verdicts / seconds);
out:
    json_decref(a);
    json_decref(b);
    free(exact.row);
    free(other.row);
    return e->code;
}
