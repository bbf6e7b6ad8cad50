/* Mirrors that a ratification owes. The note PATH-ratified/.owed is written before the ledger and removed after the
 * last mirror; its lock is held meanwhile. Who finds it without a lock knows that its writer is gone, and pays: so a
 * process that dies between ledger and mirror leaves no store that contradicts its mirror. */
#include "goldens/owed.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void note_of(const struct store *s, char *out, size_t size)
{
    snprintf(out, size, "%s-ratified/.owed", s->path);
}

/* 1: fd is the note that lies there now, and ours. */
static int locked(int fd, const char *path, int wait)
{
    struct stat ours, there;
    return !flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) && !fstat(fd, &ours) && !stat(path, &there) &&
           ours.st_ino == there.st_ino;
}

int owed_note(struct store *s, const char *folder, int *fd, struct err *e)
{
    char path[1200], where[4096] = "";
    snprintf(path, sizeof path, "%s-ratified", s->path);
    if (mkdir(path, 0755) && errno != EEXIST)
        return FAIL(e, E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    if (folder && ((mkdir(folder, 0755) && errno != EEXIST) || !realpath(folder, where)))
        return FAIL(e, E_IO, "%s: cannot make the folder: %s", folder, strerror(errno));
    note_of(s, path, sizeof path);
    do {
        if ((*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0)
            return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    } while (!locked(*fd, path, 1) && !close(*fd));
    size_t n = strlen(where);
    if (ftruncate(*fd, 0) || pwrite(*fd, where, n, 0) != (ssize_t)n || fsync(*fd)) {
        FAIL(e, E_IO, "%s: %s", path, strerror(errno));
        close(*fd);
    }
    return e->code;
}

void owed_forget(struct store *s, int fd)
{
    char path[1200];
    note_of(s, path, sizeof path);
    unlink(path);
    close(fd);
}

int owed_pay(struct store *s, const char *folder, int fd, int *files, struct err *e)
{
    int rc = store_mirror_write(s, NULL, files, e);
    if (!rc && folder)
        rc = store_mirror_write(s, folder, files, e);
    if (rc)
        close(fd); /* it stays owed */
    else
        owed_forget(s, fd);
    return rc;
}

/* NAME.txt.PID.part: what a writer that was killed left behind. */
static int is_part(const char *name)
{
    const char *p = strstr(name, ".txt.");
    if (!p)
        return 0;
    for (p += 5; isdigit((unsigned char)*p); p++) {
    }
    return !strcmp(p, ".part");
}

static void clear_parts(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *f;
    while (d && (f = readdir(d)))
        if (is_part(f->d_name))
            unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
}

void owed_settle(struct store *s)
{
    char path[1200], folder[4097];
    struct err none = {0};
    int files;
    note_of(s, path, sizeof path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = locked(fd, path, 0) ? pread(fd, folder, sizeof folder - 1, 0) : -1;
    if (n < 0) {
        close(fd);
        return;
    }
    folder[n] = 0;
    if (n)
        clear_parts(folder);
    path[strlen(path) - strlen("/.owed")] = 0;
    clear_parts(path);
    owed_pay(s, n ? folder : NULL, fd, &files, &none);
}
