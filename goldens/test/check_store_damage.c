/* Damage done behind the store's back is named where it is. */
#include "goldens/exchange.h"
#include "goldens/test/help_store.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNSEAL                                                                                                         \
    "DROP TRIGGER golden_kept; DROP TRIGGER golden_sealed; DROP TRIGGER ledger_kept; DROP TRIGGER ledger_sealed;"      \
    "DROP TRIGGER run_kept; DROP TRIGGER run_sealed; DROP TRIGGER stream_kept; DROP TRIGGER stream_sealed;"            \
    "DROP TRIGGER position_kept; DROP TRIGGER position_sealed; DROP TRIGGER record_kept; DROP TRIGGER record_sealed;"
#define NO_INDEX                                                                                                       \
    "DROP INDEX ledger_by_golden; DROP INDEX ledger_by_run; DROP INDEX ledger_by_battery; DROP INDEX"                  \
    " ledger_by_anchor; DROP INDEX ledger_by_record;"

static const struct {
    const char *sql, *named;
} damage[] = {
    {"DELETE FROM ledger WHERE seq = 2", "ledger row 3: its hash or its link"},
    {"DELETE FROM ledger WHERE seq = 1", "ledger row 2: its hash or its link"},
    {"DELETE FROM ledger WHERE seq = 3", "has no row in the ledger (m2 b eager)"},
    {"UPDATE ledger SET kind = 'capture' WHERE seq = 2", "ledger row 2: its hash or its link"},
    {"UPDATE ledger SET before = sha256 WHERE seq = 2", "ledger row 2: its hash or its link"},
    {"UPDATE ledger SET seq = 9 WHERE seq = 3", "ledger row 4: its hash or its link"},
    {"UPDATE ledger SET sha256 = before WHERE seq = 3", "ledger row 3: its hash or its link"},
    {NO_INDEX "UPDATE ledger SET what = 'no json' WHERE seq = 2", "ledger row 2: its hash or its"},
    {"DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger)", "ledger row 4: its hash or its link"},
    {"DELETE FROM head", "ledger row 4: its hash or its link"},
    {"DROP TRIGGER head_follows", "the trigger head_follows is gone"},
    {"INSERT INTO stream SELECT 77, prompt, phase, sha256, bytes, record FROM stream",
     "stream of run 77 prompt p1 phase 0 points to nothing in run"},
    {"DELETE FROM run", "stream of run 1 prompt p1 phase 0 points to nothing in run"},
    {"DELETE FROM run", "the ledger names run 1, which is not in the store"},
    {"DELETE FROM stream", "run 1 was edited: its rows hash to"},
    {"UPDATE position SET verdict = 'NEAR_TIE'", "run 1 was edited: its rows hash to"},
    {"UPDATE position SET gap_bound_nats = gap_bound_nats + 1e-9", "run 1 was edited: its rows hash to"},
    {"DELETE FROM position", "run 1 was edited: its rows hash to"},
    {"UPDATE run SET summary = summary || ' '", "run 1 was edited: its rows hash to"},
    {"UPDATE stream SET phase = 1", "run 1 was edited: its rows hash to"},
    {"INSERT INTO run SELECT 2, started, finished, model, model_sha256, battery, battery_sha256, golden_sha256, arm,"
     " commit_id, verdict, summary, shard FROM run",
     "run 2 has no seal in the ledger"},
    {"INSERT INTO battery VALUES (1, 'b5', 'mine', '', 4, 0, 2, 0.5, '', '[]')", "battery mine (b5) has no seal"},
    {"INSERT INTO record VALUES ('r1', 'anchor', 'mine', 1, x'00', '')", "anchor mine (r1)"},
    {"DELETE FROM run", "position 3 of run 1 prompt p1 points to nothing in run"},
    {"INSERT INTO source VALUES ('x', 'y', 99, NULL)", "of source points to nothing in golden"},
    {"UPDATE stream SET sha256 = 'x'", "stream of run 1 prompt p1 phase 0 was edited"},
    {"UPDATE stream SET record = substr(record, 1, 9)", "stream of run 1 prompt p1 phase 0"},
    {"UPDATE stream SET bytes = bytes + 1", "stream of run 1 prompt p1 phase 0"},
    {"UPDATE stream SET bytes = -1", "stream of run 1 prompt p1 phase 0"},
    {"UPDATE golden SET bytes = -1 WHERE id = 2", "(m1 b eager)"},
    {"UPDATE golden SET model = CAST(x'ff41' AS TEXT) WHERE id = 2", "(?A b eager)"},
    {"UPDATE stream SET prompt = CAST(x'fe' AS TEXT), sha256 = 'x'", "prompt ? phase 0 was edited"},
    {"UPDATE run SET verdict = 'PASS', golden_sha256 = 'abc'", "run 1 was judged against golden abc"},
};

START_TEST(each_damage_is_named_where_it_is)
{
    store_sound("s.db");
    store_sql("s.db", UNSEAL);
    store_sql("s.db", damage[_i].sql);
    struct store *s = store_opened("s.db");
    ck_assert_msg(strstr(store_complaints(s), damage[_i].named) != NULL, "%s gives: %s", damage[_i].sql,
                  store_complaints(s));
    store_close(s);
}
END_TEST

/* A page of the file overwritten: an error or complaints, whichever page it is; never a clean bill. */
START_TEST(an_overwritten_page_is_never_clean)
{
    void *data;
    size_t bytes;
    struct err e = {0};
    store_sound("s.db");
    ck_assert_int_eq(packed_read(scratch("s.db"), 1 << 28, &data, &bytes, &e), OK);
    ck_assert_uint_ge(bytes, 8 * 4096);
    for (size_t page = 0; page < bytes / 4096; page++) {
        struct store *s;
        char kept[4096];
        e = (struct err){0};
        memcpy(kept, (char *)data + page * 4096, sizeof kept);
        memset((char *)data + page * 4096, 0x5a, sizeof kept);
        scratch_write("d.db", data, bytes);
        memcpy((char *)data + page * 4096, kept, sizeof kept);
        if (store_open(scratch("d.db"), &s, &e)) {
            ck_assert(e.code == E_STORE && *e.text);
            continue;
        }
        ck_assert_msg(*store_complaints(s), "page %zu of %zu", page + 1, bytes / 4096);
        store_close(s);
    }
    free(data);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store damage");
    TCase *t = tcase_create("damage");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_loop_test(t, each_damage_is_named_where_it_is, 0, (int)(sizeof damage / sizeof *damage));
    tcase_add_test(t, an_overwritten_page_is_never_clean);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
