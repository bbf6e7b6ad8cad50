#include "tools/session.h"

#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/models/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int session_battery(struct store *store, const char *name, struct battery **b, struct err *e)
{
    size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        return battery_read(name, b, e);
    return store_battery_get(store, name, b, e);
}

int session_engine(const struct tool *t, const char *name, char *spec, size_t size, struct err *e)
{
    char path[1100];
    const char *adapter;
    size_t n = strlen(name);
    snprintf(spec, size, "%s", name);
    if (engine_find(name))
        return OK;
    if (n > 5 && !strcmp(name + n - 5, ".json"))
        snprintf(path, sizeof path, "%.1000s", name);
    else
        snprintf(path, sizeof path, "%s/batteries/engines/%.200s.json", t->data_dir, name);
    if (strchr(name, ':') || access(path, R_OK))
        return OK; /* opening it says what there is */
    json_t *o = json_read(path, e);
    if (o && !json_get_str(o, "adapter", &adapter, path, e))
        snprintf(spec, size, "%.16s:%s", adapter, name);
    json_decref(o);
    return e->code;
}

/* A record needs no weights: its model may be a name alone. */
static int open_model(const struct tool *t, const struct session_spec *spec, const char *engine, struct session *s,
                      const char **name, struct err *e)
{
    const struct engine_ops *ops = engine_find(engine);
    const char *slash = strrchr(spec->model, '/');
    *name = slash && slash[1] ? slash + 1 : spec->model;
    int wanted = ops && ops->wants_model, needed = !ops || ops->needs_model || spec->witness;
    struct err none = {0};
    if (!wanted && !needed)
        return OK;
    int rc = tool_model(t, spec->model, &s->model, needed ? e : &none);
    if (rc)
        return needed ? rc : rc == E_MISSING ? OK : FAIL(e, rc, "%s", none.text);
    model_identity(s->model, s->model_sha256);
    *name = s->model->name;
    return OK;
}

/* A witness for another model's golden would be no witness. */
static int open_witness(const struct tool *t, const struct session_spec *spec, struct session *s, struct err *e)
{
    char why[384];
    if (!model_matches(s->golden, s->model, why, sizeof why))
        return FAIL(e, E_MISSING, "--witness %s: %s", spec->witness, why);
    int rc = engine_open_spec(spec->witness, NULL, 0, s->model, t->data_dir, spec->threads, &s->witness, e);
    if (rc == OK && !s->witness->has_logits)
        rc = FAIL(e, E_USAGE, "--witness %s: it has no logits to tell", spec->witness);
    return rc;
}

/* Another program under test: answers of another version or build of it are never mixed into a run either. */
static int name_foreign(struct session *s, struct err *e)
{
    json_t *build = json_copy(s->engine->build);
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];
    json_object_del(build, "server"); /* an address is no build */
    char *text = json_dumps(build, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(build);
    if (!text)
        return FAIL(e, E_NOMEM, "out of memory");
    sha256_of(text, strlen(text), hash);
    sha256_hex(hash, hex);
    free(text);
    snprintf(s->build + strlen(s->build), sizeof s->build - strlen(s->build), "+engine:%.12s", hex);
    return OK;
}

/* "assay:PROGRAM", for an engine that computes by tables and a GPU profile "assay:PROGRAM+DATA". */
static int name_build(struct session *s, struct err *e)
{
    char program[SHA256_HEX_SIZE], data[SHA256_HEX_SIZE];
    uint8_t hash[SHA256_BYTES];
    const json_t *build = s->engine->build;
    const char *part[] = {json_string_value(json_object_get(json_object_get(build, "gpu_profile"), "sha256")),
                          json_string_value(json_object_get(build, "tables_sha256"))};
    if (sha256_file("/proc/self/exe", program, e))
        return e->code;
    snprintf(s->build, sizeof s->build, "assay:%.16s", program);
    if (s->engine->ops->isolated)
        return name_foreign(s, e);
    if (!part[0] && !part[1])
        return OK;
    struct sha256 *h = sha256_new();
    if (!h)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < 2; i++)
        sha256_add(h, part[i] ? part[i] : "", (part[i] ? strlen(part[i]) : 0) + 1);
    sha256_end(h, hash);
    sha256_hex(hash, data);
    snprintf(s->build + strlen(s->build), 18, "+%.16s", data);
    return OK;
}

int session_open(const struct tool *t, struct store *store, const struct session_spec *spec, struct session *s,
                 struct err *e)
{
    const char *model = NULL;
    char engine[600];
    int rc;
    memset(s, 0, sizeof *s);
    s->store = store;
    /* The engine's name is checked first: a typing error is told at once. */
    if ((rc = session_engine(t, spec->engine, engine, sizeof engine, e)))
        return rc;
    if (!engine_find(engine))
        return engine_open_spec(engine, spec->flag, spec->flags, NULL, t->data_dir, 0, &s->engine, e);
    if ((rc = open_model(t, spec, engine, s, &model, e)) ||
        (rc = session_battery(store, spec->battery, &s->battery, e)) ||
        (rc = store_golden_get(store, model, s->battery->name, spec->golden, &s->golden, s->golden_sha256, e)) ||
        (rc = store_golden_verify(store, s->golden_sha256, e)))
        return rc;
    rc = engine_open_spec(engine, spec->flag, spec->flags, s->model, t->data_dir, spec->threads, &s->engine, e);
    if (!rc)
        tool_warn("engine", s->engine->warning), rc = name_build(s, e);
    return rc || !spec->witness ? rc : open_witness(t, spec, s, e);
}

void session_close(struct session *s)
{
    if (s->engine)
        s->engine->ops->close(s->engine);
    if (s->witness)
        s->witness->ops->close(s->witness);
    golden_free(s->golden);
    battery_free(s->battery);
    model_close(s->model);
    memset(s, 0, sizeof *s);
}
