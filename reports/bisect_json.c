/* assay-bisect/1, described in reports/schema/assay-bisect-1.json; what is not known is null */
#include "reports/bisect.h"
#include "reports/escape.h"

#include <limits.h>
#include <math.h>

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *op_json(const struct op_difference *d)
{
    json_t *o = json_pack("{s:i,s:o,s:s,s:[ii],s:[ii],s:b}", "step", d->b->step, "layer",
                          d->b->layer < 0 ? json_null() : json_integer(d->b->layer), "op", d->b->op, "shape_a",
                          d->a->rows, d->a->cols, "shape_b", d->b->rows, d->b->cols, "differs", op_differs(d) != 0);
    json_object_set_new(o, "elements", json_integer(d->elements));
    json_object_set_new(o, "differ", d->other_shape ? json_null() : json_integer(d->differ));
    json_object_set_new(o, "max_ulp", d->other_shape || d->max_ulp == INT_MAX ? json_null() : json_integer(d->max_ulp));
    json_object_set_new(o, "relative", d->other_shape ? json_null() : real(d->relative));
    return o;
}

static json_t *first_json(const struct bisect *b)
{
    if (b->first < 0)
        return json_null();
    const struct op_difference *d = &b->grown[b->first];
    json_t *o = op_json(d);
    if (d->first >= 0)
        json_object_set_new(o, "element",
                            json_pack("{s:I,s:I,s:i,s:i}", "row", (json_int_t)(d->first / d->a->cols), "column",
                                      (json_int_t)(d->first % d->a->cols), "a_bits", d->a->data[d->first], "b_bits",
                                      d->b->data[d->first]));
    return o;
}

static json_t *kinds_json(const struct bisect *b)
{
    struct bisect_kind k[64];
    json_t *list = json_array();
    for (int i = 0, n = bisect_kinds(b, k, 64); i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:i,s:i,s:o,s:o}", "op", k[i].op, "wrong", k[i].wrong, "places", k[i].all,
                                        "max_ulp", k[i].max_ulp == INT_MAX ? json_null() : json_integer(k[i].max_ulp),
                                        "first", op_json(k[i].first)));
    return list;
}

static json_t *ops_json(const struct bisect *b)
{
    json_t *list = json_array();
    for (int i = 0; i < b->growns; i++) {
        const struct op_difference *same = bisect_same(b, i);
        json_t *o = op_json(&b->grown[i]);
        json_object_set_new(o, "same_inputs_differ", same ? json_boolean(op_differs(same)) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *emission_json(const struct bisect *b)
{
    int at = b->emission;
    if (at < 0)
        return json_null();
    return json_pack("{s:i,s:o,s:o}", "token", at, "a",
                     at < b->emit_a.n ? json_integer(b->emit_a.ids[at]) : json_null(), "b",
                     at < b->emit_b.n ? json_integer(b->emit_b.ids[at]) : json_null());
}

json_t *bisect_json(const struct bisect_report *r)
{
    const struct bisect *b = r->found;
    json_t *ids = json_array(), *o = json_pack("{s:s,s:b}", "schema", "assay-bisect/1", "found", bisect_found(b));
    for (int i = 0; i < b->forceds; i++)
        json_array_append_new(ids, json_integer(b->forced[i]));
    json_object_set_new(o, "a", text_json(r->a));
    json_object_set_new(o, "b", text_json(r->b));
    json_object_set_new(o, "model", text_json(r->model));
    json_object_set_new(o, "battery", r->battery ? text_json(r->battery) : json_null());
    json_object_set_new(o, "prompt", r->battery ? text_json(r->prompt) : json_null());
    json_object_set_new(o, "prompts_tried", json_integer(r->tried));
    json_object_set_new(o, "prompt_ids", json_integer(r->prompt_ids));
    json_object_set_new(o, "forced_ids", ids);
    json_object_set_new(o, "free_run", json_boolean(b->free_run));
    json_object_set_new(o, "first", first_json(b));
    json_object_set_new(o, "emission", emission_json(b));
    json_object_set_new(o, "fed", b->could_feed ? json_string(b->fed_is_a ? "a" : "b") : json_null());
    json_object_set_new(o, "wrong_by_itself", kinds_json(b));
    json_object_set_new(o, "inputs_not_recorded", json_integer(b->unrecorded));
    json_object_set_new(o, "only_a", json_integer(b->alone_a));
    json_object_set_new(o, "only_b", json_integer(b->alone_b));
    json_object_set_new(o, "ops", ops_json(b));
    json_object_set_new(o, "again", text_json(r->again));
    return o;
}
