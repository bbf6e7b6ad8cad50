#include "harness/base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int mapped_open(const char *path, struct mapped *m, struct err *e)
{
    memset(m, 0, sizeof *m);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return FAIL(e, errno == ENOENT ? E_MISSING : E_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    int rc = OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        rc = FAIL(e, E_IO, "%s: not a regular file", path);
        goto out;
    }
    m->bytes = (size_t)st.st_size;
    m->data = "";
    if (!m->bytes)
        goto out;
    void *p = mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        rc = FAIL(e, E_IO, "%s: cannot map %zu bytes: %s", path, m->bytes, strerror(errno));
        memset(m, 0, sizeof *m);
        goto out;
    }
    m->data = p;
    m->owned = 1;
out:
    close(fd);
    return rc;
}

void mapped_close(struct mapped *m)
{
    if (m->owned)
        munmap((void *)(size_t)m->data, m->bytes);
    memset(m, 0, sizeof *m);
}
