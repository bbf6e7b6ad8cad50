#include "tools/gate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gate_item *gate_add(struct gate *g, enum gate_check c, const struct gate_set *set, const char *about,
                           struct err *e)
{
    if (g->items == GATE_ITEMS) {
        FAIL(e, E_UNSUPPORTED, "policy %s asks for more than %d pieces of evidence", g->policy.name, GATE_ITEMS);
        return NULL;
    }
    struct gate_item *i = &g->item[g->items++];
    memset(i, 0, sizeof *i);
    i->check = c;
    i->outcome = OUTCOME_MISSING;
    snprintf(i->set, sizeof i->set, "%s", set->label);
    snprintf(i->about, sizeof i->about, "%s", about);
    return i;
}

void gate_say(struct gate_item *i, enum outcome o, const char *fmt, ...)
{
    va_list a;
    i->outcome = o;
    va_start(a, fmt);
    vsnprintf(i->text, sizeof i->text, fmt, a);
    va_end(a);
}

int gate_words(const struct gate *g, const struct gate_set *set, char **words)
{
    static char text[FLAGS_MAX][64];
    int n = 0, own = 0;
    for (; n < g->policy.fixeds; n++)
        words[n] = (char *)g->policy.fixed[n];
    for (int k = 0; k < g->flags.flags; k++) {
        if (!policy_has(&g->policy, &g->flags.flag[k]))
            continue;
        snprintf(text[own], sizeof text[own], "%s=%s", g->flags.flag[k].name, flag_value(set->on[k]));
        words[n++] = text[own++];
    }
    return n;
}

int gate_open(const struct gate *g, const struct gate_set *set, const char *model, const char *battery,
              const char *more, struct session *s, struct err *e)
{
    char *words[FLAGS_MAX + 16];
    int n = gate_words(g, set, words);
    if (more)
        words[n++] = (char *)more;
    struct session_spec spec = {
        .engine = g->policy.engine, .model = model, .battery = battery, .flag = words, .flags = n};
    return session_open(g->tool, g->store, &spec, s, e);
}

json_t *gate_key(const struct gate *g, enum gate_check c, const struct session *s)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:O?}", "check", gate_check_name(c), "arm", s->engine->arm,
                     "model_sha256", s->model_sha256, "battery_sha256", s->battery->sha256, "golden_sha256",
                     s->golden_sha256, "commit", s->build, "asked", g->policy.section[c]);
}

int gate_recall(const struct gate *g, const json_t *key, json_t **found, struct err *e)
{
    json_t *list = NULL;
    *found = NULL;
    if (store_ledger_list(g->store, "evidence", &list, e))
        return e->code;
    for (size_t i = json_array_size(list); i > 0 && !*found; i--) {
        json_t *what = json_object_get(json_array_get(list, i - 1), "what");
        if (json_equal(json_object_get(what, "key"), key))
            *found = json_incref(what);
    }
    json_decref(list);
    return OK;
}

int gate_record(const struct gate *g, const json_t *key, const struct gate_item *i, json_t *detail, struct err *e)
{
    json_t *what =
        json_pack("{s:O,s:s,s:s,s:s,s:s,s:I,s:o?}", "key", key, "set", i->set, "about", i->about, "outcome",
                  outcome_name(i->outcome), "text", i->text, "run_number", (json_int_t)i->run, "detail", detail);
    int rc = what ? store_ledger_add(g->store, "evidence", what, e) : FAIL(e, E_NOMEM, "out of memory");
    json_decref(what);
    return rc;
}

int gate_reuse(const struct gate *g, const json_t *key, struct gate_item *i, struct err *e)
{
    json_t *what = NULL;
    if (gate_recall(g, key, &what, e) || !what)
        return 0;
    const char *outcome = json_string_value(json_object_get(what, "outcome"));
    for (enum outcome o = OUTCOME_OK; o <= OUTCOME_FAILED; o++)
        if (outcome && !strcmp(outcome, outcome_name(o)))
            gate_say(i, o, "%s", json_string_value(json_object_get(what, "text")));
    i->run = json_integer_value(json_object_get(what, "run_number"));
    i->reused = i->outcome == OUTCOME_OK || i->outcome == OUTCOME_FAILED; /* what was void or missing is tried again */
    json_decref(what);
    return i->reused;
}
