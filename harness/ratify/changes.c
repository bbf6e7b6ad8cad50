/* What a ratification would change, told token by token. */
#include "harness/ratify/plan.h"

#include <math.h>
#include <string.h>

struct ids {
    const int32_t *id;
    int n;
    const double *gap; /* NULL: not known */
};

static void compare(json_t *list, const char *against, const char *prompt, struct ids old, struct ids new)
{
    int at = 0, after = 0;
    while (at < old.n && at < new.n &&old.id[at] == new.id[at])
        at++;
    if (at == old.n && at == new.n)
        return;
    for (int i = at + 1; i < old.n || i < new.n; i++)
        after += i >= old.n || i >= new.n || old.id[i] != new.id[i];
    json_t *gap = new.gap &&at < new.n &&isfinite(new.gap[at]) ? json_real(new.gap[at]) : json_null();
    json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:i,s:i,s:o,s:i}", "against", against, "prompt", prompt,
                                          "position", at, "old_id", at < old.n ? old.id[at] : -1, "new_id",
                                          at < new.n ? new.id[at] : -1, "gap_nats", gap, "after", after));
}

/* The arm's ids against what stood for it until now: its anchor, or the golden where it has none. */
static int against_anchor(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    struct anchor *old = NULL;
    struct err none = {0};
    const struct anchor *x = p->anchor;
    int rc = store_anchor_get(a->store, x->model, x->battery, x->arm, x->device, &old, p->replaces, &none);
    if (rc == E_MISSING)
        p->replaces[0] = 0;
    else if (rc)
        return FAIL(e, rc, "%s", none.text);
    for (int i = 0; i < x->prompts; i++) {
        const struct anchor_prompt *now = &x->prompt[i], *was = old ? anchor_find(old, now->name) : NULL;
        const struct golden_prompt *g = &p->golden->prompt[i];
        struct ids before = was ? (struct ids){was->ids, was->n, NULL} : (struct ids){g->ids, g->n, NULL};
        compare(p->changes, was ? "anchor" : "golden", now->name, before, (struct ids){now->ids, now->n, now->gap});
    }
    anchor_free(old);
    return OK;
}

/* The pending golden against the active ones that it takes the place of. */
static int against_goldens(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    json_t *sha256;
    size_t i;
    int rc = OK;
    json_array_foreach(p->outdated, i, sha256)
    {
        struct golden *old;
        char found[SHA256_HEX_SIZE];
        if (rc || (rc = store_golden_by_hash(a->store, json_string_value(sha256), &old, found, e)))
            continue;
        for (int k = 0; k < p->golden->prompts; k++) {
            const struct golden_prompt *now = &p->golden->prompt[k], *was = golden_find(old, now->name);
            compare(p->changes, "superseded golden", now->name,
                    was ? (struct ids){was->ids, was->n, NULL} : (struct ids){NULL, 0, NULL},
                    (struct ids){now->ids, now->n, NULL});
        }
        golden_free(old);
    }
    return rc;
}

int plan_changes(const struct ratify_ask *a, struct ratify_plan *p, struct err *e)
{
    p->changes = json_array();
    int rc = against_anchor(a, p, e);
    return rc ? rc : against_goldens(a, p, e);
}
