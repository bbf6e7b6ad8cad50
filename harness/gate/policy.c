#include "harness/gate/policy.h"

#include "harness/base/json.h"
#include "harness/base/sha256.h"

#include <stdio.h>
#include <string.h>

static const char *const sections[] = {
#define GATE_CHECK(name, section, text) section,
#include "harness/gate/gate_check.def"
#undef GATE_CHECK
};

/* Members that a section must have, and those that it may. */
static const struct member {
    const char *must, *may;
} members[CHECK_COUNT] = {
    [CHECK_PARITY] = {"runs", ""},
    [CHECK_COUNTERS] = {"rules", ""},
    [CHECK_DETERMINISM] = {"model battery runs", ""},
    [CHECK_GRAPH] = {"model battery", "evidence gpu"},
    [CHECK_BATCH] = {"model battery sizes", ""},
    [CHECK_MUTANTS] = {"model battery", "only reason"},
    [CHECK_MEMORY] = {"evidence", "gpu"},
    [CHECK_BENCH] = {"model battery sizes runs tokens min_ratio max_memory_ratio", "clock"},
};

const char *gate_check_name(enum gate_check c)
{
    return sections[c];
}

static int listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && !strncmp(p, word, n))
            return 1;
    return 0;
}

static int check_members(const json_t *o, enum gate_check c, const char *where, struct err *e)
{
    const char *key, *must = members[c].must;
    json_t *v;
    json_object_foreach((json_t *)o, key, v) if (!listed(must, key) && !listed(members[c].may, key)) return FAIL(
        e, E_INPUT, "%s: unknown key \"%s\"", where, key);
    for (const char *p = must; *p; p += strcspn(p, " "), p += *p == ' ') {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        if (!json_object_get(o, name))
            return FAIL(e, E_INPUT, "%s: \"%s\" is missing", where, name);
    }
    return OK;
}

static int check_kinds(const json_t *o, enum gate_check c, const char *where, struct err *e)
{
    static const char *const lists[] = {"runs", "rules", "sizes"};
    static const char *const texts[] = {"model", "battery", "evidence", "gpu", "reason", "clock"};
    static const char *const numbers[] = {"tokens", "min_ratio", "max_memory_ratio"};
    int counts_runs = c == CHECK_DETERMINISM || c == CHECK_BENCH;
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_object_get(o, lists[i]);
        if (v && !(i == 0 && counts_runs) && !json_array_size(v))
            return FAIL(e, E_INPUT, "%s: \"%s\" must be a list that is not empty", where, lists[i]);
        if (v && i == 0 && counts_runs && (json_integer_value(v) < 2 || json_integer_value(v) > 100))
            return FAIL(e, E_INPUT, "%s: \"runs\" must be a number from 2 to 100", where);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *s = json_string_value(json_object_get(o, texts[i]));
        if (json_object_get(o, texts[i]) && (!s || !*s))
            return FAIL(e, E_INPUT, "%s: \"%s\" must be a text that is not empty", where, texts[i]);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (json_object_get(o, numbers[i]) && !(json_number_value(json_object_get(o, numbers[i])) > 0))
            return FAIL(e, E_INPUT, "%s: \"%s\" must be a number above 0", where, numbers[i]);
    if (c == CHECK_MUTANTS && json_object_get(o, "only") && !json_object_get(o, "reason"))
        return FAIL(e, E_INPUT, "%s: a policy that asks for some mutants \"only\" must give its \"reason\"", where);
    return OK;
}

static int read_section(struct policy *p, enum gate_check c, struct err *e)
{
    const json_t *o = json_object_get(p->file, sections[c]), *why = json_object_get(o, "not_applicable");
    char where[1200];
    snprintf(where, sizeof where, "%s: %s", p->path, sections[c]);
    if (!json_is_object(o))
        return FAIL(e, E_INPUT,
                    "%s: a policy says of every check what it asks, or {\"not_applicable\": \"why it has no meaning\"}",
                    where);
    if (why) {
        p->not_applicable[c] = json_string_value(why);
        if (json_object_size(o) != 1 || !p->not_applicable[c] || !*p->not_applicable[c])
            return FAIL(e, E_INPUT, "%s: \"not_applicable\" stands alone and gives a reason", where);
        return c == CHECK_PARITY ? FAIL(e, E_INPUT, "%s: a gate without it is none", where) : OK;
    }
    p->section[c] = o;
    return check_members(o, c, where, e) ? e->code : check_kinds(o, c, where, e);
}

static int read_head(struct policy *p, struct err *e)
{
    const char *schema, *name, *engine, *summary;
    int64_t recent = 0;
    size_t i;
    json_t *v;
    if (json_get_str(p->file, "schema", &schema, p->path, e) || json_get_str(p->file, "name", &name, p->path, e) ||
        json_get_str(p->file, "summary", &summary, p->path, e) ||
        json_get_str(p->file, "engine", &engine, p->path, e) ||
        json_get_int(json_object_get(p->file, "pairs"), "recent", 0, 8, &recent, p->path, e))
        return e->code;
    if (strcmp(schema, "assay-policy/1"))
        return FAIL(e, E_INPUT, "%s: schema \"%s\"; assay-policy/1 is expected", p->path, schema);
    const char *colon = strchr(engine, ':');
    if (!colon || strlen(engine) >= sizeof p->engine || strlen(colon + 1) >= sizeof p->device)
        return FAIL(e, E_INPUT, "%s: engine \"%s\"; NAME:DEVICE is expected", p->path, engine);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->summary, sizeof p->summary, "%s", summary);
    snprintf(p->engine, sizeof p->engine, "%s", engine);
    snprintf(p->device, sizeof p->device, "%.15s", colon + 1);
    p->recent = (int)recent;
    json_array_foreach(json_object_get(p->file, "fixed"), i, v)
    {
        const char *word = json_string_value(v);
        if (i >= 8 || !word || !strchr(word, '=') || strlen(word) >= sizeof *p->fixed)
            return FAIL(e, E_INPUT, "%s: \"fixed\" is a list of up to 8 flag=value words", p->path);
        snprintf(p->fixed[p->fixeds++], sizeof *p->fixed, "%s", word);
    }
    return OK;
}

static int known_keys(const struct policy *p, struct err *e)
{
    static const char head[] = "schema name summary engine fixed pairs";
    const char *key;
    json_t *v;
    json_object_foreach(p->file, key, v)
    {
        int known = listed(head, key);
        for (int c = 0; c < CHECK_COUNT; c++)
            known |= !strcmp(sections[c], key);
        if (!known)
            return FAIL(e, E_INPUT, "%s: unknown key \"%s\"", p->path, key);
    }
    return OK;
}

int policy_read(const char *data_dir, const char *name, struct policy *p, struct err *e)
{
    size_t n = strlen(name);
    memset(p, 0, sizeof *p);
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        snprintf(p->path, sizeof p->path, "%s", name);
    else
        snprintf(p->path, sizeof p->path, "%s/batteries/policies/%s.json", data_dir, name);
    if (!(p->file = json_read(p->path, e)) || sha256_file(p->path, p->sha256, e))
        goto bad;
    if (read_head(p, e) || known_keys(p, e))
        goto bad;
    for (enum gate_check c = 0; c < CHECK_COUNT; c++)
        if (read_section(p, c, e))
            goto bad;
    return OK;
bad:
    policy_free(p);
    return e->code;
}

void policy_free(struct policy *p)
{
    json_decref(p->file);
    memset(p, 0, sizeof *p);
}

int policy_has(const struct policy *p, const struct flag *f)
{
    size_t n = strlen(f->engine);
    return f->stage < STAGE_DEPRECATED && !strncmp(p->engine, f->engine, n) && p->engine[n] == ':' &&
           (!*f->device || !strcmp(f->device, p->device));
}

static void add_pair(const struct flag_set *flags, const struct policy *p, const struct flag *f, const char *name,
                     struct gate_set *set, int *n)
{
    const struct flag *other = flags_find(flags, name);
    if (!other || other == f || !policy_has(p, other) || *n >= GATE_SETS)
        return;
    struct gate_set *x = &set[*n];
    *x = set[0];
    x->on[other - flags->flag] ^= 1;
    snprintf(x->label, sizeof x->label, "with %s=%s", name, flag_value(x->on[other - flags->flag]));
    for (int i = 1; i < *n; i++)
        if (!strcmp(set[i].label, x->label))
            return;
    ++*n;
}

int gate_sets(const struct flag_set *flags, const struct policy *p, const struct flag *f, int on,
              const char *const *recent, int recents, struct gate_set *set)
{
    int n = 1;
    size_t i;
    json_t *v;
    memset(set, 0, GATE_SETS * sizeof *set);
    snprintf(set->label, sizeof set->label, "defaults");
    for (int k = 0; k < flags->flags; k++)
        set->on[k] = flags->flag + k == f ? on : flags->flag[k].on;
    for (int k = 0; k < recents && n <= p->recent; k++)
        add_pair(flags, p, f, recent[k], set, &n);
    json_array_foreach(json_object_get(json_object_get(p->file, "pairs"), "flags"), i, v)
        add_pair(flags, p, f, json_string_value(v) ? json_string_value(v) : "", set, &n);
    return n;
}

static const char *const outcomes[] = {"ok", "not applicable", "NO_EVIDENCE", "VOID", "FAILED"};

const char *outcome_name(enum outcome o)
{
    return outcomes[o];
}

int gate_decide(const enum outcome *o, int n)
{
    int count[5] = {0};
    for (int i = 0; i < n; i++)
        count[o[i]]++;
    return count[OUTCOME_FAILED] ? 1 : count[OUTCOME_VOID] ? 5 : count[OUTCOME_MISSING] || !count[OUTCOME_OK] ? 4 : 0;
}
