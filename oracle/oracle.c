#include "oracle/oracle.h"

#include <string.h>

const struct oracle_ops *oracle_find(const char *name)
{
    for (int i = 0; oracle_all[i]; i++)
        if (!strcmp(oracle_all[i]->name, name))
            return oracle_all[i];
    return 0;
}
