#include "harness/run/run.h"

#include "harness/run/anchored.h"
#include "harness/run/ask.h"
#include "harness/run/summary.h"
#include "harness/run/witness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_K 20 /* when the golden holds no rows: what a later comparison may want */

struct running {
    const struct run_options *o;
    struct job *job;
    int jobs, done;
    int64_t run;
};

static int put_list(struct running *r, const struct answered *a, int n, struct err *e)
{
    struct answer *list = calloc((size_t)n, sizeof *list);
    if (!list)
        return FAIL(e, E_NOMEM, "out of memory for %d answers", n);
    for (int i = 0; i < n; i++)
        list[i] = (struct answer){a[i].job->fed->name, a[i].phase, &a[i].job->answer[a[i].phase]};
    int rc = store_answers_put(r->o->store, r->run, list, n, e);
    for (int i = 0; i < n && !rc; i++)
        r->done += list[i].phase == PHASE_FREE;
    free(list);
    return rc;
}

/* When not all fit together (a disk that fills up), as many as fit are stored one by one. */
static int put(void *arg, const struct answered *a, int n, struct err *e)
{
    struct running *r = arg;
    struct err first = {0};
    int rc = put_list(r, a, n, &first);
    if (rc && n == 1)
        return FAIL(e, rc, "%s", first.text);
    for (int i = 0; i < n && first.code && !e->code; i++)
        rc = put_list(r, &a[i], 1, e);
    if (r->o->progress)
        r->o->progress(r->o->arg, r->done, r->jobs);
    return rc;
}

/* Answers of an earlier process that died are taken from the store. */
static int resume(struct running *r, struct err *e)
{
    int rc = OK;
    for (int i = 0; i < r->jobs && rc == OK; i++) {
        struct job *j = &r->job[i];
        for (enum run_phase phase = PHASE_FREE; phase < PHASES && rc == OK; phase++)
            rc = store_stream_get(r->o->store, r->run, j->fed->name, phase, &j->answer[phase], &j->have[phase], e);
        j->resumed = j->have[PHASE_FREE];
        r->done += j->resumed;
    }
    return rc;
}

static int make_jobs(struct running *r, struct err *e)
{
    const struct battery *b = r->o->battery;
    r->jobs = b->prompts;
    r->job = calloc((size_t)b->prompts + 1, sizeof *r->job);
    if (!r->job)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", b->prompts);
    for (int i = 0; i < b->prompts; i++) {
        r->job[i].fed = &b->prompt[i];
        r->job[i].golden = golden_find(r->o->golden, b->prompt[i].name);
    }
    return OK;
}

static void free_jobs(struct running *r)
{
    for (int i = 0; r->job && i < r->jobs; i++)
        for (int phase = 0; phase < PHASES; phase++)
            stream_free(&r->job[i].answer[phase]);
    free(r->job);
}

/* The golden that was judged against must still be the one that was sealed. */
static int verify_golden(const struct run_options *o, struct judgement *j, struct err *e)
{
    struct err changed = {0};
    char why[256];
    int rc = store_golden_verify(o->store, o->golden_sha256, &changed);
    if (rc != E_STORE && rc != E_MISSING)
        return rc ? FAIL(e, rc, "%s", changed.text) : OK;
    snprintf(why, sizeof why, "the golden changed during the run: %.200s", changed.text);
    judgement_void(j, why);
    return OK;
}

static int judge_answers(struct running *r, const struct counter *counter, int counters, struct judgement *j,
                         struct err *e)
{
    struct arm_answer *answer = calloc((size_t)r->jobs + 1, sizeof *answer);
    if (!answer)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", r->jobs);
    for (int i = 0; i < r->jobs; i++) {
        struct job *job = &r->job[i];
        struct engine *g = r->o->engine;
        if (g->ops->fed && !g->ops->fed(g, job->fed->name, &answer[i].fed, &answer[i].feds))
            answer[i].fed = NULL;
        answer[i].free = job->have[PHASE_FREE] ? &job->answer[PHASE_FREE] : NULL;
        answer[i].decode = job->have[PHASE_FORCE_DECODE] ? &job->answer[PHASE_FORCE_DECODE] : NULL;
        answer[i].prefill = job->have[PHASE_FORCE_PREFILL] ? &job->answer[PHASE_FORCE_PREFILL] : NULL;
    }
    struct judge_input in = {.golden = r->o->golden,
                             .battery = r->o->battery,
                             .model = r->o->model,
                             .answer = answer,
                             .counter = counter,
                             .counters = counters,
                             .recording = r->o->engine->ops->recording};
    int rc = judge_run(&in, j, e);
    free(answer);
    return rc;
}

/* Judges again with longer lists where a free run left the golden at an id that is not stored. */
static int call_witness(struct running *r, const struct judgement *j, int *widened, struct err *e)
{
    int rc = OK;
    *widened = 0;
    for (int i = 0; r->o->witness && i < j->rows && rc == OK; i++) {
        const struct verdict_row *row = &j->row[i];
        int agreed = 0, outside = isnan(row->gap_nats) && row->gap_bound_nats >= 0;
        for (int k = 0; k < r->o->golden->prompts && outside && row->forced < 2 && rc == OK; k++)
            if (!strcmp(r->o->golden->prompt[k].name, row->prompt))
                rc = witness_widen(&r->o->golden->prompt[k], row->position, r->o->witness, &agreed, e);
        *widened += agreed;
    }
    return rc;
}

static int judge_twice(struct running *r, const struct counter *counter, int counters, struct run_result *out,
                       struct err *e)
{
    int rc = judge_answers(r, counter, counters, &out->judgement, e);
    if (rc || (rc = call_witness(r, &out->judgement, &out->widened, e)) || !out->widened)
        return rc;
    judgement_free(&out->judgement);
    return judge_answers(r, counter, counters, &out->judgement, e);
}

/* Counters of all answers, whichever process made them. */
static int add_up(const struct running *r, struct counter *sum)
{
    int n = 0;
    for (int i = 0; i < r->jobs; i++)
        for (int phase = 0; phase < PHASES; phase++) {
            const struct stream *st = &r->job[i].answer[phase];
            if (r->job[i].have[phase])
                n = counters_add(sum, n, COUNTERS_MAX, st->counter, st->counters);
        }
    return n;
}

static int last_step(struct running *r, struct judgement *j, json_t **members, struct err *e)
{
    struct emitted *x = calloc((size_t)r->jobs + 1, sizeof *x);
    if (!x)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", r->jobs);
    for (int i = 0; i < r->jobs; i++) {
        const struct job *job = &r->job[i];
        x[i].prompt = job->fed->name;
        x[i].stream = job->have[PHASE_FREE] ? &job->answer[PHASE_FREE] : NULL;
        x[i].forced = job->have[PHASE_FORCE_DECODE] ? &job->answer[PHASE_FORCE_DECODE] : NULL;
    }
    int rc = anchored(r->o, x, r->jobs, j, members, e);
    free(x);
    return rc;
}

static int finish(struct running *r, struct run_result *out, struct err *e)
{
    const struct run_options *o = r->o;
    struct counter counter[COUNTERS_MAX];
    int counters = add_up(r, counter);
    json_t *missing = json_array(), *members = NULL;
    for (int i = 0; i < r->jobs; i++) {
        out->resumed += r->job[i].resumed;
        if (*r->job[i].missing)
            json_array_append_new(missing, json_string(r->job[i].missing));
    }
    int rc = judge_twice(r, counter, counters, out, e);
    if (rc == OK)
        rc = verify_golden(o, &out->judgement, e);
    if (rc == OK)
        rc = last_step(r, &out->judgement, &members, e);
    if (rc)
        goto out;
    struct judgement *j = &out->judgement;
    out->run = r->run;
    out->status = run_verdict_exit_status(j->verdict, o->strict);
    out->summary = summary_make(o, j, r->run, counter, counters, missing);
    if (out->summary)
        json_object_update(out->summary, members);
    if (out->summary && o->witness)
        json_object_set_new(out->summary, "witness",
                            json_pack("{s:s,s:i}", "arm", o->witness->arm, "widened", out->widened));
    rc = out->summary ? store_run_finish(o->store, r->run, j->row, j->rows, j->verdict, out->summary, e)
                      : FAIL(e, E_NOMEM, "out of memory for the summary");
out:
    json_decref(missing);
    json_decref(members);
    return rc;
}

/* What the shard has; it stays unfinished, so that the same command finds it and adds what is missing. */
static int report_shard(struct running *r, const char *shard, struct run_result *out, struct err *e)
{
    int answered = 0;
    json_t *missing = json_array();
    for (int i = 0; i < r->jobs; i++) {
        answered += r->job[i].have[PHASE_FREE];
        out->resumed += r->job[i].resumed;
        if (*r->job[i].missing)
            json_array_append_new(missing, json_string(r->job[i].missing));
    }
    out->run = r->run;
    out->status = answered == r->jobs ? 0 : 4;
    out->summary = json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:o,s:i}", "run", (json_int_t)r->run, "shard", shard,
                             "model", r->o->golden->model, "battery", r->o->battery->name, "arm", r->o->engine->arm,
                             "golden_sha256", r->o->golden_sha256, "prompts", r->jobs, "answered", answered, "resumed",
                             out->resumed, "missing", missing, "exit", out->status);
    return out->summary ? OK : FAIL(e, E_NOMEM, "out of memory for the summary");
}

/* shard NULL: the whole battery, which is judged. */
static int go(const struct run_options *o, const char *shard, struct run_result *out, struct err *e)
{
    struct running r = {.o = o};
    struct run_key key = {.model = o->golden->model,
                          .model_sha256 = o->model_sha256,
                          .battery = o->battery->name,
                          .battery_sha256 = o->battery->sha256,
                          .golden_sha256 = o->golden_sha256,
                          .arm = o->engine->arm,
                          .commit = o->commit,
                          .shard = shard};
    int rc, top_k = o->golden->top_k > 0 ? o->golden->top_k : TOP_K;
    memset(out, 0, sizeof *out);
    if ((rc = make_jobs(&r, e)) || (rc = store_run_open(o->store, &key, o->fresh, &r.run, e)) || (rc = resume(&r, e)) ||
        (rc = ask_all(o->engine, o->battery, top_k, r.job, r.jobs, put, &r, e)))
        goto out;
    rc = shard ? report_shard(&r, shard, out, e) : finish(&r, out, e);
out:
    free_jobs(&r);
    if (rc)
        run_result_free(out);
    return rc;
}

int run_battery(const struct run_options *o, struct run_result *r, struct err *e)
{
    return go(o, NULL, r, e);
}

int run_shard(const struct run_options *o, const char *shard, struct run_result *r, struct err *e)
{
    char why[384];
    memset(r, 0, sizeof *r);
    if (o->model && !o->engine->ops->recording && !model_matches(o->golden, o->model, why, sizeof why))
        return FAIL(e, E_MISSING, "%s", why);
    return go(o, shard, r, e);
}

void run_result_free(struct run_result *r)
{
    judgement_free(&r->judgement);
    json_decref(r->summary);
    memset(r, 0, sizeof *r);
}
