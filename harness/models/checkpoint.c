#include "harness/models/checkpoint.h"

#include "harness/base/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* One sorted list over all shards; a name in two shards is an error. */
static int list_entries(struct checkpoint *c, struct err *e)
{
    size_t n = 0;
    for (int i = 0; i < c->shards; i++)
        n += (size_t)c->shard[i].tensors;
    c->entry = calloc(n + 1, sizeof *c->entry);
    if (!c->entry)
        return FAIL(e, E_NOMEM, "%s: out of memory", c->folder);
    for (int i = 0; i < c->shards; i++)
        for (int k = 0; k < c->shard[i].tensors; k++)
            c->entry[c->entries++].tensor = &c->shard[i].tensor[k];
    qsort(c->entry, n, sizeof *c->entry, entry_order);
    for (int i = 1; i < c->entries; i++)
        if (!strcmp(c->entry[i - 1].tensor->name, c->entry[i].tensor->name))
            return FAIL(e, E_INPUT, "%s: tensor \"%.200s\" is in two shards", c->folder, c->entry[i].tensor->name);
    return OK;
}

/* shard_names[i] of shard i: opened once, in order of first mention. */
static int shard_of(struct checkpoint *c, const char **names, const char *file, int *which, struct err *e)
{
    char path[1024];
    for (*which = 0; *which < c->shards; ++*which)
        if (!strcmp(names[*which], file))
            return OK;
    if (!*file || strchr(file, '/') || file[0] == '.')
        return FAIL(e, E_INPUT, "%s/" INDEX ": shard \"%.200s\" is not a plain file name", c->folder, file);
    struct safetensors *more = realloc(c->shard, ((size_t)c->shards + 1) * sizeof *more);
    if (!more)
        return FAIL(e, E_NOMEM, "%s: out of memory", c->folder);
    c->shard = more;
    snprintf(path, sizeof path, "%s/%s", c->folder, file);
    int rc = safetensors_open(path, &c->shard[c->shards], e);
    if (rc)
        return rc;
    names[c->shards++] = file;
    return OK;
}

static int open_shards(struct checkpoint *c, const json_t *index, struct err *e)
{
    json_t *map = json_object_get(index, "weight_map"), *v;
    const char *name;
    int rc = OK, which;
    if (!json_is_object(map))
        return FAIL(e, E_INPUT, "%s/" INDEX ": \"weight_map\" is not an object", c->folder);
    const char **names = calloc(json_object_size(map) + 1, sizeof *names);
    if (!names)
        return FAIL(e, E_NOMEM, "%s: out of memory", c->folder);
    json_object_foreach(map, name, v)
    {
        if (!json_is_string(v)) {
            rc = FAIL(e, E_INPUT, "%s/" INDEX ": shard of \"%.200s\" is not a file name", c->folder, name);
            goto out;
        }
        if ((rc = shard_of(c, names, json_string_value(v), &which, e)))
            goto out;
        if (!safetensors_find(&c->shard[which], name)) {
            rc = FAIL(e, E_INPUT, "%s/" INDEX ": tensor \"%.200s\" is not in %s", c->folder, name, names[which]);
            goto out;
        }
    }
    if ((rc = list_entries(c, e)))
        goto out;
    for (int i = 0; i < c->entries && rc == OK; i++)
        if (!json_object_get(map, c->entry[i].tensor->name))
            rc = FAIL(e, E_INPUT, "%s/" INDEX ": tensor \"%.200s\" of a shard is not listed", c->folder,
                      c->entry[i].tensor->name);
out:
    free(names);
    return rc;
}

int checkpoint_open(const char *folder, struct checkpoint *c, struct err *e)
{
    char path[1024];
    int rc;
    memset(c, 0, sizeof *c);
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!access(path, F_OK)) {
        c->shard = calloc(1, sizeof *c->shard);
        rc = c->shard ? safetensors_open(path, c->shard, e) : FAIL(e, E_NOMEM, "%s: out of memory", folder);
        c->shards = rc == OK;
        if (rc == OK)
            rc = list_entries(c, e);
    } else {
        snprintf(path, sizeof path, "%s/" INDEX, folder);
        json_t *index = access(path, F_OK) ? NULL : json_read(path, e);
        rc = index ? open_shards(c, index, e)
                   : FAIL(e, E_MISSING, "%s: neither model.safetensors nor " INDEX " is there", folder);
        json_decref(index);
    }
    if (rc)
        checkpoint_close(c);
    return rc;
}

void checkpoint_close(struct checkpoint *c)
{
    for (int i = 0; i < c->shards; i++)
        safetensors_close(&c->shard[i]);
    free(c->shard);
    free(c->entry);
    memset(c, 0, sizeof *c);
}

static struct entry *find(const struct checkpoint *c, const char *name)
{
    const struct tensor t = {.name = name};
    const struct entry key = {.tensor = &t};
    return c->entries ? bsearch(&key, c->entry, (size_t)c->entries, sizeof key, entry_order) : NULL;
}

const struct tensor *checkpoint_take(struct checkpoint *c, const char *name)
{
    struct entry *x = find(c, name);
    if (!x)
        return NULL;
    x->used = 1;
    return x->tensor;
}

int checkpoint_has(const struct checkpoint *c, const char *name)
{
    return find(c, name) != NULL;
}
