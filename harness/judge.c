#include "harness/judge.h"

#include "harness/judge_prompt.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *model_file_sha256(const struct model *m, const char *name)
{
    for (int i = 0; i < m->files; i++)
        if (!strcmp(m->file[i].name, name))
            return m->file[i].sha256;
    return NULL;
}

/* Files that decide ids: configuration, weights, tokenizer. The rest (templates, read-me files) may differ. */
static int file_decides(const char *name)
{
    size_t n = strlen(name);
    return !strcmp(name, "config.json") || !strcmp(name, "tokenizer.json") ||
           (n > 12 && !strcmp(name + n - 12, ".safetensors"));
}

int model_matches(const struct golden *g, const struct model *m, char *why, size_t size)
{
    const char *name;
    json_t *hash, *files = json_object_get(g->header, "model_files");
    int compared = 0;
    json_object_foreach(files, name, hash)
    {
        if (!file_decides(name))
            continue;
        const char *want = json_string_value(hash), *have = model_file_sha256(m, name);
        if (!want || !have || strcmp(want, have)) {
            snprintf(why, size, "%s: the golden was made from sha256 %.12s..., model %s has %.12s%s", name,
                     want ? want : "(none)", m->name, have ? have : "no such file", have ? "..." : "");
            return 0;
        }
        compared++;
    }
    if (!compared)
        snprintf(why, size, "the golden does not say from which model files it was made");
    return compared > 0;
}

static void decide(struct judgement *j, enum run_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void decide(struct judgement *j, enum run_verdict v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->why, sizeof j->why, fmt, ap);
    va_end(ap);
    j->verdict = v;
}

void judgement_void(struct judgement *j, const char *why)
{
    decide(j, RV_VOID, "%s", why);
}

void judgement_free(struct judgement *j)
{
    free(j->row);
    memset(j, 0, sizeof *j);
}

/* The first counter that is not exactly as computed, else NULL. */
static const struct counter *wrong_counter(const struct judge_input *in)
{
    for (int i = 0; i < in->counters; i++)
        if (in->counter[i].expected >= 0 && in->counter[i].ran != in->counter[i].expected)
            return &in->counter[i];
    return NULL;
}

/* The golden must have been made under the battery's own length and stop rule, or equal ids would mean nothing. */
static int rules_match(const struct judge_input *in, char *why, size_t size)
{
    const struct battery *b = in->battery;
    for (int i = 0; i < b->prompts; i++) {
        const struct golden_prompt *p = golden_find(in->golden, b->prompt[i].name);
        int full = p && p->n == b->max_new_tokens, stopped = p && p->finish == FINISH_STOP;
        if (!p || (full && !stopped) || (stopped && b->stop_at_eos && p->n <= b->max_new_tokens))
            continue;
        snprintf(why, size, "prompt %s: the golden holds %d tokens, finish %s; battery %s asks for %d, stop at EOS %s",
                 p->name, p->n, stopped ? "stop" : "length", b->name, b->max_new_tokens, b->stop_at_eos ? "yes" : "no");
        return 0;
    }
    return 1;
}

/* The first row of a kind that decides, for the sentence. */
static const struct verdict_row *first_that_fails(const struct judgement *j)
{
    const struct verdict_row *tokenisation = NULL, *other = NULL;
    for (int i = 0; i < j->rows; i++) {
        const struct verdict_row *r = &j->row[i];
        if (verdict_is_benign(r->verdict) || r->verdict == V_CASCADE)
            continue;
        if (r->verdict == V_TOKENISATION && !tokenisation)
            tokenisation = r;
        if (!other)
            other = r;
    }
    return tokenisation ? tokenisation : other;
}

static int benign_differences(const struct judgement *j)
{
    int n = 0;
    for (int i = 0; i < j->rows; i++)
        n += j->row[i].verdict != V_CASCADE;
    return n;
}

static void fail(struct judgement *j, const struct verdict_row *r)
{
    static const char *const shape[] = {"", " (forced decode)", " (forced prefill)"};
    char gap[128] = "";
    if (r->gap_bound_nats >= 0)
        snprintf(gap, sizeof gap, ", gap %s%.6g nat (razor %.6g)", r->gap_nats >= 0 ? "" : ">= ", r->gap_bound_nats,
                 r->razor_nats);
    decide(j, RV_FAIL, "%s token %d%s: %s: got %d, oracle %d%s", r->prompt, r->position, shape[r->forced],
           verdict_name(r->verdict), r->arm_id, r->golden_id, gap);
}

/* Ids decide; rows that differ behind equal ids are said aloud. */
static void pass(struct judgement *j)
{
    int rows = j->decode.rows + j->prefill.rows, differ = rows - j->decode.equal - j->prefill.equal;
    if (differ)
        decide(j, RV_PASS, "every position equal, though %d of %d logits rows differ in some bit", differ, rows);
    else
        decide(j, RV_PASS, "every position equal%s", rows ? ", every logits row in every bit" : "");
}

/* Everything that was found; what was not there comes after what failed, and before what passed. */
static void sum_up(const struct judge_input *in, struct judgement *j)
{
    const struct verdict_row *bad = first_that_fails(j);
    int differences = benign_differences(j);
    if (bad)
        fail(j, bad);
    else if (!j->prompts)
        decide(j, RV_NO_EVIDENCE, "battery %s has no prompts", in->battery->name);
    else if (j->prompts_missing)
        decide(j, RV_NO_EVIDENCE, "%d of %d prompts have no answer or no golden", j->prompts_missing, j->prompts);
    else if (j->unresolved)
        decide(j, RV_NO_EVIDENCE,
               "%d differences at ids outside the golden's stored lists, and the bound does not decide", j->unresolved);
    else if (j->cascades_unjudged && !in->recording)
        decide(j, RV_NO_EVIDENCE, "%d positions after a root could not be judged: no forced run", j->cascades_unjudged);
    else if (differences)
        decide(j, RV_PASS_BY_RAZOR, "%d difference%s, benign by the razor", differences, differences == 1 ? "" : "s");
    else if (j->tokens_equal == j->tokens && j->prompts_exact == j->prompts)
        pass(j);
    else
        decide(j, RV_NO_EVIDENCE, "%d of %d tokens equal, and no verdict says why", j->tokens_equal, j->tokens);
}

static void judge_order(const struct judge_input *in, struct judgement *j)
{
    char why[384];
    const struct counter *c = wrong_counter(in);
    int tokenised = 1;
    for (int i = 0; i < j->rows; i++)
        tokenised &= j->row[i].verdict != V_TOKENISATION;
    if (in->model && !in->recording && !model_matches(in->golden, in->model, why, sizeof why))
        decide(j, RV_NO_EVIDENCE, "%s", why);
    else if (tokenised && !rules_match(in, why, sizeof why))
        decide(j, RV_NO_EVIDENCE, "%s", why);
    else if (tokenised && c)
        decide(j, RV_NO_EVIDENCE, "counter %s ran %lld times, expected %lld: the evidence is not about this route",
               c->name, (long long)c->ran, (long long)c->expected);
    else
        sum_up(in, j);
}

int judge_run(const struct judge_input *in, struct judgement *j, struct err *e)
{
    int bits = golden_significand_bits(in->golden), rc = OK;
    memset(j, 0, sizeof *j);
    for (int i = 0; i < in->battery->prompts && rc == OK; i++) {
        const struct battery_prompt *b = &in->battery->prompt[i];
        struct prompt_judge p = {j,
                                 in->battery,
                                 b,
                                 golden_find(in->golden, b->name),
                                 &in->answer[i],
                                 {in->battery->razor_ulp, in->battery->razor_cap_nats},
                                 bits};
        rc = judge_prompt(&p, e);
    }
    if (rc)
        judgement_free(j);
    else
        judge_order(in, j);
    return rc;
}
