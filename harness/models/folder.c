#include "harness/models/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct model_file *)a)->name, ((const struct model_file *)b)->name);
}

static int add_file(const char *folder, const char *name, struct model_file **file, int *files, struct err *e)
{
    char path[1024];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return OK;
    struct model_file *more = realloc(*file, ((size_t)*files + 1) * sizeof *more);
    if (!more)
        return FAIL(e, E_NOMEM, "%s: out of memory", folder);
    *file = more;
    struct model_file *f = &more[*files];
    if (strlen(name) >= sizeof f->name)
        return FAIL(e, E_INPUT, "%s: the name of a file is longer than %zu bytes: \"%.140s\"", folder,
                    sizeof f->name - 1, name);
    strcpy(f->name, name);
    ++*files;
    return sha256_file(path, f->sha256, e);
}

int folder_hash(const char *folder, struct model_file **file, int *files, struct err *e)
{
    int rc = OK;
    DIR *d = opendir(folder);
    *file = NULL;
    *files = 0;
    if (!d)
        return FAIL(e, errno == ENOENT ? E_MISSING : E_IO, "%s: %s", folder, strerror(errno));
    for (struct dirent *x; rc == OK && (x = readdir(d));)
        rc = add_file(folder, x->d_name, file, files, e);
    closedir(d);
    if (rc) {
        free(*file);
        *file = NULL;
        *files = 0;
    } else if (*files)
        qsort(*file, (size_t)*files, sizeof **file, by_file);
    return rc;
}

int folder_is_model(const char *folder)
{
    char config[1024], weights[1024], index[1024];
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
    return !access(config, F_OK) && (!access(weights, F_OK) || !access(index, F_OK));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int folder_models(const char *dir, char ***names, int *n, struct err *e)
{
    DIR *d = opendir(dir);
    *names = NULL;
    *n = 0;
    if (!d)
        return OK;
    int rc = OK;
    for (struct dirent *x; rc == OK && (x = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, x->d_name);
        if (x->d_name[0] == '.' || !folder_is_model(path))
            continue;
        char **more = realloc(*names, ((size_t)*n + 1) * sizeof *more);
        if (more)
            *names = more;
        if (!more || !(more[*n] = strdup(x->d_name)))
            rc = FAIL(e, E_NOMEM, "%s: out of memory", dir);
        else
            ++*n;
    }
    closedir(d);
    if (*n)
        qsort(*names, (size_t)*n, sizeof **names, by_text);
    if (rc) {
        folder_free_names(*names, *n);
        *names = NULL;
        *n = 0;
    }
    return rc;
}

void folder_free_names(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}
