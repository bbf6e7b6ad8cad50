#include "harness/gate/flags.h"

#include "harness/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct stage_fact {
    const char *name;
    int on, flips;
} stages[] = {
#define FLAG_STAGE(name, spelling, on, flips, text) {spelling, on, flips},
#include "harness/gate/flag_stage.def"
#undef FLAG_STAGE
};

const char *flag_stage_name(enum flag_stage stage)
{
    return stages[stage].name;
}

/* A version MAJOR.MINOR as one number; -1 when it is none. */
static long version_number(const char *text)
{
    char *end;
    long major = strtol(text, &end, 10), minor;
    if (end == text || *end != '.' || major < 0 || major > 9999)
        return -1;
    const char *rest = end + 1;
    minor = strtol(rest, &end, 10);
    return end == rest || *end || minor < 0 || minor > 9999 ? -1 : major * 10000 + minor;
}

static int copy(const json_t *o, const char *key, char *out, size_t size, int needed, const char *where, struct err *e)
{
    const char *s = "";
    if ((needed || json_object_get(o, key)) && json_get_str(o, key, &s, where, e))
        return e->code;
    if (strlen(s) >= size)
        return FAIL(e, E_INPUT, "%s: \"%s\" is longer than %zu bytes", where, key, size - 1);
    strcpy(out, s);
    return OK;
}

static int read_values(const json_t *o, struct flag *f, const char *where, struct err *e)
{
    const json_t *v = json_object_get(o, "values"), *w = json_object_get(o, "spelling");
    const char *dflt, *first = json_string_value(json_array_get(v, 0)),
                      *second = json_string_value(json_array_get(v, 1));
    if (json_array_size(v) != 2 || !first || strcmp(first, "off") || !second || strcmp(second, "on"))
        return FAIL(e, E_INPUT, "%s: \"values\" must be [\"off\", \"on\"]", where);
    if (json_get_str(o, "default", &dflt, where, e))
        return e->code;
    f->on = !strcmp(dflt, "on");
    if (!f->on && strcmp(dflt, "off"))
        return FAIL(e, E_INPUT, "%s: default \"%s\" is none of its values", where, dflt);
    for (int i = 0; w && i < 2; i++)
        if (copy(w, flag_value(i), f->spelling[i], sizeof f->spelling[i], 0, where, e))
            return e->code;
    return OK;
}

static int read_life(const json_t *o, struct flag *f, const char *version, const char *where, struct err *e)
{
    const char *stage;
    int at = 0;
    if (json_get_str(o, "stage", &stage, where, e) || copy(o, "since", f->since, sizeof f->since, 1, where, e) ||
        copy(o, "removal", f->removal, sizeof f->removal, 0, where, e))
        return e->code;
    while (at < STAGE_COUNT && strcmp(stages[at].name, stage))
        at++;
    if (at == STAGE_COUNT)
        return FAIL(e, E_INPUT, "%s: \"%s\" is no stage of life", where, stage);
    f->stage = (enum flag_stage)at;
    if (f->on != stages[at].on)
        return FAIL(e, E_INPUT, "%s: a flag that is %s has the default \"%s\"", where, stage,
                    flag_value(stages[at].on));
    if (version_number(f->since) < 0 || (*f->removal && version_number(f->removal) < 0))
        return FAIL(e, E_INPUT, "%s: \"since\" and \"removal\" are versions, MAJOR.MINOR", where);
    if ((f->stage >= STAGE_DEPRECATED) != (*f->removal != 0))
        return FAIL(e, E_INPUT,
                    "%s: \"removal\" names the version that removes a flag: deprecated and removed ones have "
                    "it, others do not",
                    where);
    int due = f->stage >= STAGE_DEPRECATED && version_number(f->removal) <= version_number(version);
    if (f->stage >= STAGE_DEPRECATED && due != (f->stage == STAGE_REMOVED))
        return FAIL(e, E_INPUT, "%s: it is %s, its removal is due in %s and this is %s", where, stage, f->removal,
                    version);
    return OK;
}

static int read_flag(const json_t *o, struct flag_set *s, struct err *e)
{
    static const char *const known[] = {"name",    "engine", "device", "summary", "values",
                                        "default", "stage",  "since",  "removal", "spelling"};
    struct flag *f = &s->flag[s->flags];
    char where[1200];
    const char *key;
    json_t *v;
    snprintf(where, sizeof where, "%s: flag %d", s->path, s->flags + 1);
    if (copy(o, "name", f->name, sizeof f->name, 1, where, e))
        return e->code;
    snprintf(where, sizeof where, "%s: flag %s", s->path, f->name);
    if (flags_find(s, f->name))
        return FAIL(e, E_INPUT, "%s: there are two of that name", where);
    json_object_foreach((json_t *)o, key, v)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], key))
            i++;
        if (i == sizeof known / sizeof *known)
            return FAIL(e, E_INPUT, "%s: unknown key \"%s\"", where, key);
    }
    if (copy(o, "engine", f->engine, sizeof f->engine, 1, where, e) ||
        copy(o, "device", f->device, sizeof f->device, 0, where, e) ||
        copy(o, "summary", f->summary, sizeof f->summary, 1, where, e) || read_values(o, f, where, e) ||
        read_life(o, f, s->version, where, e))
        return e->code;
    s->flags++;
    return OK;
}

int flags_read(const char *data_dir, struct flag_set *s, struct err *e)
{
    const char *schema = "";
    size_t i;
    json_t *o;
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s/batteries/flags.json", data_dir);
    if (!(s->file = json_read(s->path, e)))
        return e->code;
    int rc = json_get_str(s->file, "schema", &schema, s->path, e);
    if (!rc && strcmp(schema, "assay-flags/1"))
        rc = FAIL(e, E_INPUT, "%s: schema \"%s\"; assay-flags/1 is expected", s->path, schema);
    if (!rc)
        rc = copy(s->file, "version", s->version, sizeof s->version, 1, s->path, e);
    if (!rc && version_number(s->version) < 0)
        rc = FAIL(e, E_INPUT, "%s: version \"%s\"; MAJOR.MINOR is expected", s->path, s->version);
    if (!rc && json_array_size(json_object_get(s->file, "flags")) > FLAGS_MAX)
        rc = FAIL(e, E_INPUT, "%s: more than %d flags", s->path, FLAGS_MAX);
    if (!rc && !json_array_size(json_object_get(s->file, "flags")))
        rc = FAIL(e, E_INPUT, "%s: \"flags\" must be an array of flags", s->path);
    json_array_foreach(json_object_get(s->file, "flags"), i, o) if (!rc) rc = read_flag(o, s, e);
    if (rc)
        flags_free(s);
    return rc;
}

void flags_free(struct flag_set *s)
{
    json_decref(s->file);
    memset(s, 0, sizeof *s);
}

const struct flag *flags_find(const struct flag_set *s, const char *name)
{
    for (int i = 0; i < s->flags; i++)
        if (!strcmp(s->flag[i].name, name))
            return &s->flag[i];
    return NULL;
}

static int no_flag(const struct flag_set *s, const char *word, struct err *e)
{
    char names[512] = "";
    for (int i = 0; i < s->flags; i++) {
        strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, s->flag[i].name, sizeof names - strlen(names) - 1);
    }
    return FAIL(e, E_USAGE, "\"%s\": FLAG=on or FLAG=off is expected; flags are %s", word, names);
}

int flags_parse(const struct flag_set *s, const char *word, const struct flag **f, int *on, struct err *e)
{
    char name[48];
    size_t n = strcspn(word, "=");
    for (int i = 0; i < 2 * s->flags; i++)
        if (*word && !strcmp(s->flag[i / 2].spelling[i % 2], word)) {
            *f = &s->flag[i / 2];
            *on = i % 2;
            return OK;
        }
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), word);
    if (!(*f = flags_find(s, name)) || n >= sizeof name || !word[n])
        return no_flag(s, word, e);
    *on = !strcmp(word + n + 1, "on");
    return *on || !strcmp(word + n + 1, "off") ? OK : no_flag(s, word, e);
}

int flags_may_flip(const struct flag *f, int on, struct err *e)
{
    if (!stages[f->stage].flips)
        return FAIL(e, E_USAGE, "%s is %s: its default cannot be flipped", f->name, stages[f->stage].name);
    if (f->on == on)
        return FAIL(e, E_USAGE, "%s is \"%s\" by default already: nothing to flip", f->name, flag_value(on));
    return OK;
}

void flags_deprecation(const struct flag *f, char *out, int size)
{
    snprintf(out, (size_t)size, "%s is deprecated and has no effect; version %s removes it", f->name, f->removal);
}

/* All bytes on the disk before the name points to them. */
static int replace(const char *path, const char *text, struct err *e)
{
    char fresh[1100];
    size_t n = strlen(text);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), bad = fd < 0;
    bad = bad || write(fd, text, n) != (ssize_t)n || write(fd, "\n", 1) != 1 || fsync(fd);
    if (fd >= 0 && close(fd))
        bad = 1;
    if (bad || rename(fresh, path)) {
        int why = errno;
        if (fd >= 0)
            unlink(fresh);
        return FAIL(e, E_IO, "%s: cannot write: %s", path, strerror(why));
    }
    return OK;
}

int flags_flip(struct flag_set *s, const struct flag *f, int on, struct err *e)
{
    struct flag *own = &s->flag[f - s->flag];
    json_t *o = json_array_get(json_object_get(s->file, "flags"), (size_t)(f - s->flag));
    int rc = flags_may_flip(f, on, e);
    if (rc)
        return rc;
    enum flag_stage stage = on ? STAGE_DEFAULT_ON : STAGE_DEFAULT_OFF;
    json_object_set_new(o, "default", json_string(flag_value(on)));
    json_object_set_new(o, "stage", json_string(stages[stage].name));
    char *text = json_dumps(s->file, JSON_INDENT(2));
    rc = text ? replace(s->path, text, e) : FAIL(e, E_NOMEM, "out of memory");
    free(text);
    if (!rc) {
        own->on = on;
        own->stage = stage;
    }
    return rc;
}
