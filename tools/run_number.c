#include "tools/run_text.h"

#include <stdlib.h>

int run_number(int n, char **words, int at, int most, int64_t *run, struct err *e)
{
    *run = 0;
    if (n > most)
        return FAIL(e, E_USAGE, "unexpected word \"%s\"", words[most]);
    if (at >= n)
        return OK;
    char *end;
    long long v = strtoll(words[at], &end, 10);
    if (!*words[at] || *end || v < 1)
        return FAIL(e, E_USAGE, "\"%s\" is not the number of a run; `assay list` shows them", words[at]);
    *run = v;
    return OK;
}
