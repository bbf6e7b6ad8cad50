#include "kernels/mutant.h"

#include <string.h>

const struct mutant *mutant_find(const char *name)
{
    for (int i = 0; mutant_all[i]; i++)
        if (!strcmp(mutant_all[i]->name, name))
            return mutant_all[i];
    return 0;
}
