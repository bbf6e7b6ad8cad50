#include "harness/engines/conform.h"

#include "harness/rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEW   8 /* ids that are asked for */
#define TOP_K 5

struct session {
    struct engine *g;
    const struct sequence *prompt, *other;
    int vocab, max_positions;
    struct conform *c;
    struct stream first; /* what it generated */
};

static void say(struct session *s, const char *name, const char *about, enum run_verdict v, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static void say(struct session *s, const char *name, const char *about, enum run_verdict v, const char *fmt, ...)
{
    va_list ap;
    if (s->c->rows == CONFORM_ROWS)
        return;
    struct conform_row *r = &s->c->row[s->c->rows++];
    *r = (struct conform_row){.name = name, .about = about, .verdict = v};
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
    if (v == RV_FAIL || (v == RV_NO_EVIDENCE && s->c->verdict == RV_PASS))
        s->c->verdict = v;
}

static int ask(struct session *s, enum engine_mode mode, const struct sequence *q, int max_new, struct stream *a,
               struct err *e)
{
    struct engine_request r = {
        .mode = mode, .seq = q, .seqs = 1, .max_new = max_new, .stop_at_eos = 1, .top_k = s->g->has_logits ? TOP_K : 0};
    memset(a, 0, sizeof *a);
    memset(e, 0, sizeof *e);
    return s->g->ops->answer(s->g, 0, &r, a, e);
}

/* An engine's failure is a FAIL, what it cannot do is NO_EVIDENCE. */
static enum run_verdict verdict_of(int code)
{
    return code == E_MISSING || code == E_UNSUPPORTED ? RV_NO_EVIDENCE : RV_FAIL;
}

static void check_refusal(struct session *s)
{
    struct stream a;
    struct err e;
    int32_t ids[2] = {s->prompt->prompt[0], s->vocab};
    struct sequence wrong = {.name = "wrong-id", .prompt = ids, .prompts = 2};
    int rc = ask(s, MODE_GENERATE, &wrong, 1, &a, &e);
    say(s, "vocabulary", "an id outside the vocabulary never reaches the engine", rc == E_INPUT ? RV_PASS : RV_FAIL,
        "id %d: %s", s->vocab, rc ? e.text : "it was sent");
    stream_free(&a);
}

static int check_generate(struct session *s)
{
    struct err e;
    const char *about = "greedy ids, as many as were asked for or up to the end of sequence, with their top lists";
    if (ask(s, MODE_GENERATE, s->prompt, NEW, &s->first, &e)) {
        say(s, "generate", about, verdict_of(e.code), "%s", e.text);
        return 0;
    }
    say(s, "generate", about, RV_PASS, "%d ids, the first %d, finished by %s", s->first.n, s->first.ids[0],
        s->first.finish == FINISH_STOP ? "end of sequence" : "length");
    return 1;
}

static void check_lists(struct session *s)
{
    const struct view *v = &s->first.view;
    const char *about = "lists of finite values, one for each id, of one kind";
    int finite = 1, full = 1;
    if (!s->g->has_logits) {
        say(s, "top lists", about, RV_NO_EVIDENCE, "it tells none: only its ids can be judged");
        return;
    }
    for (int i = 0; i < v->rows * v->top_k; i++) {
        full &= v->top_ids[i] >= 0;
        finite &= v->top_ids[i] < 0 || isfinite(v->top_values[i]);
    }
    double sum = 0;
    for (int i = 0; i < v->top_k && v->rows; i++)
        sum += v->top_ids[i] >= 0 ? exp((double)v->top_values[i] - v->logsumexp[0]) : 0;
    int known = v->kind == VALUE_LOGPROB || (v->rows && v->logsumexp[0] != 0);
    int good = finite && v->rows == s->first.n && (!known || (sum > 0 && sum < 1.001));
    char mass[60] = "";
    if (known)
        snprintf(mass, sizeof mass, "; probability of the first %.6g", sum);
    say(s, "top lists", about, good ? RV_PASS : RV_FAIL, "%d lists of %s%d %s%s%s", v->rows, full ? "" : "at most ",
        v->top_k, v->kind == VALUE_LOGIT ? "logits" : "log-probabilities", finite ? "" : ", not all finite", mass);
}

static int same(const struct stream *a, const struct stream *b, int *rows)
{
    int n = a->n < b->n ? a->n : b->n;
    *rows = 0;
    for (int i = 0; i < n && i < a->view.rows && i < b->view.rows; i++)
        *rows += row_equal(&a->view, i, &b->view, i);
    return !memcmp(a->ids, b->ids, (size_t)n * sizeof *a->ids);
}

static void check_repeat(struct session *s)
{
    struct stream a;
    struct err e;
    int rows = 0;
    const char *about = "the same question gives the same ids, and the same values in every bit";
    if (ask(s, MODE_GENERATE, s->prompt, NEW, &a, &e)) {
        say(s, "repeat", about, verdict_of(e.code), "%s", e.text);
        return;
    }
    int good = a.n == s->first.n && same(&a, &s->first, &rows);
    say(s, "repeat", about, good && rows == s->first.view.rows ? RV_PASS : RV_FAIL, "ids %s, %d of %d lists equal",
        good ? "equal" : "differ", rows, s->first.view.rows);
    stream_free(&a);
}

static void check_length(struct session *s)
{
    struct stream a;
    struct err e;
    int rows = 0;
    const char *about = "a shorter answer is the beginning of a longer one";
    if (s->first.n < 3) {
        say(s, "length", about, RV_NO_EVIDENCE, "the sequence ends after %d ids", s->first.n);
        return;
    }
    if (ask(s, MODE_GENERATE, s->prompt, 2, &a, &e)) {
        say(s, "length", about, verdict_of(e.code), "%s", e.text);
        return;
    }
    int good = a.n == 2 && a.finish == FINISH_LENGTH && same(&a, &s->first, &rows);
    say(s, "length", about, good ? RV_PASS : RV_FAIL, "%d ids of 2, %s", a.n, good ? "the same" : "others");
    stream_free(&a);
}

static void check_prompt(struct session *s)
{
    struct stream a;
    struct err e;
    const char *about = "another prompt gives another answer";
    if (ask(s, MODE_GENERATE, s->other, NEW, &a, &e)) {
        say(s, "prompt", about, verdict_of(e.code), "%s", e.text);
        return;
    }
    int rows, good = !same(&a, &s->first, &rows) || rows < s->first.view.rows;
    say(s, "prompt", about, good ? RV_PASS : RV_FAIL, "%s", good ? "it does" : "the same ids and values");
    stream_free(&a);
}

/* Its own ids: the argmax of each row must be them, or the engine disagrees with itself. */
static void check_force(struct session *s, enum engine_mode mode, const char *name, const char *about)
{
    struct sequence q = *s->prompt;
    struct stream a;
    struct err e;
    int equal = 0, rows;
    if (!s->g->has_logits) {
        say(s, name, about, RV_NO_EVIDENCE, "it tells no lists");
        return;
    }
    q.forced = s->first.ids;
    q.forceds = s->first.n;
    if (ask(s, mode, &q, 0, &a, &e)) {
        say(s, name, about, verdict_of(e.code), "%s", e.text);
        return;
    }
    for (int i = 0; i < a.n && i < s->first.n; i++)
        equal += a.ids[i] == s->first.ids[i];
    same(&a, &s->first, &rows);
    say(s, name, about, a.n == s->first.n && a.view.rows == a.n && equal ? RV_PASS : RV_FAIL,
        "argmax is the emitted id at %d of %d positions, values equal in every bit at %d", equal, s->first.n, rows);
    stream_free(&a);
}

/* With another first id, the rows behind it must change: else it was not fed. */
static void check_fed(struct session *s, enum engine_mode mode, const char *name)
{
    int32_t ids[NEW];
    struct sequence q = *s->prompt;
    struct stream a;
    struct err e;
    const char *about = "it is really fed the ids that are forced";
    if (!s->g->has_logits || s->first.n < 2) {
        say(s, name, about, RV_NO_EVIDENCE, s->g->has_logits ? "the sequence is too short" : "it tells no lists");
        return;
    }
    memcpy(ids, s->first.ids, (size_t)s->first.n * sizeof *ids);
    ids[0] = s->other->prompt[s->other->prompts - 1] != ids[0] ? s->other->prompt[s->other->prompts - 1]
                                                               : (ids[0] + 1) % s->vocab;
    q.forced = ids;
    q.forceds = s->first.n;
    if (ask(s, mode, &q, 0, &a, &e)) {
        say(s, name, about, verdict_of(e.code), "%s", e.text);
        return;
    }
    int before = a.ids[0] == s->first.ids[0], after = !row_equal(&a.view, 1, &s->first.view, 1);
    say(s, name, about, before && after ? RV_PASS : RV_FAIL, "row 0 %s, row 1 %s", before ? "is as it was" : "changed",
        after ? "changed" : "did not change");
    stream_free(&a);
}

/* More than the model can hold costs that answer, and the next one is as before. */
static void check_isolation(struct session *s)
{
    struct stream a;
    struct err e;
    int rows, n = s->max_positions + 1;
    const char *about = "a request that it cannot serve leaves it as it was";
    int32_t *ids = s->max_positions > 0 && s->max_positions <= 1 << 20 ? malloc((size_t)n * sizeof *ids) : NULL;
    if (!ids) {
        say(s, "isolation", about, RV_NO_EVIDENCE, "the model's longest sequence is not known");
        return;
    }
    for (int i = 0; i < n; i++)
        ids[i] = s->prompt->prompt[i % s->prompt->prompts];
    struct sequence q = {.name = "too-long", .prompt = ids, .prompts = n};
    int refused = ask(s, MODE_GENERATE, &q, 2, &a, &e);
    stream_free(&a);
    free(ids);
    if (ask(s, MODE_GENERATE, s->prompt, NEW, &a, &e)) {
        say(s, "isolation", about, RV_FAIL, "after %d ids: %s", n, e.text);
        return;
    }
    int good = a.n == s->first.n && same(&a, &s->first, &rows) && rows == s->first.view.rows;
    say(s, "isolation", about, good ? RV_PASS : RV_FAIL, "%d ids were %s; the next answer is %s", n,
        refused ? "refused" : "taken", good ? "as before" : "another");
    stream_free(&a);
}

void conform_check(struct engine *g, const struct sequence *prompt, const struct sequence *other, int vocab,
                   int max_positions, struct conform *c)
{
    struct session s = {
        .g = g, .prompt = prompt, .other = other, .vocab = vocab, .max_positions = max_positions, .c = c};
    *c = (struct conform){.verdict = RV_PASS};
    check_refusal(&s);
    if (check_generate(&s)) {
        check_lists(&s);
        check_repeat(&s);
        check_length(&s);
        check_prompt(&s);
        check_force(&s, MODE_FORCE_DECODE, "force, one by one", "its own ids forced one at a time on a warm cache");
        check_force(&s, MODE_FORCE_PREFILL, "force, one pass", "its own ids forced in one pass");
        check_fed(&s, MODE_FORCE_DECODE, "fed, one by one");
        check_fed(&s, MODE_FORCE_PREFILL, "fed, one pass");
        check_isolation(&s);
    }
    stream_free(&s.first);
}
