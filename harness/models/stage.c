#include "harness/models/stage.h"

#include "harness/base/mapped.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stages are flat: files only. */
static void remove_folder(const char *path)
{
    DIR *d = opendir(path);
    char file[1200];
    if (!d)
        return;
    for (struct dirent *x; (x = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, x->d_name);
        unlink(file); /* refuses "." and ".." */
    }
    closedir(d);
    rmdir(path);
}

static int make_parents(const char *path, struct err *e)
{
    char part[800];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        if (mkdir(part, 0777) && errno != EEXIST)
            return FAIL(e, E_IO, "%s: %s", part, strerror(errno));
        *p = '/';
    }
    return OK;
}

int stage_open(const char *dst, struct stage *s, struct err *e)
{
    struct stat st;
    size_t n = strlen(dst);
    memset(s, 0, sizeof *s);
    while (n > 1 && dst[n - 1] == '/')
        n--;
    if (!n || n >= sizeof s->final)
        return FAIL(e, E_USAGE, "\"%.200s\" is no name for a folder", dst);
    snprintf(s->final, sizeof s->final, "%.*s", (int)n, dst);
    if (!lstat(s->final, &st))
        return FAIL(e, E_USAGE, "%s: exists already; nothing was written", s->final);
    snprintf(s->path, sizeof s->path, "%s.partial", s->final);
    int rc = make_parents(s->path, e);
    if (rc)
        return rc;
    remove_folder(s->path);
    if (mkdir(s->path, 0777)) {
        rc = FAIL(e, E_IO, "%s: %s", s->path, strerror(errno));
        s->path[0] = 0;
    }
    return rc;
}

int stage_commit(struct stage *s, struct err *e)
{
    if (rename(s->path, s->final))
        return FAIL(e, E_IO, "%s: cannot rename to %s: %s", s->path, s->final, strerror(errno));
    s->path[0] = 0;
    return OK;
}

void stage_abandon(struct stage *s)
{
    if (s->path[0])
        remove_folder(s->path);
    s->path[0] = 0;
}

int stage_write(const struct stage *s, const char *name, const void *data, unsigned long bytes, struct err *e)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", s->path, name);
    FILE *f = fopen(path, "wb");
    int good = f && fwrite(data, 1, bytes, f) == bytes;
    good = f && !fclose(f) && good;
    return good ? OK : FAIL(e, E_IO, "%s: cannot write: %s", path, strerror(errno));
}

int stage_copy(const struct stage *s, const char *from, const char *name, struct err *e)
{
    struct mapped m;
    int rc = mapped_open(from, &m, e);
    if (rc)
        return rc;
    rc = stage_write(s, name, m.data, m.bytes, e);
    mapped_close(&m);
    return rc;
}
