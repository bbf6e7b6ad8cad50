/* Atomic adds come in any order: the set of 16-bit sums that some order gives. */
#include "kernels/scalar/scalar.h"

static void put(uint16_t x, uint16_t *out, int max, int *n)
{
    for (int i = 0; i < *n && i < max; i++)
        if (out[i] == x)
            return;
    if (*n < max)
        out[*n] = x;
    if (*n <= max)
        ++*n;
}

static void walk(const uint16_t *value, int count, unsigned used, uint16_t sum, enum activation act, uint16_t *out,
                 int max, int *n)
{
    if (used == (1u << count) - 1) {
        put(sum, out, max, n);
        return;
    }
    for (int i = 0; i < count; i++)
        if (!(used >> i & 1))
            walk(value, count, used | 1u << i, scalar_add(sum, value[i], act), act, out, max, n);
}

int scalar_atomic_set(const uint16_t *value, int count, enum activation act, uint16_t *out, int max)
{
    int n = 0;
    walk(value, count, 0, 0, act, out, max, &n);
    return n > max ? -1 : n;
}
