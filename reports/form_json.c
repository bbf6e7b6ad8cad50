/* json - assay-report/1, described in reports/README.md; what is not known is null */
#include "reports/escape.h"
#include "reports/form.h"

#include <math.h>
#include <stdlib.h>

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *id_or_null(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

static json_t *text_or_null(const struct report *r, int32_t id)
{
    const char *text = report_text(r, id);
    return *text ? text_json(text) : json_null();
}

static json_t *top_list(const struct report *r, const struct view *v, int position)
{
    json_t *list = v ? json_array() : json_null();
    for (int i = 0; v && i < v->top_k; i++) {
        size_t at = (size_t)position * (size_t)v->top_k + (size_t)i;
        if (v->top_ids[at] >= 0)
            json_array_append_new(list, json_pack("{s:i,s:o,s:o,s:o}", "id", v->top_ids[at], "text",
                                                  text_or_null(r, v->top_ids[at]), "value", real(v->top_values[at]),
                                                  "logprob", real((double)v->top_values[at] - v->logsumexp[position])));
    }
    return list;
}

static json_t *difference(const struct report *r, const struct report_prompt *p, const struct verdict_row *v)
{
    static const char *const shapes[] = {"free", "decode", "prefill"};
    const struct view *oracle = NULL, *arm = NULL;
    char *sentence = report_sentence(r, v);
    if (v->verdict != V_TOKENISATION)
        report_rows(p, v->position, v->forced == 2, &oracle, &arm);
    json_t *o = json_pack("{s:i,s:s,s:s,s:b,s:o}", "position", v->position, "shape", shapes[v->forced], "verdict",
                          verdict_name(v->verdict), "root", v->root, "text", text_json(sentence));
    json_object_set_new(o, "golden_id", id_or_null(v->golden_id));
    json_object_set_new(o, "golden_text", text_or_null(r, v->golden_id));
    json_object_set_new(o, "arm_id", id_or_null(v->arm_id));
    json_object_set_new(o, "arm_text", text_or_null(r, v->arm_id));
    json_object_set_new(o, "gap_nats", real(v->gap_nats));
    json_object_set_new(o, "gap_ulp", real(v->gap_ulp));
    json_object_set_new(o, "gap_bound_nats", real(v->gap_bound_nats));
    json_object_set_new(o, "ulp_nats", real(v->ulp));
    json_object_set_new(o, "razor_nats", real(v->razor_nats));
    json_object_set_new(o, "jitter_nats", real(v->jitter_nats));
    json_object_set_new(o, "self_gap_nats", real(v->self_gap_nats));
    json_object_set_new(o, "ties", json_integer(v->ties));
    json_object_set_new(o, "oracle_top", top_list(r, v->verdict == V_CASCADE ? NULL : oracle, v->position));
    json_object_set_new(o, "arm_top", top_list(r, v->verdict == V_CASCADE ? NULL : arm, v->position));
    free(sentence);
    return o;
}

static json_t *ids(const int32_t *id, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(id[i]));
    return list;
}

static json_t *prompt_object(const struct report *r, const struct report_prompt *p)
{
    json_t *list = json_array();
    if (p->tokenisation)
        json_array_append_new(list, difference(r, p, p->tokenisation));
    for (int i = 0; i < p->positions; i++) {
        const struct report_position *at = &p->position[i];
        if (at->judged && at->row.verdict != V_EQUAL)
            json_array_append_new(list, difference(r, p, &at->row));
        if (at->decode)
            json_array_append_new(list, difference(r, p, at->decode));
        if (at->prefill)
            json_array_append_new(list, difference(r, p, at->prefill));
    }
    json_t *o = json_pack("{s:o,s:b,s:o}", "name", text_json(p->name), "exact", report_prompt_exact(p), "verdict",
                          p->verdict == V_COUNT ? json_null() : json_string(verdict_name(p->verdict)));
    json_object_set_new(o, "golden_ids", p->golden ? ids(p->golden->ids, p->golden->n) : json_null());
    json_object_set_new(o, "arm_ids", p->has_free ? ids(p->free.ids, p->free.n) : json_null());
    json_object_set_new(o, "differences", list);
    return o;
}

static json_t *run_object(const struct report *r)
{
    static const char *const keys[] = {"run", "started",      "finished",       "model",         "battery",
                                       "arm", "model_sha256", "battery_sha256", "golden_sha256", "commit"};
    json_t *o = json_object(), *notes = json_array(), *prompts = json_array();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(o, keys[i], json_object_get(r->run, keys[i]));
    json_object_set_new(o, "verdict", r->summary ? json_string(run_verdict_name(r->verdict)) : json_null());
    json_object_set_new(o, "why", text_json(r->why));
    json_object_set_new(o, "complete", json_boolean(r->summary != NULL));
    for (int i = 0; i < r->notes; i++)
        json_array_append_new(notes, text_json(r->note[i]));
    json_object_set_new(o, "notes", notes);
    json_object_set(o, "summary", r->summary ? (json_t *)r->summary : json_null());
    for (int i = 0; i < r->prompts; i++)
        json_array_append_new(prompts, prompt_object(r, &r->prompt[i]));
    json_object_set_new(o, "prompts", prompts);
    return o;
}

static int write(FILE *f, const struct report *const *runs, int n, struct err *e)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, run_object(runs[i]));
    json_t *o = json_pack("{s:s,s:o}", "schema", "assay-report/1", "runs", list);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENSURE_ASCII) : NULL;
    int rc = text ? OK : FAIL(e, E_NOMEM, "out of memory for the report");
    if (text)
        fprintf(f, "%s\n", text);
    free(text);
    json_decref(o);
    return rc;
}

FORM(json) = {.name = "json", .summary = "assay-report/1, for programs", .ending = ".json", .write = write};
