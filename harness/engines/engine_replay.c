/* replay - an engine that answers with what another arm or program has said
 *
 * replay:FILE[.zst], replay:PIPE, replay:- [batch=alone|0|1|2|...]. It judges the judge: recorded streams go through
 * the same comparison as live ones. It cannot be asked anything new: a forced run is answered only where the recorded
 * ids are the forced ones.
 */
#include "harness/engine.h"
#include "harness/engines/replay_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern ENGINE(replay);

struct replay {
    struct engine engine;
    struct golden *file;
    char path[512];
    int batch; /* -1: alone */
};

static int parse_flags(struct replay *r, const struct engine_open *o, struct err *e)
{
    r->batch = -1;
    for (int i = 0; i < o->flags; i++) {
        const struct engine_flag *f = &o->flag[i];
        char *end;
        if (strcmp(f->name, "batch"))
            return FAIL(e, E_USAGE, "replay has no flag \"%s\"; it takes batch=alone|0|1|2", f->name);
        if (!strcmp(f->value, "alone"))
            continue;
        long pass = strtol(f->value, &end, 10);
        if (!*f->value || *end || pass < 0 || pass > 63)
            return FAIL(e, E_USAGE, "batch=%s: must be alone or the number of a batch pass, from 0", f->value);
        r->batch = (int)pass;
    }
    return OK;
}

static void name_arm(struct replay *r, const char *hash)
{
    const char *slash = strrchr(r->path, '/');
    char pass[16] = "alone";
    if (r->batch >= 0)
        snprintf(pass, sizeof pass, "%d", r->batch);
    snprintf(r->engine.arm, sizeof r->engine.arm, "replay:%.120s@%.12s batch=%s", slash ? slash + 1 : r->path, hash,
             pass);
}

static void close_replay(struct engine *g)
{
    struct replay *r = (struct replay *)g;
    if (!r)
        return;
    golden_free(r->file);
    json_decref(r->engine.build);
    free(r);
}

static int open_replay(const struct engine_open *o, struct engine **out, struct err *e)
{
    char hash[SHA256_HEX_SIZE];
    struct replay *r = calloc(1, sizeof *r);
    int rc = r ? OK : FAIL(e, E_NOMEM, "out of memory");
    if (rc == OK && !*o->spec)
        rc = FAIL(e, E_USAGE, "replay needs a file: replay:FILE");
    if (rc)
        goto out;
    snprintf(r->path, sizeof r->path, "%s", o->spec);
    if ((rc = parse_flags(r, o, e)) || (rc = replay_read(r->path, &r->file, hash, e)))
        goto out;
    r->engine.ops = &engine_replay;
    r->engine.slots = 1;
    for (int i = 0; i < r->file->prompts; i++)
        r->engine.has_logits |= r->batch < 0 && r->file->prompt[i].decode.rows > 0;
    name_arm(r, hash);
    r->engine.build = json_pack("{s:s,s:s,s:O?}", "name", "replay", "file_sha256", hash, "recorded", r->file->header);
    *out = &r->engine;
    r = NULL;
out:
    close_replay((struct engine *)r);
    return rc;
}

static int copy_ids(const int32_t *ids, int n, struct stream *s, struct err *e)
{
    s->ids = malloc((n ? (size_t)n : 1) * sizeof *s->ids);
    if (!s->ids)
        return FAIL(e, E_NOMEM, "out of memory for %d ids", n);
    memcpy(s->ids, ids, (size_t)n * sizeof *ids);
    s->n = n;
    return OK;
}

static int copy_view(const struct view *v, struct view *out, struct err *e)
{
    if (!v->rows)
        return OK;
    size_t cells = (size_t)v->rows * (size_t)v->top_k;
    int rc = view_alloc(out, v->rows, v->top_k, v->row_sha256 != NULL, e);
    if (rc)
        return rc;
    out->kind = v->kind;
    memcpy(out->top_ids, v->top_ids, cells * sizeof *v->top_ids);
    memcpy(out->top_values, v->top_values, cells * sizeof *v->top_values);
    memcpy(out->logsumexp, v->logsumexp, (size_t)v->rows * sizeof *v->logsumexp);
    if (v->row_sha256)
        memcpy(out->row_sha256, v->row_sha256, (size_t)v->rows * SHA256_BYTES);
    return OK;
}

static int answer_free(const struct replay *r, const struct golden_prompt *p, const struct engine_request *req,
                       struct stream *s, struct err *e)
{
    const int32_t *ids = p->ids;
    int n = p->n, rc;
    enum finish finish = p->finish;
    if (r->batch >= p->batches)
        return FAIL(e, E_MISSING, "%s: prompt %s has %d batch passes, no pass %d", r->path, p->name, p->batches,
                    r->batch);
    if (r->batch >= 0 && p->batch[r->batch].ids) {
        ids = p->batch[r->batch].ids;
        n = p->batch[r->batch].n;
        finish = (enum finish) - 1;
    }
    if ((rc = copy_ids(ids, n, s, e)))
        return rc;
    /* Where the record does not say why it ended, a short stream can only have stopped. */
    s->finish = finish != (enum finish) - 1 ? finish : n < req->max_new ? FINISH_STOP : FINISH_LENGTH;
    return r->batch < 0 ? copy_view(&p->decode, &s->view, e) : OK;
}

/* Argmax of each row, the lowest id among equals: the greedy rule of the oracle. */
static void argmax_rows(const struct view *v, int32_t *ids)
{
    for (int row = 0; row < v->rows; row++) {
        const float *x = v->top_values + (size_t)row * (size_t)v->top_k;
        const int32_t *id = v->top_ids + (size_t)row * (size_t)v->top_k;
        int best = 0;
        for (int i = 1; i < v->top_k && id[i] >= 0; i++)
            if (x[i] > x[best] || (x[i] == x[best] && id[i] < id[best]))
                best = i;
        ids[row] = id[best];
    }
}

static int same_prompt(const struct golden_prompt *p, const struct sequence *q)
{
    return p->prompts < 0 ||
           (p->prompts == q->prompts && !memcmp(p->prompt_ids, q->prompt, (size_t)q->prompts * sizeof *q->prompt));
}

static int answer_forced(const struct replay *r, const struct golden_prompt *p, const struct engine_request *req,
                         struct stream *s, struct err *e)
{
    const struct sequence *q = req->seq;
    const struct view *v = req->mode == MODE_FORCE_DECODE ? &p->decode : &p->prefill;
    if (r->batch >= 0 || !v->rows || !same_prompt(p, q) || v->rows != p->n || q->forceds != p->n ||
        memcmp(q->forced, p->ids, (size_t)p->n * sizeof *p->ids))
        return FAIL(e, E_MISSING, "%s: prompt %s: a record cannot be asked about ids that it does not hold", r->path,
                    p->name);
    int rc = copy_ids(p->ids, p->n, s, e);
    if (rc || (rc = copy_view(v, &s->view, e)))
        return rc;
    if (req->mode == MODE_FORCE_PREFILL)
        argmax_rows(&s->view, s->ids);
    return OK;
}

static int answer(struct engine *g, int slot, const struct engine_request *req, struct stream *answers, struct err *e)
{
    struct replay *r = (struct replay *)g;
    (void)slot;
    for (int i = 0; i < req->seqs; i++) {
        const struct sequence *q = &req->seq[i];
        struct engine_request one = *req;
        const struct golden_prompt *p = golden_find(r->file, q->name);
        one.seq = q;
        if (!p)
            return FAIL(e, E_MISSING, "%s: no prompt \"%s\"", r->path, q->name);
        int rc = req->mode == MODE_GENERATE ? answer_free(r, p, &one, &answers[i], e)
                                            : answer_forced(r, p, &one, &answers[i], e);
        if (rc)
            return rc;
    }
    return OK;
}

static int counters(struct engine *g, struct counter *out, int max)
{
    (void)g, (void)out, (void)max;
    return 0;
}

static int fed(struct engine *g, const char *prompt, const int32_t **ids, int *n)
{
    const struct golden_prompt *p = golden_find(((struct replay *)g)->file, prompt);
    if (!p || p->prompts < 0)
        return 0;
    *ids = p->prompt_ids;
    *n = p->prompts;
    return 1;
}

ENGINE(replay) = {
    .name = "replay",
    .summary = "recorded ids of another arm or program",
    .recording = 1,
    .flag_help = "batch=alone|0|1|2",
    .open = open_replay,
    .close = close_replay,
    .answer = answer,
    .counters = counters,
    .fed = fed,
};
