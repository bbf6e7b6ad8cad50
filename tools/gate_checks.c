/* Determinism, graph replay, batches, mutants, memory: what a policy asks beyond parity. */
#include "harness/gate/evidence.h"
#include "tools/gate.h"
#include "tools/gate_answers.h"
#include "tools/mutants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* What could not be asked is missing evidence; what broke is an error. */
static int settle(struct gate_item *i, const struct err *own, struct err *e)
{
    if (own->code == E_MISSING || own->code == E_UNSUPPORTED || own->code == E_USAGE)
        gate_say(i, OUTCOME_MISSING, "%s", own->text);
    else if (own->code)
        FAIL(e, own->code, "%s", own->text);
    return e->code;
}

/* Asks twice, by engines opened anew with one word more each, and compares every bit. */
static int ask_pair(struct gate *g, const struct gate_set *set, const json_t *o, const char *first, const char *second,
                    char *where, size_t size, int *equal, struct err *e)
{
    const char *more[2] = {first, second};
    struct answers a[2] = {{0}, {0}};
    int rc = OK;
    for (int k = 0; k < 2 && !rc; k++) {
        struct session s = {0};
        rc = gate_open(g, set, text_of(o, "model"), text_of(o, "battery"), more[k], &s, e);
        if (!rc)
            rc = answers_ask(s.engine, s.battery, s.golden, &a[k], e);
        session_close(&s);
    }
    *equal = !rc && answers_equal(&a[0], &a[1], where, size);
    answers_free(&a[0]);
    answers_free(&a[1]);
    return rc;
}

/* An item about the section's model and battery; 1 when the store has its answer already. *key is new. */
static struct gate_item *begin(struct gate *g, enum gate_check c, const struct gate_set *set, json_t **key, int *known,
                               struct err *own, struct err *e)
{
    char about[128];
    const json_t *o = g->policy.section[c];
    struct session s = {0};
    snprintf(about, sizeof about, "%.60s %.60s", text_of(o, "model"), text_of(o, "battery"));
    struct gate_item *i = gate_add(g, c, set, about, e);
    *known = 0;
    *key = NULL;
    if (!i)
        return NULL;
    if (!gate_open(g, set, text_of(o, "model"), text_of(o, "battery"), NULL, &s, own)) {
        *key = gate_key(g, c, &s);
        *known = gate_reuse(g, *key, i, e);
    }
    session_close(&s);
    return i;
}

int gate_determinism(struct gate *g, const struct gate_set *set, struct err *e)
{
    struct err own = {0};
    json_t *key;
    char where[160] = "";
    int known, equal = 1, runs = (int)json_integer_value(json_object_get(g->policy.section[CHECK_DETERMINISM], "runs"));
    struct gate_item *i = begin(g, CHECK_DETERMINISM, set, &key, &known, &own, e);
    /* one thread against all of them, then all against all */
    for (int k = 1; i && k < runs && equal && !known && !own.code; k++)
        ask_pair(g, set, g->policy.section[CHECK_DETERMINISM], k == 1 ? "slots=1" : NULL, NULL, where, sizeof where,
                 &equal, &own);
    if (i && !known && !settle(i, &own, e) && !own.code) {
        if (equal)
            gate_say(i, OUTCOME_OK, "%d runs, one of them in a single slot: every id and every logits row the same",
                     runs);
        else
            gate_say(i, OUTCOME_FAILED, "two runs differ: %s", where);
        gate_record(g, key, i, NULL, e);
    }
    json_decref(key);
    return e->code;
}

/* A committed file that says what was found on another machine, and of which sources. */
static void evidence_file(const struct gate *g, struct gate_item *i)
{
    const json_t *o = g->policy.section[i->check];
    struct finding f;
    evidence_judge(g->tool->data_dir, text_of(o, "evidence"), i->check, text_of(o, "gpu"), &f);
    gate_say(i, f.outcome, "%s", f.text);
}

int gate_memory(struct gate *g, const struct gate_set *set, struct err *e)
{
    const char *path = text_of(g->policy.section[CHECK_MEMORY], "evidence");
    struct gate_item *i = gate_add(g, CHECK_MEMORY, set, path, e);
    if (i)
        evidence_file(g, i);
    return e->code;
}

int gate_graph(struct gate *g, const struct gate_set *set, struct err *e)
{
    const json_t *o = g->policy.section[CHECK_GRAPH];
    struct err own = {0};
    json_t *key;
    char where[160] = "";
    int known, equal = 0;
    struct gate_item *i = begin(g, CHECK_GRAPH, set, &key, &known, &own, e);
    if (i && !known && !own.code)
        ask_pair(g, set, o, "cuda_graph=off", "cuda_graph=on", where, sizeof where, &equal, &own);
    if (i && own.code && *text_of(o, "evidence")) /* no such device here: what another machine found */
        evidence_file(g, i);
    else if (i && !known && !settle(i, &own, e) && !own.code) {
        if (equal)
            gate_say(i, OUTCOME_OK, "graph replay and eager mode: every id and every logits row the same");
        else
            gate_say(i, OUTCOME_FAILED, "graph replay and eager mode differ: %s", where);
        gate_record(g, key, i, NULL, e);
    }
    json_decref(key);
    return e->code;
}

/* Roots of a batched free run, judged like any other; *worst is the first that the razor does not excuse. */
static int judge_batch(const struct session *s, const struct answers *a, int *exact, int *roots, char *worst,
                       size_t size, struct err *e)
{
    struct judgement j = {0};
    struct arm_answer *x = calloc((size_t)a->jobs + 1, sizeof *x);
    if (!x)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < a->jobs; i++)
        x[i].free = &a->job[i].answer[PHASE_FREE];
    struct judge_input in = {.golden = s->golden, .battery = s->battery, .model = s->model, .answer = x};
    int rc = judge_run(&in, &j, e);
    *exact += j.prompts_exact;
    for (int i = 0; i < j.rows && !rc; i++) {
        const struct verdict_row *r = &j.row[i];
        if (r->forced || r->verdict == V_CASCADE)
            continue;
        *roots += r->root;
        if (!verdict_is_benign(r->verdict) && !*worst)
            snprintf(worst, size, "%s token %d: %s", r->prompt, r->position, verdict_name(r->verdict));
    }
    judgement_free(&j);
    free(x);
    return rc;
}

static int one_size(struct gate *g, const struct session *s, int size, int *exact, int *roots, char *worst,
                    size_t worst_size, struct err *e)
{
    struct answers a[2] = {{0}, {0}};
    char where[160];
    int rc = OK;
    (void)g;
    for (int k = 0; k < 2 && !rc; k++)
        rc = answers_ask_batch(s->engine, s->battery, s->golden->top_k > 0 ? s->golden->top_k : 20, size, &a[k], e);
    if (!rc && !answers_equal(&a[0], &a[1], where, sizeof where) && !*worst)
        snprintf(worst, worst_size, "batch %d, asked twice, differs: %s", size, where);
    if (!rc)
        rc = judge_batch(s, &a[0], exact, roots, worst, worst_size, e);
    answers_free(&a[0]);
    answers_free(&a[1]);
    return rc;
}

int gate_batch(struct gate *g, const struct gate_set *set, struct err *e)
{
    const json_t *o = g->policy.section[CHECK_BATCH];
    struct err own = {0};
    struct session s = {0};
    json_t *key, *size;
    size_t k;
    char worst[200] = "";
    int known, exact = 0, roots = 0;
    struct gate_item *i = begin(g, CHECK_BATCH, set, &key, &known, &own, e);
    if (i && !known && !own.code)
        gate_open(g, set, text_of(o, "model"), text_of(o, "battery"), NULL, &s, &own);
    json_array_foreach(json_object_get(o, "sizes"), k, size)
    {
        int n = (int)json_integer_value(size);
        if (n < 1 || n > 64)
            FAIL(e, E_INPUT, "%s: batch sizes are from 1 to 64", g->policy.path);
        if (i && !known && !own.code && !e->code)
            one_size(g, &s, n, &exact, &roots, worst, sizeof worst, &own);
    }
    if (i && !known && !e->code && !settle(i, &own, e) && !own.code) {
        int asked = s.battery->prompts * (int)json_array_size(json_object_get(o, "sizes"));
        if (*worst)
            gate_say(i, OUTCOME_FAILED, "%s", worst);
        else
            gate_say(i, OUTCOME_OK,
                     "%d of %d prompts exact over all sizes, %d roots the razor excuses; asked twice, "
                     "the same bytes",
                     exact, asked, roots);
        gate_record(g, key, i, NULL, e);
    }
    session_close(&s);
    json_decref(key);
    return e->code;
}

static int wanted(const json_t *only, const char *name)
{
    json_t *v;
    size_t k;
    json_array_foreach(only, k, v) if (json_is_string(v) && !strcmp(json_string_value(v), name)) return 1;
    return !only;
}

/* Evidence of one mutant: a gate that was killed among them goes on at the next. */
static int one_mutant(struct gate *g, const struct mutants_spec *spec, const json_t *key, const json_t *baseline,
                      const struct subject *x, struct gate_item *i, enum fate *fate, struct err *e)
{
    struct gate_item own = *i;
    json_t *mine = json_deep_copy(key), *found = NULL, *row = NULL;
    json_object_set_new(mine, "mutant", json_string(x->name));
    int rc = gate_recall(g, mine, &found, e);
    const char *text = text_of(found, "text");
    for (enum fate f = 0; f < FATE_COUNT && found; f++)
        if (!strcmp(fate_name(f), text))
            *fate = f;
    if (!rc && !found && !(rc = subject_run(g->tool, g->store, spec, baseline, x, fate, &row, e))) {
        own.run = json_integer_value(json_object_get(row, "run"));
        gate_say(&own, fate_as_it_must_be(x, *fate) ? OUTCOME_OK : OUTCOME_FAILED, "%s", fate_name(*fate));
        rc = gate_record(g, mine, &own, row, e);
    }
    json_decref(found);
    json_decref(mine);
    return rc;
}

static int all_mutants(struct gate *g, const struct mutants_spec *spec, const json_t *key, struct gate_item *i,
                       struct err *e)
{
    const json_t *only = json_object_get(g->policy.section[CHECK_MUTANTS], "only");
    struct subject x;
    json_t *baseline = NULL;
    char bad[200] = "";
    int killed = 0, alive = 0, total = 0, rc = mutants_baseline(g->tool, g->store, spec, &baseline, e);
    while (subject_at(total, &x))
        total++;
    for (int k = 0; k < total && !rc; k++) {
        enum fate fate = FATE_NEVER_RAN;
        subject_at(k, &x);
        if (!wanted(only, x.name))
            continue;
        tool_progress(g->tool, x.name, k, total);
        rc = one_mutant(g, spec, key, baseline, &x, i, &fate, e);
        killed += !x.control && fate < FATE_SURVIVED;
        alive += x.control && fate == FATE_SURVIVED;
        if (!rc && !fate_as_it_must_be(&x, fate) && strlen(bad) + strlen(x.name) + 40 < sizeof bad)
            sprintf(bad + strlen(bad), "%s%s %s", *bad ? ", " : "", x.name, x.control ? "was killed" : fate_name(fate));
    }
    tool_progress(g->tool, "mutants", total, total);
    json_decref(baseline);
    if (rc)
        return rc;
    if (*bad)
        gate_say(i, OUTCOME_FAILED, "%s", bad);
    else if (!killed || !alive)
        gate_say(i, OUTCOME_MISSING, "%d mutants, %d controls: at least one of each is needed", killed, alive);
    else
        gate_say(i, OUTCOME_OK, "%d applied and killed, %d controls alive%s%s", killed, alive,
                 only ? "; not all: " : "", text_of(g->policy.section[CHECK_MUTANTS], "reason"));
    return OK;
}

int gate_mutants(struct gate *g, const struct gate_set *set, struct err *e)
{
    const json_t *o = g->policy.section[CHECK_MUTANTS];
    struct err own = {0};
    json_t *key;
    int known;
    char *words[FLAGS_MAX + 16];
    struct gate_item *i = begin(g, CHECK_MUTANTS, set, &key, &known, &own, e);
    struct mutants_spec spec = {.model = text_of(o, "model"), .battery = text_of(o, "battery"), .flag = words};
    spec.flags = gate_words(g, set, words);
    if (i && !known && !own.code)
        all_mutants(g, &spec, key, i, &own);
    if (i && !known && !settle(i, &own, e) && !own.code)
        gate_record(g, key, i, NULL, e);
    json_decref(key);
    return e->code;
}
