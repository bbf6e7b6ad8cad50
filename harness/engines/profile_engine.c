#include "harness/engines/profile_engine.h"

#include "harness/base/json.h"
#include "harness/engines/child.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "assay-engine/1"

static const char *const members[] = {"schema", "name",  "note",       "adapter", "dialect", "url",   "command",
                                      "ready",  "flags", "models",     "vocab",   "top_k",   "slots", "values",
                                      "limits", "log",   "token_file", "ca_file", NULL};
static const char *const limits[] = {"connect_seconds", "answer_seconds", "answer_bytes", NULL};
static const char *const readies[] = {"path", "seconds", NULL};

static int only(const json_t *o, const char *const *known, const char *where, struct err *e)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)o, key, v)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i])
            return FAIL(e, E_INPUT, "%s: no member \"%.60s\" is known here", where, key);
    }
    return OK;
}

/* An absent member leaves `out` as it is. */
static int text(const json_t *o, const char *key, char *out, size_t size, const char *where, struct err *e)
{
    const char *s;
    if (!json_object_get(o, key))
        return OK;
    if (json_get_str(o, key, &s, where, e))
        return e->code;
    if (strlen(s) >= size)
        return FAIL(e, E_INPUT, "%s: \"%s\" is longer than %zu bytes", where, key, size - 1);
    memcpy(out, s, strlen(s) + 1);
    return OK;
}

static int number(const json_t *o, const char *key, int64_t lo, int64_t hi, int *out, const char *where, struct err *e)
{
    int64_t v;
    if (!json_object_get(o, key))
        return OK;
    if (json_get_int(o, key, lo, hi, &v, where, e))
        return e->code;
    *out = (int)v;
    return OK;
}

static int seconds(const json_t *o, const char *key, double *out, const char *where, struct err *e)
{
    double v;
    if (!json_object_get(o, key))
        return OK;
    if (json_get_real(o, key, &v, where, e))
        return e->code;
    if (!(v > 0 && v <= 86400))
        return FAIL(e, E_INPUT, "%s: \"%s\" must be above 0 and at most 86400", where, key);
    *out = v;
    return OK;
}

static int read_limits(const json_t *o, struct engine_profile *p, const char *where, struct err *e)
{
    const json_t *l = json_object_get(o, "limits"), *ready = json_object_get(o, "ready");
    int64_t bytes = (int64_t)p->answer_bytes;
    if ((l && !json_is_object(l)) || (ready && !json_is_object(ready)))
        return FAIL(e, E_INPUT, "%s: \"%s\" is not an object", where, l && !json_is_object(l) ? "limits" : "ready");
    if ((l && (only(l, limits, where, e) || seconds(l, "connect_seconds", &p->connect_seconds, where, e) ||
               seconds(l, "answer_seconds", &p->answer_seconds, where, e))) ||
        (json_object_get(l, "answer_bytes") &&
         json_get_int(l, "answer_bytes", 1024, (int64_t)1 << 32, &bytes, where, e)))
        return e->code;
    p->answer_bytes = (size_t)bytes;
    if (ready &&
        (only(ready, readies, where, e) || text(ready, "path", p->ready_path, sizeof p->ready_path, where, e) ||
         seconds(ready, "seconds", &p->ready_seconds, where, e)))
        return e->code;
    return OK;
}

static int read_flag(const char *name, const json_t *f, struct engine_profile *p, const char *where, struct err *e)
{
    static const char *const known[] = {"via", "name", "values", "default", NULL};
    static const char *const via[] = {"hello", "argument", "environment", "field"};
    struct profile_flag *out = &p->flag[p->flags];
    const char *how, *key;
    int i = 0;
    if (p->flags == PROFILE_FLAGS)
        return FAIL(e, E_INPUT, "%s: more than %d flags", where, PROFILE_FLAGS);
    if (!json_is_object(f))
        return FAIL(e, E_INPUT, "%s: flag \"%.60s\" is not an object", where, name);
    if (only(f, known, where, e) || json_get_str(f, "via", &how, where, e) || json_get_str(f, "name", &key, where, e) ||
        text(f, "default", out->value, sizeof out->value, where, e))
        return e->code;
    while (i < 4 && strcmp(via[i], how))
        i++;
    if (i == 4)
        return FAIL(e, E_INPUT, "%s: flag \"%.60s\": \"via\" must be hello, argument, environment or field", where,
                    name);
    const json_t *values = json_object_get(f, "values");
    for (size_t k = 0; k < json_array_size(values); k++)
        if (!json_is_string(json_array_get(values, k)))
            return FAIL(e, E_INPUT, "%s: flag \"%.60s\": values are strings", where, name);
    if (strlen(name) >= sizeof out->name || strlen(key) >= sizeof out->key)
        return FAIL(e, E_INPUT, "%s: flag \"%.60s\": a name is too long", where, name);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->key, sizeof out->key, "%s", key);
    out->via = (enum flag_via)i;
    out->values = values;
    p->flags++;
    return OK;
}

static int read_command(const json_t *o, struct engine_profile *p, const char *where, struct err *e)
{
    const json_t *c = json_object_get(o, "command");
    if (!c)
        return OK;
    if (!json_array_size(c))
        return FAIL(e, E_INPUT, "%s: \"command\" is an array of words", where);
    if (!(p->command = calloc(json_array_size(c) + 1, sizeof *p->command)))
        return FAIL(e, E_NOMEM, "out of memory");
    for (; p->commands < (int)json_array_size(c); p->commands++) {
        const char *word = json_string_value(json_array_get(c, (size_t)p->commands));
        if (!word || !(p->command[p->commands] = strdup(word)))
            return FAIL(e, E_INPUT, "%s: \"command\"[%d] is not a string", where, p->commands);
        size_t at = strlen(p->command_text);
        snprintf(p->command_text + at, sizeof p->command_text - at, "%s%s", at ? " " : "", word);
    }
    return OK;
}

static int read_values(const char *s, struct engine_profile *p, const char *where, struct err *e)
{
    if (strcmp(s, "logit") && strcmp(s, "logprob"))
        return FAIL(e, E_USAGE, "%s: values are \"logit\" or \"logprob\", not \"%.40s\"", where, s);
    p->values = strcmp(s, "logit") ? VALUE_LOGPROB : VALUE_LOGIT;
    p->values_said = 1;
    return OK;
}

static int read_file(const char *path, const char *adapter, const struct model *m, struct engine_profile *p,
                     struct err *e)
{
    const char *s, *key;
    json_t *f;
    char values[16] = "";
    if (!(p->json = json_read(path, e)) || sha256_file(path, p->sha256, e))
        return e->code;
    if (!json_is_object(p->json))
        return FAIL(e, E_INPUT, "%s: not an object", path);
    if (only(p->json, members, path, e) || json_get_str(p->json, "schema", &s, path, e))
        return e->code;
    if (strcmp(s, SCHEMA))
        return FAIL(e, E_INPUT, "%s: \"schema\" is \"%.40s\", must be \"" SCHEMA "\"", path, s);
    if (json_get_str(p->json, "adapter", &s, path, e))
        return e->code;
    if (strcmp(s, adapter))
        return FAIL(e, E_USAGE, "%s is a profile for %.20s, not for %s", path, s, adapter);
    if (text(p->json, "name", p->name, sizeof p->name, path, e) ||
        text(p->json, "dialect", p->dialect, sizeof p->dialect, path, e) ||
        text(p->json, "url", p->url, sizeof p->url, path, e) ||
        text(p->json, "token_file", p->token_file, sizeof p->token_file, path, e) ||
        text(p->json, "ca_file", p->ca_file, sizeof p->ca_file, path, e) ||
        text(p->json, "log", p->log_file, sizeof p->log_file, path, e) ||
        text(p->json, "values", values, sizeof values, path, e) ||
        number(p->json, "vocab", 1, 1 << 24, &p->vocab, path, e) ||
        number(p->json, "top_k", 1, 1000, &p->top_k, path, e) || number(p->json, "slots", 1, 64, &p->slots, path, e) ||
        read_limits(p->json, p, path, e) || read_command(p->json, p, path, e) ||
        (*values && read_values(values, p, path, e)))
        return e->code;
    json_object_foreach(json_object_get(p->json, "flags"), key, f) if (read_flag(key, f, p, path, e)) return e->code;
    if (m && json_object_get(json_object_get(p->json, "models"), m->name) &&
        text(json_object_get(p->json, "models"), m->name, p->served, sizeof p->served, path, e))
        return e->code;
    return OK;
}

static int allowed(const struct profile_flag *f, const char *value)
{
    for (size_t i = 0; i < json_array_size(f->values); i++)
        if (!strcmp(json_string_value(json_array_get(f->values, i)), value))
            return 1;
    return !json_array_size(f->values);
}

static int whole(const struct engine_flag *f, int lo, int hi, int *out, struct err *e)
{
    char *end;
    long v = strtol(f->value, &end, 10);
    if (!*f->value || *end || v < lo || v > hi)
        return FAIL(e, E_USAGE, "%s=%s: a number from %d to %d is expected", f->name, f->value, lo, hi);
    *out = (int)v;
    return OK;
}

static int own_flag(const struct engine_flag *f, struct engine_profile *p, int *taken, struct err *e)
{
    char *end;
    *taken = 1;
    if (!strcmp(f->name, "slots"))
        return whole(f, 1, 64, &p->slots, e);
    if (!strcmp(f->name, "vocab"))
        return whole(f, 1, 1 << 24, &p->vocab, e);
    if (!strcmp(f->name, "values"))
        return read_values(f->value, p, "values", e);
    if (!strcmp(f->name, "model")) {
        snprintf(p->served, sizeof p->served, "%s", f->value);
        return OK;
    }
    if (!strcmp(f->name, "timeout") || !strcmp(f->name, "ready")) {
        double s = strtod(f->value, &end);
        if (!*f->value || *end || !(s > 0 && s <= 86400))
            return FAIL(e, E_USAGE, "%s=%s: seconds above 0 are expected", f->name, f->value);
        *(*f->name == 't' ? &p->answer_seconds : &p->ready_seconds) = s;
        p->connect_seconds = s < p->connect_seconds ? s : p->connect_seconds;
        return OK;
    }
    *taken = 0;
    return OK;
}

static int set_flag(const struct engine_flag *f, struct engine_profile *p, struct err *e)
{
    char known[400] = "";
    int taken, i = 0;
    if (own_flag(f, p, &taken, e) || taken)
        return e->code;
    for (; i < p->flags && strcmp(p->flag[i].name, f->name); i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), " %.60s", p->flag[i].name);
    if (i == p->flags && (!p->any_flag || i == PROFILE_FLAGS))
        return FAIL(e, E_USAGE, "the engine has no flag \"%s\"; it takes slots timeout ready model vocab values%s",
                    f->name, known);
    if (i == p->flags) {
        if (strlen(f->name) >= sizeof p->flag[i].name)
            return FAIL(e, E_USAGE, "flag \"%.80s\": the name is too long", f->name);
        p->flag[i] = (struct profile_flag){.via = VIA_HELLO};
        snprintf(p->flag[i].name, sizeof p->flag[i].name, "%s", f->name);
        snprintf(p->flag[i].key, sizeof p->flag[i].key, "%s", f->name);
        p->flags++;
    }
    if (strlen(f->value) >= sizeof p->flag[i].value)
        return FAIL(e, E_USAGE, "%s=...: longer than %zu bytes", f->name, sizeof p->flag[i].value - 1);
    if (!allowed(&p->flag[i], f->value)) {
        char *list = json_dumps(p->flag[i].values, JSON_COMPACT);
        FAIL(e, E_USAGE, "%s=%s: must be one of %.300s", f->name, f->value, list ? list : "");
        free(list);
        return e->code;
    }
    snprintf(p->flag[i].value, sizeof p->flag[i].value, "%s", f->value);
    return OK;
}

/* exec:COMMAND, http:DIALECT@URL */
static int read_words(const char *adapter, const char *spec, struct engine_profile *p, struct err *e)
{
    const char *at = strchr(spec, '@');
    if (!strcmp(adapter, "exec")) {
        p->any_flag = 1;
        snprintf(p->command_text, sizeof p->command_text, "%s", spec);
        return words_split(spec, &p->command, &p->commands, e);
    }
    if (!at || (size_t)(at - spec) >= sizeof p->dialect || strlen(at + 1) >= sizeof p->url)
        return FAIL(e, E_USAGE, "http:%.200s: a profile (batteries/engines), a FILE.json or DIALECT@URL is expected",
                    spec);
    snprintf(p->dialect, sizeof p->dialect, "%.*s", (int)(at - spec), spec);
    snprintf(p->url, sizeof p->url, "%s", at + 1);
    return OK;
}

int engine_profile_open(const char *adapter, const struct engine_open *o, struct engine_profile *p, struct err *e)
{
    char path[1100];
    size_t n = strlen(o->spec);
    *p = (struct engine_profile){.slots = 1,
                                 .values = VALUE_LOGPROB,
                                 .connect_seconds = 10,
                                 .answer_seconds = 600,
                                 .ready_seconds = 600,
                                 .answer_bytes = (size_t)256 << 20};
    if (!n)
        return FAIL(e, E_USAGE, "%s needs more: %s", adapter,
                    strcmp(adapter, "exec") ? "http:PROFILE or http:DIALECT@URL" : "exec:PROFILE or exec:COMMAND");
    snprintf(path, sizeof path, "%.512s/batteries/engines/%.500s.json", o->data_dir, o->spec);
    int rc = n > 5 && !strcmp(o->spec + n - 5, ".json")        ? read_file(o->spec, adapter, o->model, p, e)
             : !strpbrk(o->spec, "/ @") && !access(path, R_OK) ? read_file(path, adapter, o->model, p, e)
                                                               : read_words(adapter, o->spec, p, e);
    for (int i = 0; i < o->flags && !rc; i++)
        rc = set_flag(&o->flag[i], p, e);
    if (!rc && o->model)
        p->vocab = o->model->config.vocab;
    if (!rc && !p->vocab)
        rc = FAIL(e, E_USAGE,
                  "the vocabulary is not known, so ids cannot be checked before they are sent: give --model with its "
                  "files, vocab=N, or \"vocab\" in the profile");
    return rc;
}

void engine_profile_free(struct engine_profile *p)
{
    words_free(p->command);
    json_decref(p->json);
    memset(p, 0, sizeof *p);
}

/* word with {port}, {model} and {model_dir} replaced. */
static char *filled(const char *word, const struct model *m, int port)
{
    char *out = NULL, number_text[16];
    size_t bytes;
    FILE *f = open_memstream(&out, &bytes);
    snprintf(number_text, sizeof number_text, "%d", port);
    const char *const key[] = {"{port}", "{model_dir}", "{model}"}, *const value[] = {number_text, m ? m->path : "",
                                                                                      m ? m->name : ""};
    while (f && *word) {
        int i = 0;
        while (i < 3 && strncmp(word, key[i], strlen(key[i])))
            i++;
        if (i < 3)
            fputs(value[i], f);
        else
            fputc(*word, f);
        word += i < 3 ? strlen(key[i]) : 1;
    }
    return f && fclose(f) == 0 ? out : NULL;
}

int engine_profile_command(const struct engine_profile *p, const struct model *m, int port, char ***argv, struct err *e)
{
    int n = 0;
    char **a = calloc((size_t)p->commands + 2 * (size_t)p->flags + 1, sizeof *a);
    for (int i = 0; a && i < p->commands; i++)
        a[n++] = filled(p->command[i], m, port);
    for (int i = 0; a && i < p->flags; i++) {
        const struct profile_flag *f = &p->flag[i];
        /* A flag of on and off alone is a switch. */
        int a_switch = json_array_size(f->values) == 2 && allowed(f, "on") && allowed(f, "off");
        if (f->via != VIA_ARGUMENT || !*f->value || (a_switch && strcmp(f->value, "on")))
            continue;
        a[n++] = strdup(f->key);
        if (!a_switch)
            a[n++] = strdup(f->value);
    }
    for (int i = 0; a && i < n; i++)
        if (!a[i])
            FAIL(e, E_NOMEM, "out of memory");
    if (!a || e->code) {
        words_free(a);
        return FAIL(e, E_NOMEM, "out of memory");
    }
    *argv = a;
    return OK;
}

int engine_profile_environment(const struct engine_profile *p, char ***env, struct err *e)
{
    int n = 0;
    char **a = calloc((size_t)p->flags + 1, sizeof *a);
    for (int i = 0; a && i < p->flags; i++)
        if (p->flag[i].via == VIA_ENVIRONMENT && *p->flag[i].value &&
            asprintf(&a[n++], "%s=%s", p->flag[i].key, p->flag[i].value) < 0) {
            a[n - 1] = NULL;
            FAIL(e, E_NOMEM, "out of memory");
            break;
        }
    if (!a || e->code) {
        words_free(a);
        return FAIL(e, E_NOMEM, "out of memory");
    }
    *env = a;
    return OK;
}

void engine_profile_flags_text(const struct engine_profile *p, char *out, size_t size)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < p->flags && at < size; i++)
        if (*p->flag[i].value)
            at += (size_t)snprintf(out + at, size - at, " %s=%s", p->flag[i].name, p->flag[i].value);
}

static int is_json(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".json");
}

json_t *engine_profile_list(const char *data_dir, struct err *e)
{
    char folder[1100];
    struct dirent **entry = NULL;
    json_t *all = json_array();
    snprintf(folder, sizeof folder, "%.1000s/batteries/engines", data_dir);
    int n = scandir(folder, &entry, is_json, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1400];
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        json_t *o = e->code ? NULL : json_read(path, e);
        if (o) {
            entry[i]->d_name[strlen(entry[i]->d_name) - 5] = 0;
            json_object_set_new(o, "file", json_string(entry[i]->d_name));
            json_array_append_new(all, o);
        }
        free(entry[i]);
    }
    free(entry);
    if (!e->code)
        return all;
    json_decref(all);
    return NULL;
}
