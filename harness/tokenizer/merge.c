/* The merges, and the merging of one word: the pair of lowest rank first, the leftmost of equals. */
#include "harness/tokenizer/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t slot_of(const struct tokenizer *t, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15ull;
    uint32_t at = (uint32_t)(h >> 40) & t->merge_mask;
    while (t->merge[at].rank >= 0 && (t->merge[at].left != left || t->merge[at].right != right))
        at = (at + 1) & t->merge_mask;
    return at;
}

/* Both halves of a merge: "left right", or ["left", "right"]. */
static int halves(const json_t *m, char *buffer, size_t size, const char **left, const char **right)
{
    if (json_is_array(m) && json_array_size(m) == 2) {
        *left = json_string_value(json_array_get(m, 0));
        *right = json_string_value(json_array_get(m, 1));
        return *left && *right;
    }
    const char *text = json_string_value(m), *space = text ? strchr(text, ' ') : NULL;
    if (!space || (size_t)(space - text) >= size)
        return 0;
    memcpy(buffer, text, (size_t)(space - text));
    buffer[space - text] = 0;
    *left = buffer;
    *right = space + 1;
    return 1;
}

static int add_merge(struct tokenizer *t, const json_t *m, int rank, struct err *e)
{
    char buffer[1024], whole[2048];
    const char *left, *right;
    if (!halves(m, buffer, sizeof buffer, &left, &right) || strlen(left) + strlen(right) >= sizeof whole)
        return FAIL(e, E_INPUT, "%s: merge %d is no pair of pieces", t->name, rank);
    snprintf(whole, sizeof whole, "%s%s", left, right);
    const json_t *l = json_object_get(t->vocab, left), *r = json_object_get(t->vocab, right),
                 *w = json_object_get(t->vocab, whole);
    if (!l || !r || !w)
        return FAIL(e, E_INPUT, "%s: merge %d: \"%.60s\" is not in the vocabulary", t->name, rank,
                    !l   ? left
                    : !r ? right
                         : whole);
    uint32_t at = slot_of(t, (int32_t)json_integer_value(l), (int32_t)json_integer_value(r));
    /* a pair that is there twice has the rank of the later one */
    t->merge[at] = (struct merge){(int32_t)json_integer_value(l), (int32_t)json_integer_value(r),
                                  (int32_t)json_integer_value(w), rank};
    return OK;
}

int tokenizer_read_merges(struct tokenizer *t, const json_t *merges, struct err *e)
{
    size_t n = json_array_size(merges), size = 16, i;
    json_t *m;
    if (!json_is_array(merges))
        return FAIL(e, E_INPUT, "%s: model.merges is no array", t->name);
    while (size < 2 * n)
        size *= 2;
    t->merge = malloc(size * sizeof *t->merge);
    if (!t->merge)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    for (i = 0; i < size; i++)
        t->merge[i].rank = -1;
    t->merge_mask = (uint32_t)size - 1;
    json_array_foreach(merges, i, m)
    {
        if (add_merge(t, m, (int)i, e))
            return e->code;
    }
    return OK;
}

/* --- one word --- */

/* A chain of symbols; a joined one leaves its right neighbour dead. */
struct symbol {
    int32_t id; /* -1: dead */
    int previous, next;
};

struct candidate {
    int32_t rank, at, result;
};

struct scratch {
    struct symbol *symbol;
    struct candidate *heap; /* least first; a word of n symbols never has more than 3n */
    int room, heaped;
};

void tokenizer_scratch_free(struct scratch *s)
{
    if (!s)
        return;
    free(s->symbol);
    free(s->heap);
    free(s);
}

static int make_room(struct tokenizer *t, int n, struct err *e)
{
    struct scratch *s = t->scratch ? t->scratch : (t->scratch = calloc(1, sizeof *s));
    if (!s)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    if (n <= s->room)
        return OK;
    int room = n < 128 ? 128 : n;
    free(s->symbol);
    free(s->heap);
    s->room = 0;
    s->symbol = malloc((size_t)room * sizeof *s->symbol);
    s->heap = malloc(3 * (size_t)room * sizeof *s->heap);
    if (!s->symbol || !s->heap)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    s->room = room;
    return OK;
}

static int before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct scratch *s, struct candidate c)
{
    int i = s->heaped++;
    for (; i && before(&c, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = c;
}

static struct candidate pop(struct scratch *s)
{
    struct candidate top = s->heap[0], last = s->heap[--s->heaped];
    int i = 0;
    for (int child; (child = 2 * i + 1) < s->heaped; i = child) {
        if (child + 1 < s->heaped && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* The merge of a symbol with its right neighbour, NULL: none. */
static const struct merge *pair_at(const struct tokenizer *t, int at)
{
    const struct symbol *s = t->scratch->symbol;
    if (at < 0 || s[at].next < 0)
        return NULL;
    const struct merge *m = &t->merge[slot_of(t, s[at].id, s[s[at].next].id)];
    return m->rank < 0 ? NULL : m;
}

static void propose(struct tokenizer *t, int at)
{
    const struct merge *m = pair_at(t, at);
    if (m)
        push(t->scratch, (struct candidate){m->rank, at, m->result});
}

static void join(struct symbol *s, int at, int32_t result)
{
    int right = s[at].next, after = s[right].next;
    s[right].id = -1;
    s[at].id = result;
    s[at].next = after;
    if (after >= 0)
        s[after].previous = at;
}

int tokenizer_merge(struct tokenizer *t, int32_t *id, int *n, struct err *e)
{
    if (make_room(t, *n, e))
        return e->code;
    struct symbol *s = t->scratch->symbol;
    t->scratch->heaped = 0;
    for (int i = 0; i < *n; i++)
        s[i] = (struct symbol){id[i], i - 1, i + 1 < *n ? i + 1 : -1};
    for (int i = 0; i + 1 < *n; i++)
        propose(t, i);
    while (t->scratch->heaped) {
        struct candidate c = pop(t->scratch);
        const struct merge *m = s[c.at].id < 0 ? NULL : pair_at(t, c.at);
        if (!m || m->result != c.result) /* out of date */
            continue;
        join(s, c.at, c.result);
        propose(t, s[c.at].previous);
        propose(t, c.at);
    }
    int to = 0;
    for (int i = *n ? 0 : -1; i >= 0; i = s[i].next)
        id[to++] = s[i].id;
    *n = to;
    return OK;
}
