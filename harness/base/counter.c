#include "harness/base/counter.h"

#include <string.h>

static int find(const struct counter *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return i;
    return n;
}

int counters_add(struct counter *sum, int n, int max, const struct counter *add, int adds)
{
    for (int i = 0; i < adds; i++) {
        int at = find(sum, n, add[i].name);
        if (at == n && n < max) {
            sum[n++] = add[i];
        } else if (at < n) {
            int known = sum[at].expected >= 0 && add[i].expected >= 0;
            sum[at].ran += add[i].ran;
            sum[at].expected = known ? sum[at].expected + add[i].expected : -1;
        }
    }
    return n;
}

int counters_since(const struct counter *now, int now_n, const struct counter *before, int before_n,
                   struct counter *out)
{
    for (int i = 0; i < now_n; i++) {
        int at = find(before, before_n, now[i].name);
        out[i] = now[i];
        if (at == before_n)
            continue;
        out[i].ran -= before[at].ran;
        if (now[i].expected >= 0 && before[at].expected >= 0)
            out[i].expected -= before[at].expected;
    }
    return now_n;
}
