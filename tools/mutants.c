#include "tools/mutants.h"

#include "harness/fault.h"
#include "kernels/mutant.h"
#include "kernels/vectors/probe.h"
#include "tools/session.h"

#include <stdio.h>
#include <string.h>

static const char *const fates[FATE_COUNT] = {"killed by the verdict", "killed by the ids", "killed by the logits",
                                              "killed by the probe",   "SURVIVED",          "NEVER RAN"};

const char *fate_name(enum fate f)
{
    return fates[f];
}

int subject_at(int i, struct subject *x)
{
    int n = 0;
    for (int k = 0; mutant_all[k]; k++, n++)
        if (n == i) {
            const struct mutant *m = mutant_all[k];
            *x = (struct subject){.mutant = m, .name = m->name, .summary = m->summary, .where = m->where};
            x->control = m->control;
            return 1;
        }
    for (int k = 0; fault_all[k]; k++, n++)
        if (n == i) {
            const struct fault *f = fault_all[k];
            *x = (struct subject){.fault = f, .name = f->name, .summary = f->summary, .where = f->where};
            x->control = f->control;
            return 1;
        }
    return 0;
}

int subject_find(const char *name, struct subject *x)
{
    for (int i = 0; subject_at(i, x); i++)
        if (!strcmp(x->name, name))
            return 1;
    return 0;
}

int fate_as_it_must_be(const struct subject *x, enum fate f)
{
    return x->control ? f == FATE_SURVIVED : f < FATE_SURVIVED;
}

static long figure(const json_t *o, const char *group, const char *key)
{
    return (long)json_integer_value(json_object_get(json_object_get(o, group), key));
}

static long tokens_equal(const json_t *o)
{
    return (long)json_integer_value(json_object_get(o, "tokens_equal"));
}

static int passes(const json_t *o)
{
    return !strncmp(json_string_value(json_object_get(o, "verdict")), "PASS", 4);
}

static enum fate fate_of(const json_t *o, const json_t *right, long applied)
{
    if (applied <= 0)
        return FATE_NEVER_RAN;
    if (!passes(o))
        return FATE_BY_VERDICT;
    if (tokens_equal(o) != tokens_equal(right))
        return FATE_BY_IDS;
    return figure(o, "logits", "decode_rows_equal") != figure(right, "logits", "decode_rows_equal") ||
                   figure(o, "logits", "prefill_rows_equal") != figure(right, "logits", "prefill_rows_equal")
               ? FATE_BY_LOGITS
               : FATE_SURVIVED;
}

/* One fresh run, wrong in that respect; x NULL: the right engine. *applied: how often the golden was changed. */
static int run_once(const struct tool *t, struct store *store, const struct mutants_spec *m, const struct subject *x,
                    json_t **summary, long *applied, struct err *e)
{
    char word[100], again[400], *flags[65];
    struct session s = {0};
    struct run_result r = {0};
    int n = 0;
    for (; n < m->flags && n < 64; n++)
        flags[n] = m->flag[n];
    snprintf(word, sizeof word, "mutant=%s", x ? x->name : "");
    if (x && x->mutant)
        flags[n++] = word;
    snprintf(again, sizeof again, "assay mutants --model %s --battery %s%s%s", m->model, m->battery,
             x ? " --only " : "", x ? x->name : "");
    struct session_spec spec = {
        .engine = "native", .model = m->model, .battery = m->battery, .golden = m->golden, .flag = flags, .flags = n};
    int rc = session_open(t, store, &spec, &s, e);
    if (!rc && x && x->fault) {
        struct engine *inner = s.engine;
        s.engine = NULL;
        *applied += x->fault->golden ? x->fault->golden(s.golden) : 0;
        rc = fault_wrap(x->fault, inner, &s.engine, e);
    }
    struct run_options o = {.store = store,
                            .engine = s.engine,
                            .golden = s.golden,
                            .golden_sha256 = s.golden_sha256,
                            .battery = s.battery,
                            .model = s.model,
                            .model_sha256 = s.model_sha256,
                            .commit = s.build,
                            .again = again,
                            .fresh = 1};
    if (!rc && !(rc = run_battery(&o, &r, e)))
        *summary = json_incref(r.summary);
    run_result_free(&r);
    session_close(&s);
    return rc;
}

int mutants_baseline(const struct tool *t, struct store *store, const struct mutants_spec *spec, json_t **baseline,
                     struct err *e)
{
    long applied = 0;
    int rc = run_once(t, store, spec, NULL, baseline, &applied, e);
    if (!rc && !passes(*baseline))
        rc = FAIL(e, E_MISSING, "%s on %s: the right engine does not pass itself: %s", spec->battery, spec->model,
                  json_string_value(json_object_get(*baseline, "why")));
    return rc;
}

/* Which GPU the engine foretells stands in its summary. */
static int probe(const struct tool *t, const json_t *summary, const struct subject *x, struct probe *p, struct err *e)
{
    char path[1200];
    struct gpu_profile gpu = {0};
    const json_t *profile = json_object_get(json_object_get(summary, "engine"), "gpu_profile");
    snprintf(path, sizeof path, "%s/batteries/gpus/%s.json", t->data_dir,
             json_string_value(json_object_get(profile, "name")));
    int rc = profile_read(path, &gpu, e);
    if (!rc)
        rc = mutant_probe(x->mutant, &gpu, p, e);
    profile_free(&gpu);
    return rc;
}

int subject_run(const struct tool *t, struct store *store, const struct mutants_spec *spec, const json_t *baseline,
                const struct subject *x, enum fate *fate, json_t **row, struct err *e)
{
    json_t *summary = NULL;
    long applied = 0;
    struct probe p = {0};
    int rc = run_once(t, store, spec, x, &summary, &applied, e);
    if (rc)
        return rc;
    applied += (long)figure(json_object_get(summary, "counters"), "mutant_applied", "ran");
    *fate = fate_of(summary, baseline, applied);
    if (*fate == FATE_SURVIVED && x->mutant && strcmp(x->where, "engine")) {
        rc = probe(t, summary, x, &p, e);
        *fate = p.differ ? FATE_BY_PROBE : FATE_SURVIVED;
    }
    *row = json_pack("{s:s,s:s,s:s,s:b,s:s,s:O,s:O,s:I,s:O,s:{s:I,s:I}}", "mutant", x->name, "where", x->where,
                     "summary", x->summary, "control", x->control, "fate", fates[*fate], "verdict",
                     json_object_get(summary, "verdict"), "run", json_object_get(summary, "run"), "applied",
                     (json_int_t)applied, "logits", json_object_get(summary, "logits"), "probe", "outputs",
                     (json_int_t)p.outputs, "differ", (json_int_t)p.differ);
    json_decref(summary);
    return rc || *row ? rc : FAIL(e, E_NOMEM, "out of memory");
}
