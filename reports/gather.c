#include "reports/gather.h"

#include "harness/razor.h"
#include "reports/weigh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static double real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void add_note(struct report *r, const char *what, const char *why)
{
    if (r->notes < (int)(sizeof r->note / sizeof *r->note))
        snprintf(r->note[r->notes++], sizeof *r->note, "%s: %.220s", what, why);
}

static struct verdict_row row_of(const json_t *o)
{
    struct verdict_row v = {.position = (int)json_integer_value(json_object_get(o, "position")),
                            .forced = (int)json_integer_value(json_object_get(o, "forced")),
                            .root = json_is_true(json_object_get(o, "root")),
                            .verdict = verdict_by_name(str(o, "verdict")),
                            .golden_id = (int32_t)json_integer_value(json_object_get(o, "golden_id")),
                            .arm_id = (int32_t)json_integer_value(json_object_get(o, "arm_id")),
                            .gap_nats = real(o, "gap_nats"),
                            .gap_ulp = real(o, "gap_ulp"),
                            .gap_bound_nats = real(o, "gap_bound_nats"),
                            .ulp = real(o, "ulp"),
                            .razor_nats = real(o, "razor_nats"),
                            .jitter_nats = real(o, "jitter_nats"),
                            .self_gap_nats = real(o, "self_gap_nats"),
                            .ties = (int)json_integer_value(json_object_get(o, "ties"))};
    snprintf(v.prompt, sizeof v.prompt, "%s", str(o, "prompt"));
    return v;
}

static int read_rows(struct report *r, struct err *e)
{
    const json_t *list = json_object_get(r->run, "positions");
    size_t n = json_array_size(list);
    r->row = calloc(n + 1, sizeof *r->row);
    if (!r->row)
        return FAIL(e, E_NOMEM, "out of memory for %zu verdicts", n);
    for (size_t i = 0; i < n; i++) {
        struct verdict_row v = row_of(json_array_get(list, i));
        if (v.verdict == V_COUNT)
            return FAIL(e, E_STORE, "run %lld: prompt %s token %d holds a verdict that this program does not know",
                        (long long)r->id, v.prompt, v.position);
        r->row[r->rows++] = v;
    }
    return OK;
}

static int find_golden(struct store *s, struct report *r, struct err *e)
{
    struct err missing = {0};
    char sha256[SHA256_HEX_SIZE] = "";
    const char *arm = json_string_value(json_object_get(r->summary, "golden"));
    int rc = store_golden_get(s, r->model, r->battery_name, arm, &r->golden, sha256, &missing);
    if (rc && rc != E_MISSING)
        return FAIL(e, rc, "%s", missing.text);
    if (rc == OK && !strcmp(sha256, str(r->run, "golden_sha256")))
        return OK;
    add_note(r, "the oracle's side is not shown",
             rc ? missing.text : "the store's golden of that name is not the one that this run was judged against");
    golden_free(r->golden);
    r->golden = NULL;
    return OK;
}

static int find_battery(struct store *s, struct report *r, struct err *e)
{
    struct err missing = {0};
    int rc = store_battery_get(s, r->battery_name, &r->battery, &missing);
    if (rc && rc != E_MISSING)
        return FAIL(e, rc, "%s", missing.text);
    if (rc == OK && !strcmp(r->battery->sha256, str(r->run, "battery_sha256")))
        return OK;
    add_note(r, "the battery is not at hand",
             rc ? missing.text : "the store's battery of that name is not the one that this run took");
    battery_free(r->battery);
    r->battery = NULL;
    return OK;
}

static int count_prompts(const struct report *r)
{
    return r->battery ? r->battery->prompts : r->golden ? r->golden->prompts : r->rows;
}

static void name_prompts(struct report *r)
{
    if (r->battery || r->golden) {
        for (int i = 0; i < count_prompts(r); i++)
            r->prompt[r->prompts++].name = r->battery ? r->battery->prompt[i].name : r->golden->prompt[i].name;
        return;
    }
    /* The rows are sorted by prompt. */
    for (int i = 0; i < r->rows; i++)
        if (!i || strcmp(r->row[i].prompt, r->row[i - 1].prompt))
            r->prompt[r->prompts++].name = r->row[i].prompt;
}

static int read_streams(struct store *s, struct report *r, struct report_prompt *p, struct err *e)
{
    int rc;
    if ((rc = store_stream_get(s, r->id, p->name, PHASE_FREE, &p->free, &p->has_free, e)) ||
        (rc = store_stream_get(s, r->id, p->name, PHASE_FORCE_DECODE, &p->decode, &p->has_decode, e)))
        return rc;
    return store_stream_get(s, r->id, p->name, PHASE_FORCE_PREFILL, &p->prefill, &p->has_prefill, e);
}

static int read_prompts(struct store *s, struct report *r, struct err *e)
{
    int rc = OK;
    r->prompt = calloc((size_t)count_prompts(r) + 1, sizeof *r->prompt);
    if (!r->prompt)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", count_prompts(r));
    name_prompts(r);
    for (int i = 0; i < r->prompts && rc == OK; i++) {
        struct report_prompt *p = &r->prompt[i];
        p->golden = r->golden ? golden_find(r->golden, p->name) : NULL;
        if ((rc = read_streams(s, r, p, e)) == OK)
            rc = report_weigh(r, p, e);
        r->answered += p->has_free;
    }
    return rc;
}

static void read_head(struct report *r)
{
    r->id = json_integer_value(json_object_get(r->run, "run"));
    r->model = str(r->run, "model");
    r->battery_name = str(r->run, "battery");
    r->arm = str(r->run, "arm");
    r->verdict = run_verdict_by_name(str(r->run, "verdict"));
    r->summary = json_object_get(r->run, "summary");
    if (!json_is_object(r->summary) || r->verdict == RV_COUNT) {
        r->summary = NULL;
        r->verdict = RV_COUNT;
    }
}

static void say_why(struct report *r)
{
    if (r->summary)
        snprintf(r->why, sizeof r->why, "%s", str(r->summary, "why"));
    else
        snprintf(r->why, sizeof r->why,
                 "this run was started and never finished: %d of %d prompts are answered, nothing is judged; the same "
                 "`assay run` command goes on where it stopped",
                 r->answered, r->prompts);
}

int report_gather(struct store *s, int64_t run, report_piece *piece, void *arg, struct report **out, struct err *e)
{
    int rc;
    struct report *r = calloc(1, sizeof *r);
    if (!r)
        return FAIL(e, E_NOMEM, "out of memory");
    r->piece = piece;
    r->piece_arg = arg;
    if ((rc = store_run_get(s, run, &r->run, e)))
        goto out;
    read_head(r);
    if ((rc = read_rows(r, e)) || (rc = find_golden(s, r, e)) || (rc = find_battery(s, r, e)) ||
        (rc = read_prompts(s, r, e)))
        goto out;
    say_why(r);
    *out = r;
    r = NULL;
out:
    report_free(r);
    return rc;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    for (int i = 0; r->prompt && i < r->prompts; i++) {
        stream_free(&r->prompt[i].free);
        stream_free(&r->prompt[i].decode);
        stream_free(&r->prompt[i].prefill);
        free(r->prompt[i].position);
    }
    for (int i = 0; i < r->texts; i++)
        free(r->text[i]);
    free(r->text);
    free(r->prompt);
    free(r->row);
    golden_free(r->golden);
    battery_free(r->battery);
    json_decref(r->run);
    free(r);
}
