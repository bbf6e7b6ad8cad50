#include "harness/ratify/plan.h"

#include "harness/device.h"
#include "harness/razor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int refuse(struct ratify_plan *p, int status, const char *fmt, ...)
{
    va_list ap;
    if (*p->refusal)
        return 0;
    va_start(ap, fmt);
    vsnprintf(p->refusal, sizeof p->refusal, fmt, ap);
    va_end(ap);
    p->status = status;
    return 0;
}

void ratify_plan_free(struct ratify_plan *p)
{
    for (int i = 0; p->stream && i < p->golden->prompts; i++)
        stream_free(&p->stream[i]);
    free(p->stream);
    anchor_free(p->anchor);
    golden_free(p->golden);
    golden_free(p->forced);
    battery_free(p->battery);
    free(p->text);
    json_decref(p->run);
    json_decref(p->outdated);
    json_decref(p->changes);
    memset(p, 0, sizeof *p);
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The run as it was judged: finished, benign, of an arm that is no mutant. */
static void check_run(struct ratify_plan *p)
{
    const char *verdict = str(p->run, "verdict");
    size_t i;
    json_t *row;
    if (!*verdict) {
        refuse(p, 4, "it is not finished");
        return;
    }
    if (strstr(str(p->run, "arm"), " mutant="))
        refuse(p, 1, "its arm carries a planted mistake: %s", str(p->run, "arm"));
    json_array_foreach(json_object_get(p->run, "positions"), i, row)
    {
        enum verdict v = verdict_by_name(str(row, "verdict"));
        int root = json_is_true(json_object_get(row, "root"));
        if (!verdict_is_benign(v) && (root || v != V_CASCADE))
            refuse(p, 1, "%s token %d%s is %s: only ties and near ties are ratified", str(row, "prompt"),
                   (int)json_integer_value(json_object_get(row, "position")), root ? " (a root)" : "", verdict_name(v));
    }
    if (!strcmp(verdict, "FAIL"))
        refuse(p, 1, "its verdict is FAIL");
    if (!strcmp(verdict, "VOID"))
        refuse(p, 5, "its verdict is VOID");
    if (strcmp(verdict, "PASS") && strcmp(verdict, "PASS_BY_RAZOR"))
        refuse(p, 4, "its verdict is %s", verdict);
}

/* The golden and the battery as they were. */
static int load_sides(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    char found[SHA256_HEX_SIZE], status[16];
    const char *golden = str(p->run, "golden_sha256");
    struct err none = {0};
    if (store_golden_status_of(a->store, golden, status, &none))
        return refuse(p, 4, "%s", none.text);
    if (store_golden_verify(a->store, golden, &none))
        return refuse(p, 5, "%s", none.text);
    int rc = store_golden_by_hash(a->store, golden, &p->golden, found, e);
    if (rc)
        return rc;
    p->activates = !strcmp(status, "pending");
    if (!p->activates && strcmp(status, "active"))
        refuse(p, 5, "its golden %.12s is %s", golden, status);
    if (store_battery_get(a->store, str(p->run, "battery"), &p->battery, &none))
        return refuse(p, 4, "%s", none.text);
    if (strcmp(p->battery->sha256, str(p->run, "battery_sha256")))
        refuse(p, 5, "battery %s is another one now: sha256 %.12s, the run had %.12s", p->battery->name,
               p->battery->sha256, str(p->run, "battery_sha256"));
    return OK;
}

static int load_streams(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    p->stream = calloc((size_t)p->golden->prompts + 1, sizeof *p->stream);
    if (!p->stream)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < p->golden->prompts; i++) {
        int found,
            rc = store_stream_get(a->store, a->run, p->golden->prompt[i].name, PHASE_FREE, &p->stream[i], &found, e);
        if (rc)
            return rc;
        if (!found)
            refuse(p, 4, "it has no answer for prompt %s", p->golden->prompt[i].name);
    }
    return OK;
}

/* Active goldens that the pending one takes the place of: the same model, battery, arm and device. */
static int find_outdated(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    json_t *list = NULL, *o;
    char mine[128], theirs[128], found[SHA256_HEX_SIZE];
    size_t i;
    p->outdated = json_array();
    if (!p->activates)
        return OK;
    device_of_golden(p->golden->header, mine, sizeof mine);
    int rc = store_golden_list(a->store, p->golden->model, p->golden->battery, "active", &list, e);
    json_array_foreach(list, i, o)
    {
        struct golden *g;
        if (rc || strcmp(str(o, "arm"), p->golden->arm))
            continue;
        if ((rc = store_golden_by_hash(a->store, str(o, "golden"), &g, found, e)))
            continue;
        device_of_golden(g->header, theirs, sizeof theirs);
        if (!strcmp(mine, theirs))
            json_array_append_new(p->outdated, json_string(found));
        golden_free(g);
    }
    json_decref(list);
    return rc;
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Gaps on the arm's own prefix: where an oracle was fed it, else as far as it is the golden's. */
static void fill_gaps(const struct ratify_plan *p, int at, struct anchor_prompt *to)
{
    const struct golden_prompt *g = p->forced ? golden_find(p->forced, to->name) : &p->golden->prompt[at];
    int bits = golden_significand_bits(p->forced ? p->forced : p->golden), known = 1;
    for (int i = 0; i < to->n; i++) {
        to->gap[i] = known && g && i < g->n ? gap_of(&g->decode, i, to->ids[i], bits).nats : NAN;
        known &= g && i < g->n && g->ids[i] == to->ids[i];
    }
}

static int make_anchor(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    struct anchor *x = calloc(1, sizeof *x);
    const json_t *summary = json_object_get(p->run, "summary");
    p->anchor = x;
    if (!x || !(x->prompt = calloc((size_t)p->golden->prompts + 1, sizeof *x->prompt)))
        return FAIL(e, E_NOMEM, "out of memory");
    copy(x->model, sizeof x->model, p->golden->model);
    copy(x->model_sha256, sizeof x->model_sha256, str(p->run, "model_sha256"));
    copy(x->battery, sizeof x->battery, p->golden->battery);
    copy(x->battery_sha256, sizeof x->battery_sha256, str(p->run, "battery_sha256"));
    copy(x->golden_sha256, sizeof x->golden_sha256, str(p->run, "golden_sha256"));
    copy(x->arm, sizeof x->arm, str(p->run, "arm"));
    device_of_engine(json_object_get(summary, "engine"), x->device, sizeof x->device);
    copy(x->reason, sizeof x->reason, a->reason);
    copy(x->by, sizeof x->by, a->by);
    copy(x->note, sizeof x->note, a->note ? a->note : "");
    x->run = a->run;
    for (int i = 0; i < p->golden->prompts; i++) {
        const struct stream *s = &p->stream[i];
        struct anchor_prompt *to = &x->prompt[x->prompts++];
        to->name = strdup(p->golden->prompt[i].name);
        to->ids = malloc((size_t)s->n * sizeof *to->ids + 1);
        to->gap = malloc((size_t)s->n * sizeof *to->gap + 1);
        if (!to->name || !to->ids || !to->gap)
            return FAIL(e, E_NOMEM, "out of memory");
        memcpy(to->ids, s->ids, (size_t)s->n * sizeof *to->ids);
        to->n = s->n;
        to->finish = s->finish;
    }
    return OK;
}

static int finish_anchor(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    for (int i = 0; i < p->anchor->prompts; i++)
        fill_gaps(p, i, &p->anchor->prompt[i]);
    return anchor_text(p->anchor, p->golden, a->say, a->say_arg, &p->text, &p->bytes, e);
}

int ratify_plan(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    struct err seal = {0};
    int rc;
    memset(p, 0, sizeof *p);
    if ((rc = store_run_get(a->store, a->run, &p->run, e)))
        return rc;
    check_run(p);
    if (!*p->refusal && store_run_verify(a->store, a->run, &seal))
        return FAIL(e, seal.code, "%s", seal.text);
    if (*p->refusal || (rc = load_sides(a, p, e)) || *p->refusal || (rc = load_streams(a, p, e)) || *p->refusal ||
        (rc = find_outdated(a, p, e)) || (rc = make_anchor(a, p, e)) || (rc = plan_evidence(a, p, e)) || *p->refusal)
        return rc;
    rc = finish_anchor(a, p, e);
    return rc ? rc : plan_changes(a, p, e);
}
