/* Parity and counters: one run a model and battery, the newest in the store that is of this very build and material. */
#include "tools/gate.h"

#include "goldens/ratify.h"
#include "harness/device.h"

#include <stdio.h>
#include <string.h>

static int same(const json_t *o, const char *key, const char *value)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s && !strcmp(s, value);
}

/* A run was judged with the anchor that was in force then: a person may have said yes, or taken it back, since. */
static int same_anchor(const struct gate *g, const struct session *s, const json_t *summary)
{
    char now[SHA256_HEX_SIZE] = "", device[128];
    struct anchor *a = NULL;
    struct err none = {0};
    const char *then = json_string_value(json_object_get(json_object_get(summary, "anchor"), "sha256"));
    device_of_engine(s->engine->build, device, sizeof device);
    if (store_anchor_get(g->store, s->golden->model, s->battery->name, s->engine->arm, device, &a, now, &none))
        now[0] = 0;
    anchor_free(a);
    return !strcmp(now, then ? then : "");
}

/* A finished, judged, whole run under the same key. */
static int find_run(const struct gate *g, const struct session *s, json_t **summary, struct err *e)
{
    json_t *list = NULL, *o;
    size_t i;
    struct run_filter f = {.model = s->golden->model, .battery = s->battery->name, .limit = 100000};
    *summary = NULL;
    if (store_run_list(g->store, &f, &list, e))
        return e->code;
    json_array_foreach(list, i, o)
    {
        const char *verdict = json_string_value(json_object_get(o, "verdict"));
        if (!*summary && verdict && strcmp(verdict, "VOID") && same(o, "arm", s->engine->arm) &&
            same(o, "model_sha256", s->model_sha256) && same(o, "battery_sha256", s->battery->sha256) &&
            same(o, "golden_sha256", s->golden_sha256) && same(o, "commit", s->build) &&
            same_anchor(g, s, json_object_get(o, "summary")))
            *summary = json_incref(json_object_get(o, "summary"));
    }
    json_decref(list);
    return OK;
}

static void show(void *arg, int done, int total)
{
    tool_progress(arg, "prompts", done, total);
}

/* A run that died goes on where it stopped. */
static int make_run(const struct gate *g, const struct session *s, json_t **summary, struct err *e)
{
    char again[400];
    struct run_result r = {0};
    snprintf(again, sizeof again, "assay run --engine %s --model %s --battery %s", s->engine->arm, s->golden->model,
             s->battery->name);
    struct run_options o = {.store = g->store,
                            .engine = s->engine,
                            .golden = s->golden,
                            .golden_sha256 = s->golden_sha256,
                            .battery = s->battery,
                            .model = s->model,
                            .model_sha256 = s->model_sha256,
                            .commit = s->build,
                            .again = again,
                            .progress = show,
                            .arg = g->tool};
    int rc = run_battery(&o, &r, e);
    if (!rc)
        *summary = json_incref(r.summary);
    run_result_free(&r);
    return rc;
}

static void judge_parity(const json_t *o, struct gate_item *i)
{
    const char *verdict = json_string_value(json_object_get(o, "verdict"));
    const char *why = json_string_value(json_object_get(o, "why"));
    i->run = json_integer_value(json_object_get(o, "run"));
    if (!strcmp(verdict, "PASS"))
        gate_say(i, OUTCOME_OK, "PASS: %s", why);
    else if (!strcmp(verdict, "FAIL"))
        gate_say(i, OUTCOME_FAILED, "FAIL: %s", why);
    else if (strcmp(verdict, "PASS_BY_RAZOR"))
        gate_say(i, !strcmp(verdict, "VOID") ? OUTCOME_VOID : OUTCOME_MISSING, "%s: %s", verdict, why);
    else
        gate_say(i, OUTCOME_MISSING,
                 "PASS_BY_RAZOR: %s; a person must say yes: assay ratify %lld --reason CLASS --by WHO", why,
                 (long long)i->run);
}

static int holds(const struct gate *g, const struct gate_set *set, const json_t *when)
{
    json_t *v;
    size_t i;
    json_array_foreach(when, i, v)
    {
        const struct flag *f;
        struct err none = {0};
        int on;
        if (flags_parse(&g->flags, json_string_value(v) ? json_string_value(v) : "", &f, &on, &none) ||
            set->on[f - g->flags.flag] != on)
            return 0;
    }
    return 1;
}

static long ran(const json_t *counters, const char *name)
{
    const json_t *c = json_object_get(counters, name);
    return c ? (long)json_integer_value(json_object_get(c, "ran")) : -1;
}

static void apply_rule(const json_t *rule, const json_t *counters, struct gate_item *i, int *applied)
{
    json_t *v;
    size_t k;
    json_array_foreach(json_object_get(rule, "ran"), k, v)
    {
        const char *name = json_string_value(v);
        ++*applied;
        if (i->outcome != OUTCOME_FAILED && ran(counters, name) <= 0)
            gate_say(i, OUTCOME_FAILED, "counter %s: %ld; the new route did not run", name, ran(counters, name));
    }
    json_array_foreach(json_object_get(rule, "zero"), k, v)
    {
        const char *name = json_string_value(v);
        ++*applied;
        if (i->outcome != OUTCOME_FAILED && ran(counters, name) != 0)
            gate_say(i, OUTCOME_FAILED, "counter %s: %ld; the old route ran", name, ran(counters, name));
    }
}

static void judge_counters(const struct gate *g, const struct gate_set *set, const char *model, const json_t *o,
                           struct gate_item *i)
{
    const json_t *counters = json_object_get(o, "counters");
    const char *name;
    json_t *c, *rule;
    size_t k;
    int exact = 0, applied = 0;
    char list[256] = "";
    i->run = json_integer_value(json_object_get(o, "run"));
    json_object_foreach((json_t *)counters, name, c)
    {
        json_int_t n = json_integer_value(json_object_get(c, "ran"));
        if (json_is_null(json_object_get(c, "expected")))
            continue;
        exact++;
        if (n)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s=%lld", *list ? " " : "", name,
                     (long long)n);
        if (i->outcome != OUTCOME_FAILED && n != json_integer_value(json_object_get(c, "expected")))
            gate_say(i, OUTCOME_FAILED, "counter %s ran %lld times, expected %lld", name, (long long)n,
                     (long long)json_integer_value(json_object_get(c, "expected")));
    }
    json_array_foreach(json_object_get(g->policy.section[CHECK_COUNTERS], "rules"), k, rule)
    {
        const char *only = json_string_value(json_object_get(rule, "model"));
        if ((!only || !strcmp(only, model)) && holds(g, set, json_object_get(rule, "when")))
            apply_rule(rule, counters, i, &applied);
    }
    if (i->outcome == OUTCOME_FAILED)
        return;
    if (!exact || !applied)
        gate_say(i, OUTCOME_MISSING, "%s",
                 exact ? "no rule of the policy speaks about these flags and this model" : "the engine does not count");
    else
        gate_say(i, OUTCOME_OK, "%s, each as computed", list);
}

static int one(struct gate *g, const struct gate_set *set, const char *model, const char *battery, struct err *e)
{
    char about[128];
    struct session s = {0};
    struct err missing = {0};
    json_t *summary = NULL;
    snprintf(about, sizeof about, "%s %s", model, battery);
    struct gate_item *i = gate_add(g, CHECK_PARITY, set, about, e);
    int count = g->policy.section[CHECK_COUNTERS] != NULL;
    struct gate_item *c = i && count ? gate_add(g, CHECK_COUNTERS, set, about, e) : NULL;
    if (!i || (count && !c))
        return e->code;
    int rc = gate_open(g, set, model, battery, NULL, &s, &missing);
    if (!rc && !(rc = find_run(g, &s, &summary, &missing))) {
        i->reused = summary != NULL;
        rc = summary ? OK : make_run(g, &s, &summary, &missing);
    }
    if (!rc)
        judge_parity(summary, i);
    if (!rc && c) {
        c->reused = i->reused;
        judge_counters(g, set, model, summary, c);
    } else if (c) {
        gate_say(c, OUTCOME_MISSING, "there is no run");
    }
    if (rc == E_MISSING || rc == E_UNSUPPORTED || rc == E_USAGE) /* no such device in this build */
        gate_say(i, OUTCOME_MISSING, "%s", missing.text);
    else if (rc)
        FAIL(e, rc, "%s", missing.text);
    json_decref(summary);
    session_close(&s);
    return e->code;
}

int gate_parity(struct gate *g, const struct gate_set *set, struct err *e)
{
    json_t *o, *battery;
    size_t i, k;
    json_array_foreach(json_object_get(g->policy.section[CHECK_PARITY], "runs"), i, o)
    {
        const char *model = json_string_value(json_object_get(o, "model"));
        json_array_foreach(json_object_get(o, "batteries"), k, battery)
        {
            if (!model || !json_is_string(battery))
                return FAIL(e, E_INPUT, "%s: parity: runs are {\"model\": M, \"batteries\": [B, ...]}", g->policy.path);
            if (one(g, set, model, json_string_value(battery), e))
                return e->code;
        }
    }
    return OK;
}
