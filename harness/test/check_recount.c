/* Every arm of goldens/recount.json.zst through the replay engine: the judge must find exactly what an independent
 * count of the same recorded streams found. Gaps of ids outside a golden's lists are told by the native engine as
 * witness. */
#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/models/load.h"
#include "harness/run/ask.h"
#include "harness/run/witness.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDENS_MAX 32

static struct {
    char key[160];
    struct golden *golden;
} cache[GOLDENS_MAX];
static struct battery *battery[3];
static json_t *recount;

static struct golden *golden_of(const char *model, const char *name, const char *arm)
{
    char key[160], path[256];
    struct err e = {0};
    int i = 0;
    snprintf(key, sizeof key, "%s.%s.%s", model, name, arm);
    for (; i < GOLDENS_MAX && *cache[i].key; i++)
        if (!strcmp(cache[i].key, key))
            return cache[i].golden;
    ck_assert_int_lt(i, GOLDENS_MAX);
    snprintf(path, sizeof path, "goldens/%s.jsonl.zst", key);
    ck_assert_msg(golden_read(path, &cache[i].golden, &e) == OK, "%s", e.text);
    strcpy(cache[i].key, key);
    return cache[i].golden;
}

static struct battery *battery_of(const char *name)
{
    static const char *const names[] = {"smoke", "strict", "chat"};
    int i = 0;
    while (strcmp(names[i], name))
        i++;
    char path[64];
    struct err e = {0};
    snprintf(path, sizeof path, "batteries/%s.json", name);
    if (!battery[i])
        ck_assert_msg(battery_read(path, &battery[i], &e) == OK, "%s", e.text);
    return battery[i];
}

static int keep(void *arg, const struct answered *a, int n, struct err *e)
{
    (void)arg, (void)a, (void)n, (void)e;
    return OK;
}

/* Streams of a replayed file, judged; caller frees j. */
static void replay(const char *spec, char *flag, const struct golden *g, const struct battery *b, struct judgement *j)
{
    struct engine *engine;
    struct err e = {0};
    struct job *job = calloc((size_t)b->prompts, sizeof *job);
    struct arm_answer *answer = calloc((size_t)b->prompts, sizeof *answer);
    ck_assert_msg(engine_open_spec(spec, &flag, flag != NULL, NULL, ".", 1, &engine, &e) == OK, "%s", e.text);
    for (int i = 0; i < b->prompts; i++) {
        job[i].fed = &b->prompt[i];
        job[i].golden = golden_find(g, b->prompt[i].name);
    }
    ck_assert_msg(ask_all(engine, b, g->top_k, job, b->prompts, keep, NULL, &e) == OK, "%s", e.text);
    for (int i = 0; i < b->prompts; i++) {
        const struct stream *s[PHASES];
        for (int phase = 0; phase < PHASES; phase++)
            s[phase] = job[i].have[phase] ? &job[i].answer[phase] : NULL;
        answer[i] = (struct arm_answer){
            .free = s[PHASE_FREE], .decode = s[PHASE_FORCE_DECODE], .prefill = s[PHASE_FORCE_PREFILL]};
    }
    struct judge_input in = {.golden = g, .battery = b, .answer = answer, .recording = engine->ops->recording};
    ck_assert_int_eq(judge_run(&in, j, &e), OK);
    for (int i = 0; i < b->prompts * PHASES; i++)
        stream_free(&job[i / PHASES].answer[i % PHASES]);
    engine->ops->close(engine);
    free(job);
    free(answer);
}

static const struct verdict_row *root_of(const struct judgement *j, int number)
{
    for (int i = 0; i < j->rows; i++)
        if (j->row[i].root && number-- == 0)
            return &j->row[i];
    return NULL;
}

/* Widens g where a root of j is outside its list. Returns how many the witness could tell. */
static int call_witness(struct golden *g, const struct judgement *j)
{
    struct model *m = NULL;
    struct engine *w = NULL;
    struct err e = {0};
    char folder[256];
    int told = 0;
    snprintf(folder, sizeof folder, "batteries/models/%s", g->model);
    for (int i = 0; i < j->rows; i++) {
        int agreed = 0;
        if (!j->row[i].root || !isnan(j->row[i].gap_nats))
            continue;
        if (!w) {
            ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
            ck_assert_msg(engine_open_spec("native", NULL, 0, m, ".", 1, &w, &e) == OK, "%s", e.text);
        }
        for (int k = 0; k < g->prompts; k++)
            if (!strcmp(g->prompt[k].name, j->row[i].prompt))
                ck_assert_msg(witness_widen(&g->prompt[k], j->row[i].position, w, &agreed, &e) == OK, "%s", e.text);
        told += agreed; /* 0: an earlier arm had asked already */
    }
    if (w)
        w->ops->close(w);
    model_close(m);
    return told;
}

static void compare_root(const json_t *want, const struct verdict_row *have, const char *arm)
{
    const char *prompt = json_string_value(json_object_get(want, "prompt"));
    const json_t *nats = json_object_get(want, "gap_nats");
    int out = !strcmp(json_string_value(json_object_get(want, "kind")), "OUT");
    ck_assert_msg(have != NULL, "%s: root %s not found", arm, prompt);
    ck_assert_str_eq(have->prompt, prompt);
    ck_assert_int_eq(have->position, json_integer_value(json_object_get(want, "position")));
    ck_assert_int_eq(have->golden_id, json_integer_value(json_object_get(want, "golden_id")));
    ck_assert_int_eq(have->arm_id, json_integer_value(json_object_get(want, "arm_id")));
    ck_assert_msg(isnan(have->gap_nats) == out, "%s %s: outside the list: %d, expected %d", arm, prompt,
                  isnan(have->gap_nats), out);
    if (out) {
        ck_assert_int_eq(have->verdict, V_DIVERGENT);
        return;
    }
    ck_assert_msg(have->gap_nats == json_number_value(nats), "%s %s: gap %.9g, expected %.9g", arm, prompt,
                  have->gap_nats, json_number_value(nats));
    ck_assert_double_eq(have->gap_ulp, json_number_value(json_object_get(want, "gap_ulp")));
}

static enum run_verdict expected_verdict(const json_t *row, const struct battery *b)
{
    size_t i;
    json_t *root;
    int roots = 0, wide = 0;
    json_array_foreach(json_object_get(row, "roots"), i, root)
    {
        const json_t *ulp = json_object_get(root, "gap_ulp");
        roots++;
        wide += json_is_null(ulp) || json_number_value(ulp) > b->razor_ulp;
    }
    return wide ? RV_FAIL : roots ? RV_PASS_BY_RAZOR : RV_PASS;
}

static void check_arm(const json_t *row, int *witnessed)
{
    const char *model = json_string_value(json_object_get(row, "model")),
               *name = json_string_value(json_object_get(row, "battery")),
               *arm = json_string_value(json_object_get(row, "arm"));
    struct battery *b = battery_of(name);
    struct golden *g = golden_of(model, name, "eager");
    struct judgement j = {0};
    char spec[256], flag[16], *batch = NULL;
    if (!strncmp(arm, "eager batch run ", 16)) {
        snprintf(flag, sizeof flag, "batch=%s", arm + 16);
        batch = flag;
    }
    if (batch)
        snprintf(spec, sizeof spec, "replay:goldens/%s.%s.eager.jsonl.zst", model, name);
    else if (!strncmp(arm, "model ", 6))
        snprintf(spec, sizeof spec, "replay:goldens/%s.%s.eager.jsonl.zst", arm + 6, name);
    else
        snprintf(spec, sizeof spec, "replay:goldens/%s.%s.%s.jsonl.zst", model, name, arm);
    replay(spec, batch, g, b, &j);
    if (call_witness(g, &j)) {
        ++*witnessed;
        judgement_free(&j);
        replay(spec, batch, g, b, &j);
    }
    ck_assert_msg(j.prompts == json_integer_value(json_object_get(row, "prompts")) &&
                      j.prompts_exact == json_integer_value(json_object_get(row, "prompts_exact")) &&
                      j.tokens == json_integer_value(json_object_get(row, "tokens")) &&
                      j.tokens_equal == json_integer_value(json_object_get(row, "tokens_equal")),
                  "%s: %d/%d prompts, %d/%d tokens", spec, j.prompts_exact, j.prompts, j.tokens_equal, j.tokens);
    json_t *roots = json_object_get(row, "roots");
    ck_assert_int_eq(j.roots, (int)json_array_size(roots));
    for (int i = 0; i < j.roots; i++)
        compare_root(json_array_get(roots, (size_t)i), root_of(&j, i), spec);
    ck_assert_msg(j.verdict == expected_verdict(row, b), "%s: %s: %s", spec, run_verdict_name(j.verdict), j.why);
    judgement_free(&j);
}

START_TEST(every_row_and_root_of_the_recount_is_found)
{
    size_t i;
    json_t *row;
    int arms = 0, witnessed = 0;
    json_array_foreach(recount, i, row)
    {
        check_arm(row, &witnessed);
        arms++;
    }
    ck_assert_int_eq(arms, 89);
    ck_assert_int_eq(witnessed, 6);
}
END_TEST

START_TEST(known_arms_have_known_verdicts)
{
    static const struct {
        const char *model, *arm;
        enum run_verdict verdict;
    } known[] = {{"tiny-dense-nvfp4", "runner-v1", RV_PASS},
                 {"tiny-dense-nvfp4", "graph", RV_PASS_BY_RAZOR},
                 {"tiny-dense-nvfp4", "triton-attention", RV_PASS_BY_RAZOR},
                 {"tiny-dense-nvfp4", "reduce16", RV_FAIL},
                 {"tiny-moe-nvfp4", "graph", RV_PASS_BY_RAZOR},
                 {"tiny-moe-nvfp4", "reduce16", RV_FAIL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct judgement j = {0};
        char spec[256];
        snprintf(spec, sizeof spec, "replay:goldens/%s.strict.%s.jsonl.zst", known[i].model, known[i].arm);
        replay(spec, NULL, golden_of(known[i].model, "strict", "eager"), battery_of("strict"), &j);
        ck_assert_msg(j.verdict == known[i].verdict, "%s: %s: %s", spec, run_verdict_name(j.verdict), j.why);
        judgement_free(&j);
    }
}
END_TEST

int main(void)
{
    struct err e = {0};
    void *text;
    size_t bytes;
    if (packed_read("goldens/recount.json.zst", 1 << 20, &text, &bytes, &e)) {
        puts(e.text);
        return 1;
    }
    recount = json_loadb(text, bytes, 0, NULL);
    free(text);
    Suite *s = suite_create("recount");
    TCase *t = tcase_create("recount");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_row_and_root_of_the_recount_is_found);
    tcase_add_test(t, known_arms_have_known_verdicts);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    for (int i = 0; i < GOLDENS_MAX; i++)
        golden_free(cache[i].golden);
    for (int i = 0; i < 3; i++)
        battery_free(battery[i]);
    json_decref(recount);
    return failed != 0;
}
