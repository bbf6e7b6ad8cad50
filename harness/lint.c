#include "harness/lint.h"

#include <stdlib.h>
#include <string.h>

static void add(json_t *list, json_t *text)
{
    json_array_append_new(list, text);
}

static void check_same(const struct battery *b, json_t *list)
{
    for (int i = 0; i < b->prompts; i++)
        for (int j = 0; j < i; j++) {
            const struct battery_prompt *x = &b->prompt[j], *y = &b->prompt[i];
            if (!strcmp(x->name, y->name))
                add(list, json_sprintf("prompt %s: the name appears twice", y->name));
            if (x->n == y->n && !memcmp(x->ids, y->ids, (size_t)x->n * sizeof *x->ids))
                add(list, json_sprintf("prompt %s: the same ids as prompt %s: it tests nothing new", y->name, x->name));
        }
}

static void check_against_model(const struct battery *b, const struct model *m, json_t *list)
{
    for (int i = 0; i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        if (p->n + b->max_new_tokens > m->config.max_positions)
            add(list, json_sprintf("prompt %s: %d ids and %d new ones are more than the model's %d positions", p->name,
                                   p->n, b->max_new_tokens, m->config.max_positions));
        for (int j = 0; j < p->n; j++)
            if (p->ids[j] < 0 || p->ids[j] >= m->config.vocab) {
                add(list, json_sprintf("prompt %s: id %d at %d is outside the vocabulary of %d", p->name,
                                       (int)p->ids[j], j, m->config.vocab));
                break;
            }
    }
}

/* A text that the tokenizer refuses did not give the ids that stand beside it. */
static void check_texts(const struct battery *b, struct tokenizer *t, json_t *list)
{
    for (int i = 0; i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        struct err why = {0};
        int32_t *ids = NULL;
        int n, at = 0;
        if (!p->text)
            continue;
        if (tokenizer_encode(t, p->text, strlen(p->text), &ids, &n, &why)) {
            add(list, json_sprintf("prompt %s: its text has no ids: %s", p->name, why.text));
            continue;
        }
        while (at < n && at < p->n && ids[at] == p->ids[at])
            at++;
        if (at < n || at < p->n)
            add(list, json_sprintf("prompt %s: its text gives other ids from %d on (%d ids, %d stand there)", p->name,
                                   at, n, p->n));
        free(ids);
    }
}

int battery_lint(const struct battery *b, const struct model *m, struct tokenizer *t, const char *tokenizer_sha256,
                 json_t **complaints, struct err *e)
{
    json_t *list = json_array();
    if (!list)
        return FAIL(e, E_NOMEM, "%s: out of memory", b->name);
    int same = !*tokenizer_sha256 || !*b->tokenizer_sha256 || !strcmp(tokenizer_sha256, b->tokenizer_sha256);
    if (!b->prompts)
        add(list, json_string("no prompts: an empty battery proves nothing"));
    for (int i = 0; i < b->prompts; i++)
        if (!b->prompt[i].n)
            add(list, json_sprintf("prompt %s: no ids", b->prompt[i].name));
    check_same(b, list);
    if (m)
        check_against_model(b, m, list);
    if (!same)
        add(list, json_sprintf("tokenizer: the battery was made with %s, the model has %s", b->tokenizer_sha256,
                               tokenizer_sha256));
    if (t && same)
        check_texts(b, t, list);
    *complaints = list;
    return OK;
}
