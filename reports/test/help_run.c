#include "reports/test/help_run.h"

#include "harness/judge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const hostile[] = {
    "<script>window.injected=1</script>",
    "\"><img src=x onerror=window.injected=1>",
    "' onmouseover='window.injected=1",
    "</script><script>window.injected=1</script><!--",
    "]]></failure><testcase name=\"injected\"/>",
    "\x1b]0;injected\x07\x1b[31m",
    "\u202egnirts desrever\u202c \u2066x",
    "\u05d0\u05d1\u05d2 123 (right to left)",
    "|a|b|\n|---|\n| `c` **bold** [link](http://x.example) ![i](y) @somebody #1 www.x.example",
    "=HYPERLINK(\"http://x.example\",\"x\")",
    "  \uff1dHYPERLINK(1)",
    "a,\"b\"\nc;\td\r\n",
    "\u2028line\u2029paragraph\u200bno width\ufeff",
    "--><svg onload=window.injected=1>",
    "{{constructor.constructor('window.injected=1')()}} ${x} %s%n",
    "\\u003cscript\\u003e \\n \\",
};
const int hostiles = sizeof hostile / sizeof *hostile;

int hostile_piece(void *arg, int32_t id, char *buf, int size)
{
    static const char *const broken[] = {"\xed\xa0\x80",     "\xed\xb0\x80 lone", "\xff\xfe",
                                         "\xf4\x90\x80\x80", "\xc0\xaf<",         "\xe2\x82"};
    int n = hostiles + (int)(sizeof broken / sizeof *broken) + 1;
    (void)arg;
    if (id % n == n - 1) {
        memcpy(buf, "a\0b", 3); /* a zero is a byte like any other */
        return 3;
    }
    const char *text = id % n < hostiles ? hostile[id % n] : broken[id % n - hostiles];
    int length = (int)strlen(text);
    memcpy(buf, text, (size_t)(length < size ? length : size));
    return length;
}

static void store_answers(struct store *s, int64_t run, const struct toy_run *t, struct stream *answer)
{
    struct err e = {0};
    for (int i = 0; i < t->golden->prompts; i++) {
        const struct golden_prompt *p = &t->golden->prompt[i];
        answer[i] = toy_stream(p, &p->decode);
        for (int k = 0; t->answer && k < answer[i].n; k++)
            answer[i].ids[k] = t->answer(p, i, k);
        if (t->unfinished && i == t->golden->prompts - 1)
            break; /* the last prompt was never answered */
        ck_assert_msg(!store_stream_put(s, run, p->name, PHASE_FREE, &answer[i], &e), "%s", e.text);
    }
}

static json_t *summarise(const struct toy_run *t, const struct judgement *j)
{
    json_t *roots = json_array(), *o;
    for (int i = 0; i < j->rows; i++)
        if (j->row[i].root)
            json_array_append_new(roots, json_pack("{s:s}", "prompt", j->row[i].prompt));
    o = json_pack("{s:i,s:i,s:i,s:i,s:f,s:f,s:i,s:i,s:o}", "prompts", j->prompts, "prompts_exact", j->prompts_exact,
                  "tokens", j->tokens, "tokens_equal", j->tokens_equal, "worst_gap_nats", j->worst_nats,
                  "worst_gap_ulp", j->worst_ulp, "cascades", j->cascades, "cascades_unjudged", j->cascades_unjudged,
                  "roots", roots);
    json_object_set_new(o, "why", json_string(j->why));
    json_object_set_new(o, "golden", json_string(t->golden->arm));
    json_object_set_new(o, "again", json_string(t->again));
    json_object_set_new(o, "oracle", json_pack("{s:s,s:s}", "name", t->again, t->arm, "odd name"));
    json_object_set_new(o, "engine", json_pack("{s:s}", "name", t->again));
    json_object_set_new(o, "forecast", json_string(t->again));
    json_object_set_new(
        o, "counters",
        json_pack("{s:{s:i,s:i},s:{s:i,s:n}}", "dense_gemms", "ran", 12, "expected", 13, t->arm, "ran", 3, "expected"));
    json_object_set_new(
        o, "power",
        json_pack("{s:I,s:i,s:f}", "tokens_judged", (json_int_t)j->judged, "roots", j->roots, "flip_rate_95", 0.01));
    return o;
}

int64_t toy_run_store(struct store *s, const struct toy_run *t)
{
    struct err e = {0};
    char sha256[SHA256_HEX_SIZE];
    struct golden *stored = NULL;
    int64_t run, id;
    struct judgement j = {0};
    struct stream *answer = calloc((size_t)t->golden->prompts + 1, sizeof *answer);
    struct arm_answer *seen = calloc((size_t)t->golden->prompts + 1, sizeof *seen);
    ck_assert(answer && seen);
    ck_assert_msg(!store_battery_put(s, t->battery, &e), "%s", e.text);
    ck_assert_msg(!store_golden_put(s, t->golden, "active", &id, &e), "%s", e.text);
    ck_assert_msg(!store_golden_get(s, t->golden->model, t->battery->name, t->golden->arm, &stored, sha256, &e), "%s",
                  e.text);
    struct run_key key = {t->golden->model, "", t->battery->name, t->battery->sha256, sha256, t->arm, "", NULL};
    ck_assert_msg(!store_run_open(s, &key, 1, &run, &e), "%s", e.text);
    store_answers(s, run, t, answer);
    for (int i = 0; i < t->golden->prompts; i++)
        seen[i].free = &answer[i];
    struct judge_input in = {.golden = t->golden, .battery = t->battery, .answer = seen, .recording = 1};
    if (!t->unfinished) {
        ck_assert_msg(!judge_run(&in, &j, &e), "%s", e.text);
        json_t *o = summarise(t, &j);
        ck_assert_msg(!store_run_finish(s, run, j.row, j.rows, j.verdict, o, &e), "%s", e.text);
        json_decref(o);
    }
    judgement_free(&j);
    for (int i = 0; i < t->golden->prompts; i++)
        stream_free(&answer[i]);
    golden_free(stored);
    free(answer);
    free(seen);
    return run;
}
