#include "harness/run/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int shard_parse(const char *text, struct shard *s, struct err *e)
{
    char tail;
    if (strspn(text, "0123456789/") != strlen(text) || sscanf(text, "%7d/%7d%c", &s->i, &s->n, &tail) != 2 ||
        s->i < 1 || s->n > SHARDS_MAX || s->i > s->n)
        return FAIL(e, E_USAGE, "shard \"%.40s\": I/N with 1 <= I <= N <= %d is expected", text, SHARDS_MAX);
    return OK;
}

/* The first 8 bytes of SHA-256 over the name with its zero, then the ids, little-endian. */
static uint64_t prompt_hash(const struct battery_prompt *p)
{
    uint8_t hash[SHA256_BYTES], id[4];
    uint64_t key = 0;
    struct sha256 *h = sha256_new();
    sha256_add(h, p->name, strlen(p->name) + 1);
    for (int i = 0; i < p->n; i++) {
        for (int b = 0; b < 4; b++)
            id[b] = (uint8_t)((uint32_t)p->ids[i] >> (8 * b));
        sha256_add(h, id, sizeof id);
    }
    sha256_end(h, hash);
    for (int i = 0; i < 8; i++)
        key = key << 8 | hash[i];
    return key;
}

/* Jumps from shard to shard as n grows; the last one below n is the prompt's. Doubles: exact here, n is small. */
int shard_of(const struct battery_prompt *p, int n)
{
    uint64_t key = prompt_hash(p);
    int64_t at = -1, next = 0;
    while (next < n) {
        at = next;
        key = key * 2862933555777941757ULL + 1;
        next = (int64_t)((double)(at + 1) * ((double)(1LL << 31) / (double)((key >> 33) + 1)));
    }
    return (int)at + 1;
}

int shard_cut(const struct battery *b, struct shard s, struct battery *part, struct err *e)
{
    *part = *b;
    part->prompts = 0;
    part->prompt = calloc((size_t)b->prompts + 1, sizeof *part->prompt);
    if (!part->prompt)
        return FAIL(e, E_NOMEM, "out of memory for %d prompts", b->prompts);
    for (int i = 0; i < b->prompts; i++)
        if (!s.n || shard_of(&b->prompt[i], s.n) == s.i)
            part->prompt[part->prompts++] = b->prompt[i];
    return OK;
}
