/* Preloaded: the process is killed before its KILL_AT-th call that changes a file. Without KILL_AT the calls are
 * counted into KILL_COUNT, a file. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long calls;

static void step(void)
{
    const char *at = getenv("KILL_AT");
    if (++calls == (at ? atol(at) : 0))
        kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void count(void)
{
    const char *name = getenv("KILL_COUNT");
    FILE *f = name ? fopen(name, "w") : NULL;
    if (f) {
        fprintf(f, "%ld\n", calls);
        fclose(f);
    }
}

#define STEP(type, name, parameters, arguments)                                                                        \
    type name parameters                                                                                               \
    {                                                                                                                  \
        static type(*next) parameters;                                                                                 \
        if (!next)                                                                                                     \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                                                 \
        step();                                                                                                        \
        return next arguments;                                                                                         \
    }

STEP(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
STEP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
STEP(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
STEP(int, fsync, (int fd), (fd))
STEP(int, fdatasync, (int fd), (fd))
STEP(int, ftruncate, (int fd, off_t n), (fd, n))
STEP(int, ftruncate64, (int fd, off64_t n), (fd, n))
STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, unlink, (const char *path), (path))
STEP(int, mkdir, (const char *path, mode_t mode), (path, mode))
