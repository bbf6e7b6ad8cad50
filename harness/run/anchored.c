#include "harness/run/anchored.h"

#include "goldens/ratify.h"
#include "harness/device.h"
#include "harness/statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int same(const struct stream *s, const int32_t *ids, int n)
{
    return s && s->n == n && !memcmp(s->ids, ids, (size_t)n * sizeof *ids);
}

/* Why an anchor of this arm and device does not count here; "" when it does. */
static void why_not(const struct run_options *o, const struct anchor *a, char *why, size_t size)
{
    why[0] = 0;
    if (strcmp(a->golden_sha256, o->golden_sha256))
        snprintf(why, size, "it was ratified against golden %.12s", a->golden_sha256);
    else if (strcmp(a->model_sha256, o->model_sha256))
        snprintf(why, size, "it was ratified with other model files (%.12s)", a->model_sha256);
    else if (strcmp(a->battery_sha256, o->battery->sha256))
        snprintf(why, size, "it was ratified with another battery (%.12s)", a->battery_sha256);
}

/* Prompts whose ids are the anchor's; *first is the first one whose are not. */
static int count_equal(const struct anchor *a, const struct emitted *x, int n, const char **first)
{
    int equal = 0;
    *first = NULL;
    for (int i = 0; i < n; i++) {
        const struct anchor_prompt *p = anchor_find(a, x[i].prompt);
        int is = p && same(x[i].stream, p->ids, p->n) && x[i].stream->finish == p->finish;
        equal += is;
        if (!is && !*first)
            *first = x[i].prompt;
    }
    return equal;
}

static void apply(const struct anchor *a, int equal, int n, const char *first, struct judgement *j)
{
    char before[sizeof j->why];
    if (j->verdict != RV_PASS_BY_RAZOR)
        return;
    snprintf(before, sizeof before, "%s", j->why);
    if (equal == n) {
        j->verdict = RV_PASS;
        snprintf(j->why, sizeof j->why, "every id is the golden's or the ratified anchor's (%.60s, by %.60s, %.60s)",
                 before, a->by, a->reason);
    } else {
        snprintf(j->why, sizeof j->why, "%.200s; %d of %d prompts are not the ratified anchor's, first %.63s", before,
                 n - equal, n, first);
    }
}

static int step(const struct run_options *o, const struct emitted *x, int n, const char *device, struct judgement *j,
                json_t *members, struct err *e)
{
    char sha256[SHA256_HEX_SIZE], why[200];
    struct anchor *a;
    struct err none = {0};
    const char *first;
    int rc = store_anchor_get(o->store, o->golden->model, o->battery->name, o->engine->arm, device, &a, sha256, &none);
    if (rc)
        return rc == E_MISSING ? OK : FAIL(e, rc, "%s", none.text);
    why_not(o, a, why, sizeof why);
    int equal = count_equal(a, x, n, &first);
    if (!*why)
        apply(a, equal, n, first, j);
    json_object_set_new(members, "anchor",
                        json_pack("{s:s,s:s,s:s,s:I,s:s,s:i,s:i,s:o}", "sha256", sha256, "by", a->by, "reason",
                                  a->reason, "run", (json_int_t)a->run, "evidence", a->evidence, "prompts", n,
                                  "prompts_equal", equal, "stale", *why ? json_string(why) : json_null()));
    anchor_free(a);
    return OK;
}

/* Prompts that left the golden and landed on exactly this known wrong stream. */
static int landed_on(const struct run_options *o, const struct golden *wrong, const struct emitted *x, int n, int *left)
{
    int landed = 0;
    *left = 0;
    for (int i = 0; i < n; i++) {
        const struct golden_prompt *right = golden_find(o->golden, x[i].prompt), *w = golden_find(wrong, x[i].prompt);
        if (!right || !x[i].stream || same(x[i].stream, right->ids, right->n))
            continue;
        ++*left;
        landed += w && same(x[i].stream, w->ids, w->n);
    }
    return landed;
}

static int known_wrongs(const struct run_options *o, const struct emitted *x, int n, json_t *members, struct err *e)
{
    json_t *list = NULL, *row, *found = json_array();
    size_t i;
    int rc = store_golden_list(o->store, o->golden->model, o->battery->name, "negative", &list, e);
    json_array_foreach(list, i, row)
    {
        struct golden *g;
        char sha256[SHA256_HEX_SIZE];
        int left;
        if (rc ||
            (rc = store_golden_by_hash(o->store, json_string_value(json_object_get(row, "golden")), &g, sha256, e)))
            continue;
        int landed = landed_on(o, g, x, n, &left);
        if (landed)
            json_array_append_new(
                found, json_pack("{s:s,s:s,s:i,s:i}", "arm", g->arm, "golden", sha256, "prompts", landed, "of", left));
        golden_free(g);
    }
    json_decref(list);
    json_object_set_new(members, "negative", found);
    return rc;
}

/* Until the free run leaves the golden it stands on its prefix. */
static void add_statistics(const struct run_options *o, const struct emitted *x, int n, json_t *members)
{
    struct statistics sum = {0};
    for (int i = 0; i < n; i++) {
        const struct golden_prompt *g = golden_find(o->golden, x[i].prompt);
        const struct stream *s = x[i].forced ? x[i].forced : x[i].stream;
        for (int at = 0; g && s && at < g->n && at < s->n; at++) {
            statistics_add(&sum, &g->decode, &s->view, at, g->ids[at]);
            if (!x[i].forced && s->ids[at] != g->ids[at])
                break;
        }
    }
    json_t *all = statistics_json(&sum);
    if (all)
        json_object_set_new(members, "statistics", all);
}

int anchored(const struct run_options *o, const struct emitted *x, int n, struct judgement *j, json_t **members,
             struct err *e)
{
    char mine[128], theirs[128];
    json_t *m = json_object();
    if (!m)
        return FAIL(e, E_NOMEM, "out of memory");
    device_of_engine(o->engine->build, mine, sizeof mine);
    device_of_golden(o->golden->header, theirs, sizeof theirs);
    json_object_set_new(m, "device",
                        json_pack("{s:s,s:s,s:b}", "arm", mine, "golden", theirs, "same", device_same(mine, theirs)));
    add_statistics(o, x, n, m);
    int rc = step(o, x, n, mine, j, m, e);
    if (!rc)
        rc = known_wrongs(o, x, n, m, e);
    if (rc)
        json_decref(m);
    else
        *members = m;
    return rc;
}
