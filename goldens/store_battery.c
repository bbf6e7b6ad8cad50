/* Batteries in the store. */
#include "goldens/seal.h"
#include "harness/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *prompts_text(const struct battery *b)
{
    json_t *a = json_array();
    for (int i = 0; a && i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        json_t *ids = json_array(), *o = json_pack("{s:s}", "name", p->name);
        for (int j = 0; j < p->n; j++)
            json_array_append_new(ids, json_integer(p->ids[j]));
        if (p->text)
            json_object_set_new(o, "text", json_string(p->text));
        json_object_set_new(o, "ids", ids);
        json_array_append_new(a, o);
    }
    char *text = a ? json_dumps(a, JSON_COMPACT) : NULL;
    json_decref(a);
    return text;
}

int battery_insert(struct store *s, const struct battery *b, struct err *e)
{
    char *prompts = prompts_text(b);
    if (!prompts)
        return FAIL(e, E_NOMEM, "out of memory");
    /* The razor of a shipped battery stands beside its file and may change without it; every judged position keeps
     * the razor that judged it. */
    int rc =
        db_run(s,
               db_query(s, e,
                        "INSERT INTO battery (sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos,"
                        " razor_ulp, razor_cap_nats, note, prompts) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (sha256) DO"
                        " UPDATE SET razor_ulp = excluded.razor_ulp, razor_cap_nats = excluded.razor_cap_nats"
                        " WHERE razor_ulp <> excluded.razor_ulp OR razor_cap_nats <> excluded.razor_cap_nats",
                        "tttiirrtt", b->sha256, b->name, b->tokenizer_sha256, (int64_t)b->max_new_tokens,
                        (int64_t)b->stop_at_eos, b->razor_ulp, b->razor_cap_nats, b->note, prompts),
               e);
    free(prompts);
    return rc || !sqlite3_changes(s->db) ? rc : battery_seal(s, b->sha256, e);
}

int store_battery_put(struct store *s, const struct battery *b, struct err *e)
{
    int rc = db_begin(s, e);
    return rc ? rc : db_end(s, battery_insert(s, b, e), e);
}

static int fill_prompts(struct battery *b, const char *text, const char *where, struct err *e)
{
    json_t *a = json_parse(text, strlen(text), where, 0, e);
    int rc = a ? OK : e->code, n = (int)json_array_size(a);
    b->prompt = calloc(n ? (size_t)n : 1, sizeof *b->prompt);
    if (!rc && !b->prompt)
        rc = FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; !rc && i < n; i++) {
        const json_t *o = json_array_get(a, (size_t)i), *text_of = json_object_get(o, "text");
        const char *name;
        b->prompts = i + 1;
        if ((rc = json_get_str(o, "name", &name, where, e)) ||
            (rc = json_get_ids(o, "ids", 0, INT32_MAX, &b->prompt[i].ids, &b->prompt[i].n, where, e)))
            break;
        b->prompt[i].name = strdup(name);
        b->prompt[i].text = text_of ? strdup(json_string_value(text_of)) : NULL;
    }
    json_decref(a);
    return rc;
}

int store_battery_get(struct store *s, const char *name, struct battery **out, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos, razor_ulp,"
                               " razor_cap_nats, note, prompts FROM battery WHERE name = ? ORDER BY id DESC LIMIT 1",
                               "t", name);
    int row = db_step(s, q, e), rc = OK;
    struct battery *b = row == 1 ? calloc(1, sizeof *b) : NULL;
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no battery \"%s\" in %s; `assay battery list` names them", name, s->path);
    else if (!b)
        rc = FAIL(e, E_NOMEM, "out of memory");
    if (!rc) {
        snprintf(b->sha256, sizeof b->sha256, "%s", db_text(q, 0));
        snprintf(b->name, sizeof b->name, "%s", db_text(q, 1));
        snprintf(b->tokenizer_sha256, sizeof b->tokenizer_sha256, "%s", db_text(q, 2));
        b->max_new_tokens = sqlite3_column_int(q, 3);
        b->stop_at_eos = sqlite3_column_int(q, 4);
        b->razor_ulp = sqlite3_column_double(q, 5);
        b->razor_cap_nats = sqlite3_column_double(q, 6);
        snprintf(b->note, sizeof b->note, "%s", db_text(q, 7));
        rc = fill_prompts(b, db_text(q, 8), s->path, e);
    }
    sqlite3_finalize(q);
    if (rc)
        battery_free(b);
    else
        *out = b;
    return rc;
}

int store_battery_list(struct store *s, json_t **list, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT name, CASE WHEN json_valid(prompts) THEN json_array_length(prompts) ELSE 0 END,"
                               " max_new_tokens, razor_ulp, razor_cap_nats, note FROM battery WHERE id IN"
                               " (SELECT max(id) FROM battery GROUP BY name) ORDER BY name",
                               "");
    json_t *all = json_array();
    int row;
    while ((row = db_step(s, q, e)) == 1)
        json_array_append_new(all, json_pack("{s:s,s:i,s:i,s:f,s:f,s:s}", "name", db_text(q, 0), "prompts",
                                             sqlite3_column_int(q, 1), "max_new_tokens", sqlite3_column_int(q, 2),
                                             "razor_ulp", sqlite3_column_double(q, 3), "razor_cap_nats",
                                             sqlite3_column_double(q, 4), "note", db_text(q, 5)));
    sqlite3_finalize(q);
    if (row < 0) {
        json_decref(all);
        return e->code;
    }
    *list = all;
    return OK;
}
