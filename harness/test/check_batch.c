/* A batch changes tokens because the number of rows changes the plans and tiles, and for no other reason: all prompts
 * submitted at once come out as the oracle's own batch pass recorded them, changed tokens included. */
#include "goldens/exchange.h"
#include "harness/engine.h"
#include "harness/models/load.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally {
    int prompts, as_batch, as_alone;
};

static int same(const int32_t *a, int n, const struct stream *b)
{
    return n == b->n && !memcmp(a, b->ids, (size_t)n * sizeof *a);
}

static struct tally submit(const char *model, const char *path)
{
    char folder[512];
    char *words[] = {(char *)"slots=1"};
    struct err e = {0};
    struct model *m;
    struct engine *g;
    struct golden *o;
    struct sequence seq[64];
    struct stream answer[64] = {{0}};
    struct tally t = {0};
    ck_assert_msg(model_find(model, ".", NULL, folder, sizeof folder, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    ck_assert_msg(engine_open_spec("native", words, 1, m, ".", 2, &g, &e) == OK, "%s", e.text);
    ck_assert_msg(golden_read(path, &o, &e) == OK, "%s", e.text);
    for (int i = 0; i < o->prompts; i++)
        seq[i] = (struct sequence){o->prompt[i].name, o->prompt[i].prompt_ids, NULL, o->prompt[i].prompts, 0};
    struct engine_request q = {.mode = MODE_GENERATE, .seq = seq, .seqs = o->prompts, .max_new = 64, .stop_at_eos = 1};
    ck_assert_msg(g->ops->answer(g, 0, &q, answer, &e) == OK, "%s", e.text);
    for (int i = 0; i < o->prompts; i++) {
        const struct golden_prompt *p = &o->prompt[i];
        const struct batch_pass *b = &p->batch[0];
        t.prompts++;
        t.as_alone += same(p->ids, p->n, &answer[i]);
        t.as_batch += b->ids ? same(b->ids, b->n, &answer[i]) : same(p->ids, p->n, &answer[i]);
        stream_free(&answer[i]);
    }
    golden_free(o);
    g->ops->close(g);
    model_close(m);
    return t;
}

static void foretold(const char *model, int alone)
{
    char path[200];
    snprintf(path, sizeof path, "goldens/%s.strict.eager.jsonl.zst", model);
    struct tally t = submit(model, path);
    ck_assert_int_eq(t.prompts, 32);
    ck_assert_int_eq(t.as_batch, 32);
    ck_assert_int_eq(t.as_alone, alone);
}

START_TEST(thirty_two_companions_change_what_they_changed_for_the_oracle)
{
    foretold("tiny-moe-int4g128", 27);
    foretold("tiny-moe-nvfp4", 30);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("batch");
    TCase *t = tcase_create("jitter");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, thirty_two_companions_change_what_they_changed_for_the_oracle);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
