#include "harness/base/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct name_at {
    const char *name;
    int place;
};

/* FNV-1a */
static uint32_t hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

/* The slot of the name, or the empty one where it belongs: at most half of them are taken. */
static struct name_at *find(const struct names *t, const char *name)
{
    uint32_t mask = (uint32_t)t->size - 1, at = hash(name);
    while (t->slot[at & mask].name && strcmp(t->slot[at & mask].name, name))
        at++;
    return &t->slot[at & mask];
}

static int grow(struct names *t, struct err *e)
{
    struct names bigger = {.size = t->size ? 2 * t->size : 16, .n = t->n};
    bigger.slot = calloc((size_t)bigger.size, sizeof *bigger.slot);
    if (!bigger.slot)
        return FAIL(e, E_NOMEM, "out of memory for %d names", bigger.size);
    for (int i = 0; i < t->size; i++)
        if (t->slot[i].name)
            *find(&bigger, t->slot[i].name) = t->slot[i];
    free(t->slot);
    *t = bigger;
    return OK;
}

int names_put(struct names *t, const char *name, int place, struct err *e)
{
    if (2 * (t->n + 1) > t->size && grow(t, e))
        return e ? e->code : E_NOMEM;
    struct name_at *at = find(t, name);
    if (!at->name) {
        *at = (struct name_at){name, place};
        t->n++;
    }
    return OK;
}

int names_get(const struct names *t, const char *name)
{
    const struct name_at *at = t->size ? find(t, name) : NULL;
    return at && at->name ? at->place : -1;
}

void names_free(struct names *t)
{
    free(t->slot);
    memset(t, 0, sizeof *t);
}
