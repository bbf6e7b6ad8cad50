/* A run belongs to the process that works on it: byte RUN of the file PATH-runs is locked. The kernel gives the lock
 * back when the process is gone, so that no dead owner stands in the way of the next. */
#include "goldens/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int set_lock(struct store *s, int64_t run, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = run, .l_len = 1};
    return fcntl(s->claims, F_OFD_SETLK, &l);
}

int run_claim(struct store *s, int64_t run, int *mine, struct err *e)
{
    char name[sizeof s->path + 8];
    snprintf(name, sizeof name, "%s-runs", s->path);
    if (!s->claims) {
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return FAIL(e, E_STORE, "%s: %s", name, strerror(errno));
        s->claims = fd;
    }
    *mine = !set_lock(s, run, F_WRLCK);
    if (!*mine && errno != EAGAIN && errno != EACCES)
        return FAIL(e, E_STORE, "%s: cannot lock: %s", name, strerror(errno));
    return OK;
}

void run_release(struct store *s, int64_t run)
{
    if (s->claims)
        set_lock(s, run, F_UNLCK);
}

void run_release_all(struct store *s)
{
    if (s->claims)
        close(s->claims);
    s->claims = 0;
}
