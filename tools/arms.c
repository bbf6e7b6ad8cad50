#include "tools/arms.h"

#include <stdlib.h>
#include <string.h>

/* argv[i] as the name after --arm: "--arm E" or "--arm=E"; *words is how many it takes. NULL: it is no arm. */
static const char *name_of(int argc, char **argv, int i, int *words)
{
    *words = 1;
    if (!strncmp(argv[i], "--arm=", 6))
        return argv[i] + 6;
    if (strcmp(argv[i], "--arm"))
        return NULL;
    *words = 2;
    return i + 1 < argc && argv[i + 1][0] != '-' ? argv[i + 1] : "";
}

int arms_take(int *argc, char **argv, struct arm_words arm[ARMS_MAX], struct err *e)
{
    int n = 0, kept = 0, taken = 0, words;
    char **rest = calloc((size_t)*argc + 1, sizeof *rest), **own = calloc((size_t)*argc + 1, sizeof *own);
    int start[ARMS_MAX] = {0};
    for (int i = 0; rest && own && i < *argc; i += words) {
        const char *name = name_of(*argc, argv, i, &words);
        if (!name) {
            rest[kept++] = argv[i];
            continue;
        }
        if (!*name || n == ARMS_MAX) {
            FAIL(e, E_USAGE, *name ? "--arm %s: at most two arms are compared" : "--arm%s: an engine is needed", name);
            break;
        }
        arm[n] = (struct arm_words){.engine = name};
        start[n] = taken;
        while (i + words < *argc && argv[i + words][0] != '-' && strchr(argv[i + words], '=')) {
            own[taken++] = argv[i + words++];
            arm[n].flags++;
        }
        n++;
    }
    if (!rest || !own)
        FAIL(e, E_NOMEM, "out of memory");
    if (!e->code) { /* the rest, a NULL, then the flags: no longer than it was, an arm's name left it */
        memcpy(argv, rest, (size_t)kept * sizeof *argv);
        memcpy(argv + kept, own, (size_t)taken * sizeof *argv);
        for (int i = 0; i < n; i++)
            arm[i].flag = argv + kept + start[i];
        *argc = kept;
    }
    free(rest);
    free(own);
    return e->code ? -1 : n;
}
