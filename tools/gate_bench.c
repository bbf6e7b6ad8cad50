/* The binding bench: the prospective defaults against those in force, every size, and memory. */
#include "harness/bench/decode.h"
#include "tools/gate.h"

#include <stdio.h>
#include <string.h>

static double number(const json_t *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : otherwise;
}

static void show(void *arg, int done, int total)
{
    tool_progress(arg, "bench", done, total);
}

/* Rows come in pairs: the defaults in force, then the prospective ones. */
static void judge(const json_t *report, const json_t *asked, struct gate_item *i)
{
    double least = number(asked, "min_ratio", 1), most = number(asked, "max_memory_ratio", 1), worst = 1e9, memory;
    const json_t *arms = json_object_get(report, "arms"), *why = json_object_get(report, "void");
    json_t *o;
    size_t k;
    char list[200] = "";
    memory = number(json_array_get(arms, 1), "memory_bytes", 0) / number(json_array_get(arms, 0), "memory_bytes", 1);
    json_array_foreach(json_object_get(report, "rows"), k, o)
    {
        if (!json_is_true(json_object_get(o, "tokens_stable"))) {
            gate_say(i, OUTCOME_FAILED, "c%d: tokens changed between timed runs", (int)number(o, "size", 0));
            return;
        }
        if (k % 2 == 0)
            continue;
        double ratio = number(o, "ratio", 0);
        worst = ratio < worst ? ratio : worst;
        snprintf(list + strlen(list), sizeof list - strlen(list), "c%d %.3f, ", (int)number(o, "size", 0), ratio);
    }
    if (json_is_string(why))
        gate_say(i, OUTCOME_VOID, "%s", json_string_value(why));
    else if (worst >= least && memory <= most)
        gate_say(i, OUTCOME_OK, "%smemory %.3f", list, memory);
    else
        gate_say(i, OUTCOME_FAILED, "%smemory %.3f; at least %.3f and at most %.3f are asked for", list, memory, least,
                 most);
}

static int measure(struct gate *g, const struct session *s, const struct gate_set *set, const json_t *o,
                   json_t **report, struct err *e)
{
    struct gate_set now = *set;
    char *old[FLAGS_MAX + 16], *fresh[FLAGS_MAX + 16], copy[FLAGS_MAX][64];
    const char *clock = json_string_value(json_object_get(o, "clock"));
    json_t *v;
    size_t k;
    now.on[g->flag - g->flags.flag] = g->flag->on;
    int n = gate_words(g, &now, old);
    for (int i = g->policy.fixeds; i < n; i++) { /* gate_words keeps one answer only */
        snprintf(copy[i - g->policy.fixeds], sizeof copy[0], "%s", old[i]);
        old[i] = copy[i - g->policy.fixeds];
    }
    struct decode_spec d = {.engine = g->policy.engine,
                            .data_dir = g->tool->data_dir,
                            .model = s->model,
                            .battery = s->battery,
                            .golden = s->golden,
                            .arms = 2,
                            .progress = show,
                            .arg = g->tool,
                            .max_foreign = 0.10,
                            .max_spread = 0.15};
    d.arm[0] = (struct decode_arm){"in force", old, n};
    d.arm[1] = (struct decode_arm){"prospective", fresh, gate_words(g, set, fresh)};
    d.runs = (int)number(o, "runs", 3);
    d.tokens = (int)number(o, "tokens", 32);
    d.cpu_clock = clock && !strcmp(clock, "cpu");
    json_array_foreach(json_object_get(o, "sizes"), k, v) if (d.sizes < DECODE_SIZES) d.size[d.sizes++] =
        (int)json_integer_value(v);
    return bench_decode(&d, report, e);
}

int gate_bench(struct gate *g, const struct gate_set *set, struct err *e)
{
    const json_t *o = g->policy.section[CHECK_BENCH];
    const char *model = json_string_value(json_object_get(o, "model"));
    const char *battery = json_string_value(json_object_get(o, "battery"));
    struct session s = {0};
    struct err own = {0};
    json_t *report = NULL;
    struct gate_item *i = gate_add(g, CHECK_BENCH, set, model, e);
    if (!i)
        return e->code;
    if (!gate_open(g, set, model, battery, NULL, &s, &own)) {
        json_t *key = gate_key(g, CHECK_BENCH, &s);
        json_object_set_new(key, "against", json_string(flag_value(g->flag->on)));
        s.engine->ops->close(s.engine); /* its threads end before the arms' processes begin */
        s.engine = NULL;
        if (!gate_reuse(g, key, i, e) && !e->code && !measure(g, &s, set, o, &report, &own)) {
            judge(report, o, i);
            gate_record(g, key, i, report, e);
        }
        json_decref(key);
    }
    if (own.code == E_MISSING || own.code == E_UNSUPPORTED || own.code == E_USAGE)
        gate_say(i, OUTCOME_MISSING, "%s", own.text);
    else if (own.code)
        FAIL(e, own.code, "%s", own.text);
    session_close(&s);
    return e->code;
}
