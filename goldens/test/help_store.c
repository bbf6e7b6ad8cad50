#include "goldens/test/help_store.h"

#include "harness/test/help_folder.h"
#include "harness/test/help_golden.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct run_key test_key = {"m", "mh", "b", "bh", "", "arm", "c", NULL};

struct store *store_opened(const char *name)
{
    struct store *s;
    struct err e = {0};
    ck_assert_msg(store_open(scratch(name), &s, &e) == OK, "%s", e.text);
    return s;
}

int64_t store_run_of(struct store *s, const struct run_key *k, int fresh)
{
    int64_t run = 0;
    struct err e = {0};
    ck_assert_msg(store_run_open(s, k, fresh, &run, &e) == OK, "%s", e.text);
    ck_assert_int_gt(run, 0);
    return run;
}

/* Complaints of store_check, a line each; or its error. */
const char *store_complaints(struct store *s)
{
    static char all[6000];
    json_t *report, *one;
    size_t i;
    struct err e = {0};
    all[0] = 0;
    if (store_check(s, &report, &e)) {
        snprintf(all, sizeof all, "error: %s", e.text);
        return all;
    }
    json_array_foreach(json_object_get(report, "bad"), i, one)
    {
        strncat(all, json_string_value(one), sizeof all - strlen(all) - 2);
        strcat(all, "\n");
    }
    json_decref(report);
    return all;
}

void store_sql(const char *name, const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    ck_assert_int_eq(sqlite3_open(scratch(name), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, &why) == SQLITE_OK, "%s: %s", text, why);
    sqlite3_close(db);
}

/* n ids, `rows` rows of two, every bit pattern a float may have among them. */
struct stream stream_made(int n, int rows, int hashed, unsigned seed)
{
    static const float odd[] = {0.0f, -0.0f, 1e-45f, 3.4e38f, 1.5f};
    struct stream st = {.n = n, .finish = n % 2 ? FINISH_STOP : FINISH_LENGTH, .ids = calloc((size_t)n + 1, 4)};
    for (int i = 0; i < n; i++)
        st.ids[i] = (int32_t)(seed * 1000 + (unsigned)i);
    if (!rows)
        return st;
    ck_assert_int_eq(view_alloc(&st.view, rows, 2, hashed, NULL), OK);
    st.view.kind = VALUE_LOGPROB;
    for (int i = 0; i < rows; i++) {
        st.view.logsumexp[i] = i % 3 ? (double)seed / 3 : i % 2 ? (double)NAN : -(double)INFINITY;
        st.view.top_ids[2 * i] = i;
        st.view.top_ids[2 * i + 1] = -1;
        st.view.top_values[2 * i] = i % 4 == 3 ? NAN : odd[i % 5];
        st.view.top_values[2 * i + 1] = -INFINITY;
        if (hashed)
            memset(st.view.row_sha256 + (size_t)i * SHA256_BYTES, (int)seed + i, SHA256_BYTES);
    }
    return st;
}

/* Three goldens, one judged run with a stream. */
void store_sound(const char *name)
{
    struct store *s = store_opened(name);
    struct err e = {0};
    struct verdict_row row = {.prompt = "p1", .position = 3, .verdict = V_DIVERGENT};
    struct stream st = stream_made(7, 7, 1, 1);
    json_t *summary = json_object();
    for (int i = 0; i < 3; i++) {
        char model[4];
        int64_t id;
        struct golden *g = toy_golden(2, 3);
        snprintf(model, sizeof model, "m%d", i);
        snprintf(g->model, sizeof g->model, "%s", model);
        snprintf(g->battery, sizeof g->battery, "b");
        snprintf(g->arm, sizeof g->arm, "eager");
        json_decref(g->header);
        g->header = json_pack("{s:s,s:s,s:{},s:s,s:s,s:{},s:i}", "schema", "assay-golden/1", "model", model,
                              "model_files", "battery", "b", "arm", "eager", "oracle", "top_k", g->top_k);
        ck_assert_msg(store_golden_put(s, g, "active", &id, &e) == OK, "%s", e.text);
        golden_free(g);
    }
    int64_t run = store_run_of(s, &test_key, 0);
    ck_assert_int_eq(store_stream_put(s, run, "p1", PHASE_FREE, &st, &e), OK);
    ck_assert_int_eq(store_run_finish(s, run, &row, 1, RV_FAIL, summary, &e), OK);
    ck_assert_str_eq(store_complaints(s), "");
    stream_free(&st);
    json_decref(summary);
    store_close(s);
}
