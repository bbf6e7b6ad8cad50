#include "harness/engine.h"

#include <stdlib.h>
#include <string.h>

const struct engine_ops *engine_find(const char *spec)
{
    size_t n = strcspn(spec, ":");
    for (int i = 0; engine_all[i]; i++)
        if (strlen(engine_all[i]->name) == n && !strncmp(engine_all[i]->name, spec, n))
            return engine_all[i];
    return NULL;
}

static int unknown_engine(const char *spec, struct err *e)
{
    char names[256] = "";
    for (int i = 0; engine_all[i]; i++) {
        strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, engine_all[i]->name, sizeof names - strlen(names) - 1);
    }
    return FAIL(e, E_USAGE, "no engine \"%s\"; there are: %s", spec, names);
}

int engine_open_spec(const char *spec, char *const *words, int n, const struct model *m, const char *data_dir,
                     int threads, struct engine **out, struct err *e)
{
    const struct engine_ops *ops = engine_find(spec);
    if (!ops)
        return unknown_engine(spec, e);
    if (ops->needs_model && !m)
        return FAIL(e, E_USAGE, "engine %s needs --model", ops->name);
    int rc = OK;
    char *copy[64];
    struct engine_flag flag[64];
    if (n > 64)
        return FAIL(e, E_USAGE, "%d flags; 64 at most", n);
    for (int i = 0; i < n; i++) {
        copy[i] = strdup(words[i]);
        char *eq = copy[i] ? strchr(copy[i], '=') : NULL;
        if (!eq || eq == copy[i])
            rc = FAIL(e, E_USAGE, "\"%s\" is not flag=value; %s takes: %s", words[i], ops->name, ops->flag_help);
        else
            *eq = 0;
        flag[i] = (struct engine_flag){copy[i], eq ? eq + 1 : ""};
    }
    const char *rest = strchr(spec, ':');
    struct engine_open o = {rest ? rest + 1 : "", flag, n, m, data_dir, threads};
    if (rc == OK)
        rc = ops->open(&o, out, e);
    for (int i = 0; i < n; i++)
        free(copy[i]);
    return rc;
}
