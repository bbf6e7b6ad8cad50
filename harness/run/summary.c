#include "harness/run/summary.h"

#include "harness/power.h"

#include <math.h>
#include <string.h>

/* JSON has no NaN: what is not known is null. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *one_row(const struct verdict_row *r)
{
    static const char *const shape[] = {"free", "decode", "prefill"};
    return json_pack("{s:s,s:s,s:i,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:s}", "prompt", r->prompt, "shape",
                     shape[r->forced], "position", r->position, "golden_id", r->golden_id, "arm_id", r->arm_id,
                     "gap_nats", real(r->gap_nats), "gap_ulp", real(r->gap_ulp), "gap_bound_nats",
                     real(r->gap_bound_nats), "ulp_nats", real(r->ulp), "razor_nats", real(r->razor_nats),
                     "jitter_nats", real(r->jitter_nats), "self_gap_nats", real(r->self_gap_nats), "ties", r->ties,
                     "verdict", verdict_name(r->verdict));
}

/* Free-run rows (roots and non-finite positions) or forced rows; cascades are counted, not listed. */
static json_t *rows(const struct judgement *j, int forced)
{
    json_t *list = json_array();
    for (int i = 0; i < j->rows; i++) {
        const struct verdict_row *r = &j->row[i];
        int cascade = !r->forced && !r->root && r->verdict == V_CASCADE;
        if (!!r->forced == forced && !cascade)
            json_array_append_new(list, one_row(r));
    }
    return list;
}

static json_t *counter_object(const struct counter *c, int n)
{
    json_t *o = json_object();
    for (int i = 0; i < n; i++) {
        json_t *expected = c[i].expected < 0 ? json_null() : json_integer(c[i].expected);
        json_object_set_new(o, c[i].name, json_pack("{s:I,s:o}", "ran", (json_int_t)c[i].ran, "expected", expected));
    }
    return o;
}

static json_t *verdict_counts(const struct judgement *j)
{
    json_t *o = json_object();
    for (int v = 0; v < V_COUNT; v++) {
        int n = 0;
        for (int i = 0; i < j->rows; i++)
            n += (int)j->row[i].verdict == v;
        if (n)
            json_object_set_new(o, verdict_name((enum verdict)v), json_integer(n));
    }
    return o;
}

static json_t *noise_object(const struct noise *n)
{
    return json_pack("{s:i,s:o,s:i,s:i,s:i}", "batch_roots", n->batch_roots, "batch_worst_gap_ulp", real(n->batch_ulp),
                     "rows", n->rows, "prefill_rows_equal_decode", n->rows_equal, "prefill_argmax_is_emitted",
                     n->argmax_equal);
}

static json_t *power_object(const struct judgement *j)
{
    return json_pack("{s:I,s:i,s:f}", "tokens_judged", (json_int_t)j->judged, "roots", j->roots, "flip_rate_95",
                     flip_rate_95(j->judged, j->roots));
}

static void add_evidence(json_t *o, const struct run_options *r, const struct judgement *j)
{
    json_object_set_new(o, "forced",
                        json_pack("{s:i,s:i,s:o,s:o,s:o}", "positions", j->forced, "argmax_equal", j->forced_equal,
                                  "worst_gap_ulp", real(j->forced_worst_ulp), "worst_gap_nats",
                                  real(j->forced_worst_nats), "differences", rows(j, 1)));
    json_object_set_new(o, "logits",
                        json_pack("{s:i,s:i,s:i,s:i}", "decode_rows", j->decode.rows, "decode_rows_equal",
                                  j->decode.equal, "prefill_rows", j->prefill.rows, "prefill_rows_equal",
                                  j->prefill.equal));
    json_object_set_new(o, "oracle_noise", noise_object(&j->noise));
    json_object_set_new(o, "razor",
                        json_pack("{s:f,s:f,s:b}", "ulp", r->battery->razor_ulp, "cap_nats", r->battery->razor_cap_nats,
                                  "grid_inferred", j->grid_inferred));
    json_object_set_new(o, "power", power_object(j));
}

json_t *summary_make(const struct run_options *r, const struct judgement *j, int64_t run, const struct counter *counter,
                     int counters, json_t *missing)
{
    const struct golden *g = r->golden;
    json_t *o = json_pack("{s:I,s:s,s:s,s:s,s:s,s:O?,s:s,s:O?}", "run", (json_int_t)run, "model", g->model, "battery",
                          r->battery->name, "golden", g->arm, "golden_sha256", r->golden_sha256, "oracle",
                          json_object_get(g->header, "oracle"), "arm", r->engine->arm, "engine", r->engine->build);
    if (!o)
        return NULL;
    json_object_set_new(o, "commit", json_string(r->commit));
    json_object_set_new(o, "prompts", json_integer(j->prompts));
    json_object_set_new(o, "prompts_exact", json_integer(j->prompts_exact));
    json_object_set_new(o, "tokens", json_integer(j->tokens));
    json_object_set_new(o, "tokens_equal", json_integer(j->tokens_equal));
    json_object_set_new(o, "roots", rows(j, 0));
    json_object_set_new(o, "worst_gap_nats", real(j->worst_nats));
    json_object_set_new(o, "worst_gap_ulp", real(j->worst_ulp));
    json_object_set_new(o, "cascades", json_integer(j->cascades));
    json_object_set_new(o, "cascades_unjudged", json_integer(j->cascades_unjudged));
    json_object_set_new(o, "counters", counter_object(counter, counters));
    json_object_set_new(o, "verdicts", verdict_counts(j));
    add_evidence(o, r, j);
    if (*r->engine->forecast)
        json_object_set_new(o, "forecast", json_string(r->engine->forecast));
    json_object_set(o, "missing", missing);
    json_object_set_new(o, "verdict", json_string(run_verdict_name(j->verdict)));
    json_object_set_new(o, "why", json_string(j->why));
    json_object_set_new(o, "strict", json_boolean(r->strict));
    json_object_set_new(o, "exit", json_integer(run_verdict_exit_status(j->verdict, r->strict)));
    json_object_set_new(o, "again", json_string(r->again ? r->again : ""));
    return o;
}
