#include "harness/models/folder.h"
#include "harness/models/load.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void append(char *list, size_t size, const char *dir)
{
    char **names;
    int n;
    if (folder_models(dir, &names, &n, NULL))
        return;
    for (int i = 0; i < n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, size - used, "%s%s", used ? ", " : "", names[i]);
    }
    folder_free_names(names, n);
}

int model_find(const char *name, const char *data_dir, const char *cache_dir, char *folder, size_t size, struct err *e)
{
    char shipped[768], fetched[768] = "", list[512] = "";
    snprintf(shipped, sizeof shipped, "%s/batteries/models", data_dir ? data_dir : ".");
    if (cache_dir)
        snprintf(fetched, sizeof fetched, "%s", cache_dir);
    int plain = *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
    const char *dirs[] = {NULL, plain ? shipped : "", plain ? fetched : ""};
    for (int i = 0; i < 3; i++) {
        char path[2048];
        struct stat st;
        if (dirs[i] && !*dirs[i])
            continue;
        if (dirs[i])
            snprintf(path, sizeof path, "%s/%s", dirs[i], name);
        else
            snprintf(path, sizeof path, "%s", name);
        /* a path that was spelt out is taken at its word; what it lacks is said when it is opened */
        int spelt = !plain && !stat(path, &st) && S_ISDIR(st.st_mode);
        if (!*path || (!spelt && !folder_is_model(path)))
            continue;
        if (strlen(path) >= size)
            return FAIL(e, E_INPUT, "%s: the path is too long", path);
        strcpy(folder, path);
        return OK;
    }
    append(list, sizeof list, shipped);
    if (*fetched)
        append(list, sizeof list, fetched);
    return FAIL(e, E_MISSING, "no model \"%.200s\": not a folder with config.json and weights, and not one of: %s",
                name, *list ? list : "(none shipped, none fetched)");
}
