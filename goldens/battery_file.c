/* A battery as JSON: names, texts, ids, lengths and the stop rule. */
#include "goldens/exchange.h"
#include "harness/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ULP 2
#define DEFAULT_CAP 0.5

static int check_keys(const json_t *o, const char *const *known, const char *where, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(size_t)o, key, value)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i])
            return FAIL(e, E_INPUT, "%s: unknown key \"%.60s\"", where, key);
    }
    return OK;
}

/* seen NULL: names may appear twice, and ids may be anything. */
static int read_prompt(const json_t *o, const struct names *seen, struct battery_prompt *p, const char *where,
                       struct err *e)
{
    static const char *const known[] = {"name", "text", "ids", NULL};
    const char *name, *text = NULL;
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: not an object", where);
    if (check_keys(o, known, where, e) || json_get_str(o, "name", &name, where, e) ||
        (json_object_get(o, "text") && json_get_str(o, "text", &text, where, e)))
        return e->code;
    if (!*name || strlen(name) > 63)
        return FAIL(e, E_INPUT, "%s: a prompt needs a name of 1 to 63 bytes", where);
    if (seen && names_get(seen, name) >= 0)
        return FAIL(e, E_INPUT, "%s: prompt \"%s\" appears twice", where, name);
    if (json_get_ids(o, "ids", seen ? 0 : INT32_MIN, INT32_MAX, &p->ids, &p->n, where, e))
        return e->code;
    p->name = strdup(name);
    p->text = text ? strdup(text) : NULL;
    if (!p->name || (text && !p->text))
        return FAIL(e, E_NOMEM, "%s: out of memory", where);
    return OK;
}

static int read_razor(const json_t *o, struct battery *b, const char *where, struct err *e)
{
    static const char *const known[] = {"ulp", "cap_nats", NULL};
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: \"razor\" is not an object", where);
    if (check_keys(o, known, where, e) || json_get_real(o, "ulp", &b->razor_ulp, where, e) ||
        json_get_real(o, "cap_nats", &b->razor_cap_nats, where, e))
        return e->code;
    if (!(b->razor_ulp >= 0 && b->razor_ulp <= 64) || !(b->razor_cap_nats >= 0 && b->razor_cap_nats <= 16))
        return FAIL(e, E_INPUT, "%s: razor: ulp must lie in [0, 64] and cap_nats in [0, 16]", where);
    return OK;
}

/* razor.json beside the battery: {"NAME": {"ulp": ..., "cap_nats": ...}}, for files that must not be touched. */
static int side_razor(const char *path, struct battery *b, struct err *e)
{
    char side[1024];
    struct err none = {0};
    const char *slash = strrchr(path, '/');
    snprintf(side, sizeof side, "%.*srazor.json", slash ? (int)(slash + 1 - path) : 0, path);
    json_t *o = json_read(side, &none);
    if (!o)
        return none.code == E_MISSING ? OK : FAIL(e, none.code, "%s", none.text);
    const json_t *own = json_object_get(o, b->name);
    int rc = own ? read_razor(own, b, side, e) : OK;
    json_decref(o);
    return rc;
}

static int read_fields(const json_t *o, struct battery *b, const char *path, struct err *e)
{
    static const char *const known[] = {
        "battery", "tokenizer_sha256", "max_new_tokens", "stop_at_eos", "note", "razor", "prompts", NULL};
    const char *name, *hash = "", *note = "";
    uint8_t bytes[SHA256_BYTES];
    int64_t most;
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: not an object", path);
    if (check_keys(o, known, path, e) || json_get_str(o, "battery", &name, path, e) ||
        (json_object_get(o, "tokenizer_sha256") && json_get_str(o, "tokenizer_sha256", &hash, path, e)) ||
        (json_object_get(o, "note") && json_get_str(o, "note", &note, path, e)) ||
        json_get_int(o, "max_new_tokens", 1, 1000000, &most, path, e))
        return e->code;
    if (!*name || strlen(name) >= sizeof b->name || strchr(name, '/'))
        return FAIL(e, E_INPUT, "%s: \"battery\" must be a name of 1 to %zu bytes without '/'", path,
                    sizeof b->name - 1);
    if (*hash && !sha256_parse(hash, bytes))
        return FAIL(e, E_INPUT, "%s: tokenizer_sha256 is no SHA-256", path);
    if (!json_is_boolean(json_object_get(o, "stop_at_eos")))
        return FAIL(e, E_INPUT, "%s: \"stop_at_eos\" must be true or false", path);
    snprintf(b->name, sizeof b->name, "%s", name);
    snprintf(b->tokenizer_sha256, sizeof b->tokenizer_sha256, "%s", hash);
    snprintf(b->note, sizeof b->note, "%s", note);
    b->max_new_tokens = (int)most;
    b->stop_at_eos = json_is_true(json_object_get(o, "stop_at_eos"));
    b->razor_ulp = DEFAULT_ULP;
    b->razor_cap_nats = DEFAULT_CAP;
    return OK;
}

static int read_prompts(const json_t *o, int checked, struct battery *b, const char *path, struct err *e)
{
    const json_t *a = json_object_get(o, "prompts");
    size_t n = json_array_size(a);
    if (!json_is_array(a) || (checked && !n))
        return FAIL(e, E_INPUT, "%s: no prompts: an empty battery proves nothing", path);
    b->prompt = calloc(n ? n : 1, sizeof *b->prompt);
    if (!b->prompt)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    struct names seen = {0};
    int rc = OK;
    for (size_t i = 0; i < n && !rc; i++) {
        char where[300];
        snprintf(where, sizeof where, "%.240s: prompt %zu", path, i);
        rc = read_prompt(json_array_get(a, i), checked ? &seen : NULL, &b->prompt[i], where, e);
        b->prompts = (int)i + 1;
        if (!rc)
            rc = names_put(&seen, b->prompt[i].name, (int)i, e);
    }
    names_free(&seen);
    return rc;
}

static int fill(const json_t *o, int checked, struct battery *b, const char *path, struct err *e)
{
    if (sha256_file(path, b->sha256, e) || read_fields(o, b, path, e) || read_prompts(o, checked, b, path, e))
        return e->code;
    const json_t *own = json_object_get(o, "razor");
    return own ? read_razor(own, b, path, e) : side_razor(path, b, e);
}

static int read_file(const char *path, int checked, struct battery **out, struct err *e)
{
    json_t *o = json_read(path, e);
    if (!o)
        return e->code;
    struct battery *b = calloc(1, sizeof *b);
    int rc = b ? fill(o, checked, b, path, e) : FAIL(e, E_NOMEM, "%s: out of memory", path);
    json_decref(o);
    if (rc)
        battery_free(b);
    else
        *out = b;
    return rc;
}

int battery_read(const char *path, struct battery **b, struct err *e)
{
    return read_file(path, 1, b, e);
}

int battery_read_unchecked(const char *path, struct battery **b, struct err *e)
{
    return read_file(path, 0, b, e);
}

static json_t *prompt_json(const struct battery_prompt *p)
{
    json_t *ids = json_array(), *o = json_object();
    for (int i = 0; ids && i < p->n; i++)
        json_array_append_new(ids, json_integer(p->ids[i]));
    json_object_set_new(o, "name", json_string(p->name));
    if (p->text)
        json_object_set_new(o, "text", json_string(p->text));
    json_object_set_new(o, "ids", ids);
    return o;
}

int battery_write(const char *path, const struct battery *b, struct err *e)
{
    json_t *prompts = json_array(), *o = json_object();
    for (int i = 0; i < b->prompts; i++)
        json_array_append_new(prompts, prompt_json(&b->prompt[i]));
    json_object_set_new(o, "battery", json_string(b->name));
    if (*b->tokenizer_sha256)
        json_object_set_new(o, "tokenizer_sha256", json_string(b->tokenizer_sha256));
    json_object_set_new(o, "max_new_tokens", json_integer(b->max_new_tokens));
    json_object_set_new(o, "stop_at_eos", json_boolean(b->stop_at_eos));
    if (*b->note)
        json_object_set_new(o, "note", json_string(b->note));
    json_object_set_new(o, "razor", json_pack("{s:f,s:f}", "ulp", b->razor_ulp, "cap_nats", b->razor_cap_nats));
    json_object_set_new(o, "prompts", prompts);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    int rc = packed_write(path, text, strlen(text), e);
    free(text);
    return rc;
}
