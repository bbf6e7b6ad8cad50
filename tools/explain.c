#include "tools/explain.h"

#include "reports/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The first listed difference of the prompt, or NULL. */
static const json_t *first_difference(const json_t *list, const char *prompt)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row)
    {
        if (!strcmp(str(row, "prompt"), prompt))
            return row;
    }
    return NULL;
}

/* Without a token the prompt's root is meant, or else where its forced run differs, in the shape that differs. */
static void choose_position(struct explain *x, const json_t *summary, const char *prompt)
{
    const json_t *row = x->prefill ? NULL : first_difference(json_object_get(summary, "roots"), prompt);
    if (x->position >= 0)
        return;
    if (!row && (row = first_difference(json_object_get(json_object_get(summary, "forced"), "differences"), prompt)))
        x->prefill = !strcmp(str(row, "shape"), "prefill");
    x->position = row ? (int)json_integer_value(json_object_get(row, "position")) : 0;
}

static int on_golden_prefix(const struct explain *x)
{
    const struct stream *s = &x->free_run;
    for (int i = 0; i < x->position; i++)
        if (i >= s->n || s->ids[i] != x->prompt->ids[i])
            return 0;
    return x->position < s->n;
}

static void find_arm_row(struct explain *x)
{
    int free_counts = !x->prefill && on_golden_prefix(x);
    x->arm_id = -1;
    if (x->position < x->forced.n) {
        x->arm_id = x->forced.ids[x->position];
        x->arm = x->position < x->forced.view.rows ? &x->forced.view : NULL;
    }
    if (free_counts) {
        x->arm_id = x->free_run.ids[x->position];
        x->arm = x->position < x->free_run.view.rows ? &x->free_run.view : x->arm;
    }
}

static void weigh(struct explain *x)
{
    int bits = golden_significand_bits(x->golden);
    struct razor_rule rule = {x->battery->razor_ulp, x->battery->razor_cap_nats};
    int32_t id = x->arm_id < 0 ? x->prompt->ids[x->position] : x->arm_id;
    x->gap = gap_of(x->oracle, x->position, id, bits);
    x->jitter = jitter_at(x->prompt, x->position, id, bits);
    x->razor_nats = razor_width(&rule, x->gap.ulp, x->jitter.nats);
    x->verdict = x->arm_id == x->prompt->ids[x->position] ? V_EQUAL : razor_verdict(&x->gap, x->razor_nats);
}

static int load_streams(struct store *s, const char *prompt, struct explain *x, struct err *e)
{
    int found;
    enum run_phase forced = x->prefill ? PHASE_FORCE_PREFILL : PHASE_FORCE_DECODE;
    int rc = store_stream_get(s, x->run, prompt, PHASE_FREE, &x->free_run, &found, e);
    return rc ? rc : store_stream_get(s, x->run, prompt, forced, &x->forced, &found, e);
}

int explain_load(struct store *s, int64_t run, const char *prompt, int prefill, struct explain *x, struct err *e)
{
    char sha256[SHA256_HEX_SIZE];
    int rc = store_run_get(s, run, &x->object, e);
    if (rc)
        return rc;
    const json_t *o = x->object, *summary = json_object_get(o, "summary");
    const char *arm = json_string_value(json_object_get(summary, "golden"));
    x->run = json_integer_value(json_object_get(o, "run"));
    x->prefill = prefill;
    choose_position(x, summary, prompt);
    if ((rc = store_golden_get(s, str(o, "model"), str(o, "battery"), arm, &x->golden, sha256, e)) ||
        (rc = store_battery_get(s, str(o, "battery"), &x->battery, e)) || (rc = load_streams(s, prompt, x, e)))
        return rc;
    if (!(x->prompt = golden_find(x->golden, prompt)))
        return FAIL(e, E_MISSING, "the golden of run %lld has no prompt \"%s\"", (long long)x->run, prompt);
    if (x->position >= x->prompt->n)
        return FAIL(e, E_USAGE, "prompt %s: the golden holds %d tokens, there is no token %d", prompt, x->prompt->n,
                    x->position);
    x->oracle = x->prefill ? &x->prompt->prefill : &x->prompt->decode;
    find_arm_row(x);
    weigh(x);
    return OK;
}

/* Characters, not bytes. */
static int columns(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static void print_cell(FILE *f, const struct explain *x, const struct view *v, int line, const struct token_text *tok)
{
    char shown[24];
    int row = x->position;
    if (!v)
        return;
    if (row >= v->rows || line >= v->top_k || v->top_ids[row * v->top_k + line] < 0) {
        fprintf(f, "  %-48s", "");
        return;
    }
    size_t at = (size_t)row * (size_t)v->top_k + (size_t)line;
    token_text_quote(tok, v->top_ids[at], shown, sizeof shown);
    fprintf(f, "  %7d %12.7g %10.5f %s", v->top_ids[at], v->top_values[at], v->top_values[at] - v->logsumexp[row],
            shown);
    for (int width = columns(shown); v == x->oracle && width < 16; width++)
        fputc(' ', f);
}

static void print_side(FILE *f, const struct explain *x, const struct view *v, const char *name, const char *value,
                       const struct token_text *tok)
{
    fprintf(f, "%4s  %s\n%4s  %7s %12s %10s\n", "", v ? name : "arm: no row on this prefix was stored", "rank", "id",
            value, "log-prob");
    for (int i = 0; v && i < x->lines && i < v->top_k; i++) {
        fprintf(f, "%4d", i + 1);
        print_cell(f, x, v, i, tok);
        fputc('\n', f);
    }
}

static void print_rows(FILE *f, const struct explain *x, const struct token_text *tok)
{
    const char *value = x->oracle->kind == VALUE_LOGPROB ? "log-prob" : "logit";
    if (x->narrow) {
        print_side(f, x, x->oracle, "oracle", value, tok);
        print_side(f, x, x->arm, "arm", value, tok);
        return;
    }
    fprintf(f, "%4s  %-48s  %s\n", "", "oracle", x->arm ? "arm" : "arm: no row on this prefix was stored");
    fprintf(f, "%4s  %7s %12s %10s %-16s  %7s %12s %10s\n", "rank", "id", value, "log-prob", "", "id", value,
            "log-prob");
    for (int i = 0; i < x->lines && (i < x->oracle->top_k || (x->arm && i < x->arm->top_k)); i++) {
        fprintf(f, "%4d", i + 1);
        print_cell(f, x, x->oracle, i, tok);
        print_cell(f, x, x->arm, i, tok);
        fputc('\n', f);
    }
}

static void print_known(FILE *f, const char *name, double nats, double ulp)
{
    if (isnan(nats))
        fprintf(f, "%-10s not known\n", name);
    else
        fprintf(f, "%-10s %.9g nat (%.4g ULP)\n", name, nats, nats / ulp);
}

void explain_text(FILE *f, const struct explain *x, const struct token_text *tok)
{
    char *prompt = text_visible(x->prompt->name, strlen(x->prompt->name), 0);
    json_visible(x->object);
    fprintf(f, "run %lld, %s, %s, %s\n", (long long)x->run, str(x->object, "model"), str(x->object, "battery"),
            str(x->object, "arm"));
    fprintf(f, "prompt %s, token %d of %d, %s-shaped: oracle emitted %d, arm ", prompt ? prompt : "?", x->position,
            x->prompt->n, x->prefill ? "prefill" : "decode", x->prompt->ids[x->position]);
    free(prompt);
    if (x->arm_id < 0)
        fprintf(f, "was not asked on this prefix\n\n");
    else
        fprintf(f, "%s %d\n\n", x->prefill ? "would emit" : "emitted", x->arm_id);
    print_rows(f, x, tok);
    fprintf(f, "\n%-10s %d token%s at the oracle's maximum\n", "ties", x->gap.ties, x->gap.ties == 1 ? "" : "s");
    fprintf(f, "%-10s %.9g nat%s\n", "ULP", x->gap.ulp, x->gap.inferred ? ", inferred from log-probabilities" : "");
    print_known(f, x->gap.stored ? "gap" : "gap >=", x->gap.bound_nats, x->gap.ulp);
    print_known(f, "self gap", x->jitter.self_nats, x->gap.ulp);
    print_known(f, "batch gap", x->jitter.batch_nats, x->gap.ulp);
    print_known(f, "razor", x->razor_nats, x->gap.ulp);
    fprintf(f, "%-10s = min(cap %.4g nat, max(%.4g ULP, jitter %.4g nat))\n", "", x->battery->razor_cap_nats,
            x->battery->razor_ulp, x->jitter.nats);
    fprintf(f, "%-10s %s: %s\n", "verdict", x->arm_id < 0 ? "none" : verdict_name(x->verdict),
            x->arm_id < 0 ? "the arm gave no id here" : verdict_text(x->verdict));
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *row_json(const struct view *v, int row, int lines)
{
    json_t *list = json_array();
    for (int i = 0; v && row < v->rows && i < v->top_k && i < lines; i++) {
        size_t at = (size_t)row * (size_t)v->top_k + (size_t)i;
        if (v->top_ids[at] >= 0)
            json_array_append_new(list,
                                  json_pack("{s:i,s:o,s:o}", "id", v->top_ids[at], "value", real(v->top_values[at]),
                                            "logprob", real(v->top_values[at] - v->logsumexp[row])));
    }
    return list;
}

json_t *explain_json(const struct explain *x)
{
    json_t *o = json_pack("{s:I,s:s,s:i,s:s,s:i,s:i,s:o,s:o}", "run", (json_int_t)x->run, "prompt", x->prompt->name,
                          "position", x->position, "shape", x->prefill ? "prefill" : "decode", "golden_id",
                          x->prompt->ids[x->position], "arm_id", x->arm_id, "oracle",
                          row_json(x->oracle, x->position, x->lines), "arm", row_json(x->arm, x->position, x->lines));
    json_object_set_new(o, "ties", json_integer(x->gap.ties));
    json_object_set_new(o, "ulp_nats", real(x->gap.ulp));
    json_object_set_new(o, "grid_inferred", json_boolean(x->gap.inferred));
    json_object_set_new(o, "gap_nats", real(x->gap.nats));
    json_object_set_new(o, "gap_ulp", real(x->gap.ulps));
    json_object_set_new(o, "gap_bound_nats", real(x->gap.bound_nats));
    json_object_set_new(o, "self_gap_nats", real(x->jitter.self_nats));
    json_object_set_new(o, "batch_gap_nats", real(x->jitter.batch_nats));
    json_object_set_new(o, "razor_nats", real(x->razor_nats));
    json_object_set_new(o, "verdict", x->arm_id < 0 ? json_null() : json_string(verdict_name(x->verdict)));
    return o;
}

void explain_free(struct explain *x)
{
    stream_free(&x->free_run);
    stream_free(&x->forced);
    golden_free(x->golden);
    battery_free(x->battery);
    json_decref(x->object);
    memset(x, 0, sizeof *x);
}
