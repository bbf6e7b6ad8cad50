#include "harness/models/stage.h"

#include "harness/base/mapped.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

void stage_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int stage_parents(const char *path, struct err *e)
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
    int rc = stage_parents(s->path, e);
    if (rc)
        return rc;
    stage_remove(s->path);
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
        stage_remove(s->path);
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
