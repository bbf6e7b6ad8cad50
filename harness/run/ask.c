#include "harness/run/ask.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX 64
#define AT_ONCE     64 /* answers that are stored together, when the store is slower than the engine */

/* Counters when an answer was last handed over: by a slot, or by any where the engine cannot tell slots apart. */
struct mark {
    struct counter counter[COUNTERS_MAX];
    int counters;
};

struct asking {
    struct engine *engine;
    const struct battery *battery;
    int top_k;
    struct job **order; /* longest prompts first, so that no long one is left to the end */
    int jobs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int next, working, stop; /* under the lock, as all below */
    struct answered *queue;  /* answered, not stored yet; never more than PHASES * jobs in all */
    int head, tail;
    struct mark *mark; /* one a worker */
    struct err err;
};

struct worker {
    struct asking *a;
    int slot;
    pthread_t thread;
};

static int ask_one(struct asking *a, int slot, struct job *j, enum run_phase phase, struct err *e)
{
    static const enum engine_mode mode[PHASES] = {MODE_GENERATE, MODE_FORCE_DECODE, MODE_FORCE_PREFILL};
    struct sequence seq = {.name = j->fed->name, .prompt = j->fed->ids, .prompts = j->fed->n};
    if (phase != PHASE_FREE) {
        seq.forced = j->golden->ids;
        seq.forceds = j->golden->n;
    }
    struct engine_request req = {.mode = mode[phase],
                                 .seq = &seq,
                                 .seqs = 1,
                                 .max_new = a->battery->max_new_tokens,
                                 .stop_at_eos = a->battery->stop_at_eos,
                                 .top_k = a->engine->has_logits ? a->top_k : 0,
                                 .row_hash = a->engine->bf16_rows};
    int rc = a->engine->ops->answer(a->engine, slot, &req, &j->answer[phase], e);
    if (rc)
        stream_free(&j->answer[phase]);
    return rc;
}

static void look(struct engine *g, int slot, struct mark *m)
{
    m->counters = g->ops->slot_counters ? g->ops->slot_counters(g, slot, m->counter, COUNTERS_MAX)
                  : g->ops->counters    ? g->ops->counters(g, m->counter, COUNTERS_MAX)
                                        : 0;
    m->counters = m->counters < COUNTERS_MAX ? m->counters : COUNTERS_MAX;
}

/* The answer goes with the counters of what ran for it. Under the lock. */
static int count(struct asking *a, int slot, struct stream *st, struct err *e)
{
    struct mark now, *before = &a->mark[a->engine->ops->slot_counters ? slot : 0];
    look(a->engine, slot, &now);
    if (!now.counters || st->counters) /* an engine may have counted for itself */
        return OK;
    st->counter = calloc((size_t)now.counters, sizeof *st->counter);
    if (!st->counter)
        return FAIL(e, E_NOMEM, "out of memory for %d counters", now.counters);
    st->counters = counters_since(now.counter, now.counters, before->counter, before->counters, st->counter);
    *before = now;
    return OK;
}

static int hand_over(struct asking *a, int slot, struct job *j, enum run_phase phase, struct err *e)
{
    pthread_mutex_lock(&a->lock);
    int rc = count(a, slot, &j->answer[phase], e);
    if (!rc) {
        j->have[phase] = 1;
        a->queue[a->tail++] = (struct answered){j, phase};
        pthread_cond_signal(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return rc;
}

static int ids_differ(const struct job *j)
{
    const struct stream *s = &j->answer[PHASE_FREE];
    return s->n != j->golden->n || memcmp(s->ids, j->golden->ids, (size_t)s->n * sizeof *s->ids);
}

static int wanted(const struct asking *a, const struct job *j, enum run_phase phase)
{
    if (j->have[phase])
        return 0;
    if (phase == PHASE_FREE)
        return 1;
    if (!j->golden || !j->golden->n || !j->have[PHASE_FREE] || !a->engine->has_logits)
        return 0;
    /* With the golden's ids the free run already holds the decode-shaped rows. */
    return phase == PHASE_FORCE_PREFILL || ids_differ(j);
}

/* A record that cannot be asked about other ids (E_MISSING) is no news; an engine that failed is. */
static void note_missing(struct job *j, enum run_phase phase, int code, const struct err *why)
{
    static const char *const shape[PHASES] = {"", " forced token by token", " forced in one pass"};
    if (phase == PHASE_FREE && code == E_MISSING)
        snprintf(j->missing, sizeof j->missing, "%.255s", why->text);
    else if (code == E_ENGINE && !*j->missing)
        snprintf(j->missing, sizeof j->missing, "%.60s%s: %.160s", j->fed->name, shape[phase], why->text);
}

static int ask_job(struct asking *a, int slot, struct job *j, struct err *e)
{
    for (enum run_phase phase = PHASE_FREE; phase < PHASES; phase++) {
        struct err mine = {0};
        if (!wanted(a, j, phase))
            continue;
        int rc = ask_one(a, slot, j, phase, &mine);
        if (rc == E_MISSING || (rc == E_ENGINE && a->engine->ops->isolated)) {
            note_missing(j, phase, rc, &mine);
            continue;
        }
        if (rc || hand_over(a, slot, j, phase, &mine)) {
            *e = mine;
            return err_prefix(e, "prompt %s", j->fed->name);
        }
    }
    return OK;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct asking *a = w->a;
    pthread_mutex_lock(&a->lock);
    while (!a->stop && a->next < a->jobs) {
        struct job *j = a->order[a->next++];
        struct err e = {0};
        pthread_mutex_unlock(&a->lock);
        int rc = ask_job(a, w->slot, j, &e);
        pthread_mutex_lock(&a->lock);
        if (rc) {
            a->stop = 1;
            if (a->err.code == OK)
                a->err = e;
        }
    }
    a->working--;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Stores answers as they come, until the last worker has gone. What was answered before a failure is stored too. */
static void store_answers(struct asking *a, put_answers *put, void *arg)
{
    int broken = 0;
    pthread_mutex_lock(&a->lock);
    while (a->working || a->head < a->tail) {
        if (a->head == a->tail) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        int n = a->tail - a->head < AT_ONCE ? a->tail - a->head : AT_ONCE;
        const struct answered *waiting = &a->queue[a->head];
        struct err e = {0};
        a->head += n;
        pthread_mutex_unlock(&a->lock);
        broken = broken || put(arg, waiting, n, &e);
        pthread_mutex_lock(&a->lock);
        if (e.code != OK) {
            a->stop = 1;
            if (a->err.code == OK)
                a->err = e;
        }
    }
    pthread_mutex_unlock(&a->lock);
}

static int longer_first(const void *x, const void *y)
{
    const struct job *a = *(struct job *const *)x, *b = *(struct job *const *)y;
    return a->fed->n != b->fed->n ? (a->fed->n < b->fed->n ? 1 : -1) : (a > b) - (a < b);
}

int ask_all(struct engine *g, const struct battery *b, int top_k, struct job *job, int jobs, put_answers *put,
            void *arg, struct err *e)
{
    struct worker worker[WORKERS_MAX];
    struct asking a = {.engine = g, .battery = b, .top_k = top_k, .jobs = jobs};
    int workers = g->slots < 1 ? 1 : g->slots > WORKERS_MAX ? WORKERS_MAX : g->slots, started = 0;
    workers = workers > jobs ? jobs : workers;
    a.order = calloc((size_t)jobs + 1, sizeof *a.order);
    a.queue = calloc((size_t)jobs * PHASES + 1, sizeof *a.queue);
    a.mark = calloc((size_t)workers + 1, sizeof *a.mark);
    if (!a.order || !a.queue || !a.mark) {
        FAIL(&a.err, E_NOMEM, "out of memory for %d prompts", jobs);
        goto out;
    }
    for (int i = 0; i < jobs; i++)
        a.order[i] = &job[i];
    for (int i = 0; i < workers && (i == 0 || g->ops->slot_counters); i++)
        look(g, i, &a.mark[i]);
    qsort(a.order, (size_t)jobs, sizeof *a.order, longer_first);
    pthread_mutex_init(&a.lock, NULL);
    pthread_cond_init(&a.changed, NULL);
    for (; started < workers; started++) {
        worker[started] = (struct worker){.a = &a, .slot = started};
        pthread_mutex_lock(&a.lock);
        a.working++;
        pthread_mutex_unlock(&a.lock);
        if (pthread_create(&worker[started].thread, NULL, work, &worker[started])) {
            pthread_mutex_lock(&a.lock);
            a.working--;
            a.stop = 1;
            FAIL(&a.err, E_IO, "cannot start thread %d of %d", started + 1, workers);
            pthread_mutex_unlock(&a.lock);
            break;
        }
    }
    store_answers(&a, put, arg);
    for (int i = 0; i < started; i++)
        pthread_join(worker[i].thread, NULL);
    pthread_cond_destroy(&a.changed);
    pthread_mutex_destroy(&a.lock);
out:
    free(a.order);
    free(a.queue);
    free(a.mark);
    return a.err.code ? FAIL(e, a.err.code, "%s", a.err.text) : OK;
}
