/* What licenses an arm's ids. */
#include "goldens/exchange.h"
#include "harness/ratify/plan.h"
#include "harness/razor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int same_ids(const struct stream *s, const struct golden_prompt *g)
{
    return s->n == g->n && !memcmp(s->ids, g->ids, (size_t)s->n * sizeof *s->ids);
}

/* With equal ids the golden's rows are an oracle forced on the arm's own ids. */
static int golden_is_evidence(const struct ratify_plan *p)
{
    for (int i = 0; i < p->golden->prompts; i++) {
        const struct golden_prompt *g = &p->golden->prompt[i];
        if (!same_ids(&p->stream[i], g) || g->decode.rows < g->n || g->prefill.rows < g->n)
            return 0;
    }
    return 1;
}

/* One position of the oracle's answer, decode-shaped and prefill-shaped; how far the two differ is measured noise. */
static int judge_position(struct ratify_plan *p, const struct golden_prompt *g, int at, int bits)
{
    const struct razor_rule rule = {p->battery->razor_ulp, p->battery->razor_cap_nats};
    const struct view *view[] = {&g->decode, &g->prefill};
    struct jitter noise = jitter_at(g, at, g->ids[at], bits);
    for (int shape = 0; shape < 2; shape++) {
        struct gap gap = gap_of(view[shape], at, g->ids[at], bits);
        double razor = razor_width(&rule, gap.ulp, noise.nats);
        enum verdict v = razor_verdict(&gap, razor);
        if (gap.stored && gap.nats == 0)
            continue;
        if (!verdict_is_benign(v))
            return refuse(
                p, v == V_CASCADE ? 4 : 1,
                "the oracle, fed the arm's own ids (%s), says %s at %s token %d: id %d, gap %s%.6g nat, razor "
                "%.6g",
                shape ? "one pass" : "token by token", verdict_name(v), g->name, at, g->ids[at],
                gap.stored ? "" : ">= ", gap.bound_nats, razor);
    }
    return 1;
}

static int judge_forced(struct ratify_plan *p)
{
    int bits = golden_significand_bits(p->forced);
    for (int i = 0; i < p->golden->prompts; i++) {
        const struct golden_prompt *g = golden_find(p->forced, p->golden->prompt[i].name);
        if (!g || !same_ids(&p->stream[i], g) || g->decode.rows < g->n || g->prefill.rows < g->n)
            return refuse(p, 4, "the oracle's stored evidence is not about this run's ids of prompt %s",
                          p->golden->prompt[i].name);
        for (int at = 0; at < g->n; at++)
            if (!judge_position(p, g, at, bits))
                return 0;
    }
    return 1;
}

/* *used = 1: it is there and licenses. A stored answer that speaks against the arm refuses. */
static int try_forced(const struct ratify_ask *a, struct ratify_plan *p, int *used, struct err *e)
{
    char name[40], sha256[SHA256_HEX_SIZE], *text;
    size_t bytes;
    struct err none = {0};
    snprintf(name, sizeof name, "run:%lld", (long long)a->run);
    int rc = store_record_get(a->store, "forced", name, &text, &bytes, sha256, &none);
    *used = 0;
    if (rc == E_MISSING)
        return OK;
    if (rc)
        return FAIL(e, rc, "%s", none.text);
    rc = golden_parse(text, bytes, name, &p->forced, e);
    free(text);
    if (rc)
        return rc;
    const json_t *oracle = json_object_get(p->forced->header, "oracle");
    *used = judge_forced(p);
    snprintf(p->anchor->evidence, sizeof p->anchor->evidence, "oracle forced on these ids: %.60s %.40s, record %.12s",
             str(oracle, "name"), str(oracle, "version"), sha256);
    return OK;
}

/* Words of one arm that the other lacks. */
static int words_apart(const char *a, const char *b, char *out, size_t size)
{
    int n = 0;
    char *all = strdup(a), *rest = NULL;
    out[0] = 0;
    for (char *w = all ? strtok_r(all, " ", &rest) : NULL; w; w = strtok_r(NULL, " ", &rest)) {
        char padded[300], word[300];
        snprintf(padded, sizeof padded, " %.250s ", b);
        snprintf(word, sizeof word, " %.250s ", w);
        if (strstr(padded, word))
            continue;
        size_t at = strlen(out);
        snprintf(out + at, size - at, "%s%s", n++ ? " " : "", w);
    }
    free(all);
    return n;
}

/* The same engine of the same build by another route gives the golden's ids: what changed them is the route. */
static int check_ab(const struct ratify_ask *a, struct ratify_plan *p, const json_t *other, char apart[200])
{
    static const char *const same[] = {"model_sha256", "battery_sha256", "golden_sha256", "commit"};
    const char *arm = str(p->run, "arm"), *theirs = str(other, "arm");
    size_t engine = strcspn(arm, " ");
    for (int i = 0; i < 4; i++)
        if (!*str(p->run, same[i]) || strcmp(str(p->run, same[i]), str(other, same[i])))
            return refuse(p, 4, "run %lld is no A/B of it: %s \"%.40s\" against \"%.40s\"", (long long)a->ab_run,
                          same[i], str(other, same[i]), str(p->run, same[i]));
    if (engine != strcspn(theirs, " ") || strncmp(arm, theirs, engine) || strstr(theirs, " mutant=") ||
        !words_apart(arm, theirs, apart, 200))
        return refuse(p, 4, "run %lld is no A/B of it: arm \"%s\" against \"%s\"", (long long)a->ab_run, theirs, arm);
    if (strcmp(str(other, "verdict"), "PASS"))
        return refuse(p, 4, "run %lld does not license it: its own verdict is %s", (long long)a->ab_run,
                      *str(other, "verdict") ? str(other, "verdict") : "not there yet");
    return 1;
}

static int try_ab(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    json_t *other = NULL;
    char apart[200];
    int rc = store_run_get(a->store, a->ab_run, &other, e);
    if (!rc && *str(other, "verdict"))
        rc = store_run_verify(a->store, a->ab_run, e);
    if (!rc && check_ab(a, p, other, apart))
        snprintf(p->anchor->evidence, sizeof p->anchor->evidence, "route A/B with run %lld: %.150s, here %.60s",
                 (long long)a->ab_run, str(other, "arm"), apart);
    json_decref(other);
    return rc;
}

int plan_evidence(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    int used = 0, rc = try_forced(a, p, &used, e);
    if (rc || used || *p->refusal)
        return rc;
    if (a->ab_run)
        return try_ab(a, p, e);
    if (golden_is_evidence(p)) {
        snprintf(p->anchor->evidence, sizeof p->anchor->evidence, "the golden's own rows: every id is the oracle's");
        return OK;
    }
    refuse(
        p, 4,
        "nothing licenses its ids: `assay capture --oracle O --force %lld` asks an oracle about them, --ab RUN names "
        "a run of the same engine by another route that gives the golden's ids",
        (long long)a->run);
    return OK;
}
