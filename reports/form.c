#include "reports/form.h"

#include <string.h>

const struct form *form_by_name(const char *name)
{
    for (int i = 0; form_all[i]; i++)
        if (!strcmp(form_all[i]->name, name))
            return form_all[i];
    return NULL;
}

const struct form *form_by_ending(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; form_all[i]; i++) {
        size_t k = strlen(form_all[i]->ending);
        if (n > k && !strcmp(path + n - k, form_all[i]->ending))
            return form_all[i];
    }
    return NULL;
}
