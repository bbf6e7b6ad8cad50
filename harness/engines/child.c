#include "harness/engines/child.h"

#include "harness/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

#define WORDS_KEPT 512 /* bytes of standard error */

struct child {
    pid_t pid;
    int in, out, words; /* its standard input, output, error; -1: closed */
    char *line;
    size_t have, used, room; /* bytes read; of the line that was handed out; of the buffer */
    char last[WORDS_KEPT];
    size_t lasts;
    int reaped, status;
};

extern char **environ;

double child_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Only calls that are safe after fork in a program with threads. A reader of `report` gets errno when exec fails. */
static void become(const struct child_start *s, char *const *env, const int fd[3], int report, int main_thread)
{
    setpgid(0, 0);
    if (s->log && main_thread) /* a server hears of its parent's death; who speaks lines sees its input end */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (int i = 0; i < 3; i++)
        dup2(fd[i], i);
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(s->argv[0], s->argv, env);
    int why = errno;
    (void)!write(report, &why, sizeof why);
    _exit(127);
}

/* The environment with `add` in front: the first of equal names counts for getenv. Caller frees the array alone. */
static char **environment(char *const *add)
{
    size_t old = 0, more = 0, n = 0;
    while (environ && environ[old])
        old++;
    while (add && add[more])
        more++;
    char **env = calloc(old + more + 1, sizeof *env);
    for (size_t i = 0; env && i < more; i++)
        env[n++] = add[i];
    for (size_t i = 0; env && i < old; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        int replaced = 0;
        for (size_t k = 0; k < more; k++)
            replaced |= !strncmp(add[k], environ[i], name);
        if (!replaced)
            env[n++] = environ[i];
    }
    return env;
}

/* theirs: standard input, output, error of the child; ours: the other ends, -1 where a log takes it. */
static int make_ends(const struct child_start *s, int theirs[3], int ours[3], struct err *e)
{
    int pair[2];
    if (s->log) {
        theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        theirs[1] = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        theirs[2] = theirs[1] < 0 ? -1 : fcntl(theirs[1], F_DUPFD_CLOEXEC, 0);
        return theirs[0] < 0 || theirs[2] < 0 ? FAIL(e, E_IO, "%s: %s", s->log, strerror(errno)) : OK;
    }
    for (int i = 0; i < 3; i++) {
        /* A socket as standard input: writing to a dead program is an error, not a signal. */
        if (i ? pipe2(pair, O_CLOEXEC) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            return FAIL(e, E_IO, "cannot make a pipe: %s", strerror(errno));
        theirs[i] = pair[i != 0];
        ours[i] = pair[i == 0];
        fcntl(ours[i], F_SETFL, O_NONBLOCK);
    }
    return OK;
}

int child_start(const struct child_start *s, struct child **out, struct err *e)
{
    int theirs[3] = {-1, -1, -1}, ours[3] = {-1, -1, -1}, report[2] = {-1, -1}, why = 0;
    struct child *c = calloc(1, sizeof *c);
    char **env = environment(s->env);
    if (!c || !env) {
        FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    c->in = c->out = c->words = -1;
    if (make_ends(s, theirs, ours, e))
        goto out;
    if (pipe2(report, O_CLOEXEC)) {
        FAIL(e, E_IO, "cannot make a pipe: %s", strerror(errno));
        goto out;
    }
    int main_thread = gettid() == getpid();
    if ((c->pid = fork()) == 0)
        become(s, env, theirs, report[1], main_thread);
    if (c->pid < 0) {
        FAIL(e, E_IO, "cannot start %s: %s", s->argv[0], strerror(errno));
        goto out;
    }
    setpgid(c->pid, c->pid);
    close_fd(&report[1]);
    if (read(report[0], &why, sizeof why) == sizeof why) {
        waitpid(c->pid, NULL, 0);
        FAIL(e, why == ENOENT ? E_MISSING : E_ENGINE, "cannot start %s: %s", s->argv[0], strerror(why));
        goto out;
    }
    c->in = ours[0], c->out = ours[1], c->words = ours[2];
    ours[0] = ours[1] = ours[2] = -1;
    *out = c;
    c = NULL;
out:
    for (int i = 0; i < 3; i++) {
        close_fd(&theirs[i]);
        close_fd(&ours[i]);
    }
    close_fd(&report[0]);
    close_fd(&report[1]);
    free(env);
    free(c);
    return e->code;
}

static void keep_words(struct child *c, const char *text, size_t n)
{
    if (n >= sizeof c->last) {
        text += n - sizeof c->last;
        n = sizeof c->last;
    }
    if (c->lasts + n > sizeof c->last) {
        size_t drop = c->lasts + n - sizeof c->last;
        memmove(c->last, c->last + drop, c->lasts - drop);
        c->lasts -= drop;
    }
    memcpy(c->last + c->lasts, text, n);
    c->lasts += n;
}

/* Takes what there is on standard error, so that a talkative program never blocks on it. */
static void hear(struct child *c)
{
    char buffer[4096];
    ssize_t n;
    while (c->words >= 0 && (n = read(c->words, buffer, sizeof buffer)) != -1) {
        if (!n)
            close_fd(&c->words);
        else
            keep_words(c, buffer, (size_t)n);
    }
}

int child_alive(struct child *c)
{
    if (!c->reaped && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
        c->reaped = 1;
    return !c->reaped;
}

/* The last line that says something, made harmless. */
static void last_words(const struct child *c, char *out, size_t size)
{
    size_t end = c->lasts, start, at = 0;
    while (end && (c->last[end - 1] == '\n' || c->last[end - 1] == ' '))
        end--;
    for (start = end; start && c->last[start - 1] != '\n';)
        start--;
    while (start < end) {
        char unit[UTF8_UNIT_SIZE];
        start += utf8_visible(c->last + start, end - start, 0, unit);
        if (at + strlen(unit) + 1 >= size)
            break;
        at += (size_t)snprintf(out + at, size - at, "%s", unit);
    }
    out[at] = 0;
}

void child_fate(struct child *c, char *out, size_t size)
{
    char words[200];
    double until = child_clock() + 0.5; /* its output may end a moment before it does */
    while (child_alive(c) && child_clock() < until)
        usleep(2000);
    hear(c);
    last_words(c, words, sizeof words);
    const char *says = *words ? "; it said: " : "";
    if (!c->reaped)
        snprintf(out, size, "it closed its output%s%s", says, words);
    else if (WIFSIGNALED(c->status))
        snprintf(out, size, "signal %d (%s)%s%s", WTERMSIG(c->status), strsignal(WTERMSIG(c->status)), says, words);
    else
        snprintf(out, size, "exit status %d%s%s", WEXITSTATUS(c->status), says, words);
}

static int gone(struct child *c, const char *while_doing, struct err *e)
{
    char fate[300];
    child_fate(c, fate, sizeof fate);
    return FAIL(e, E_ENGINE, "the program ended %s: %s", while_doing, fate);
}

/* Waits until fd is ready or something is on standard error; E_ENGINE when the deadline passes. */
static int wait_for(struct child *c, int fd, short events, double deadline, const char *what, struct err *e)
{
    for (;;) {
        struct pollfd p[2] = {{fd, events, 0}, {c->words, POLLIN, 0}};
        double left = deadline - child_clock();
        if (left <= 0)
            return FAIL(e, E_ENGINE, "no %s within its time limit", what);
        int n = poll(p, c->words >= 0 ? 2 : 1, left > 60 ? 60000 : (int)(left * 1000) + 1);
        if (n < 0 && errno != EINTR)
            return FAIL(e, E_IO, "poll: %s", strerror(errno));
        if (n > 0 && c->words >= 0 && p[1].revents)
            hear(c);
        if (n > 0 && p[0].revents)
            return OK;
    }
}

int child_send(struct child *c, const char *text, size_t n, double deadline, struct err *e)
{
    while (n) {
        ssize_t k = send(c->in, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EAGAIN && errno != EINTR)
            return gone(c, "before it read its request", e);
        if (k < 0 && wait_for(c, c->in, POLLOUT, deadline, "reading of the request", e))
            return e->code;
        text += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return OK;
}

static int grow(struct child *c, size_t limit, struct err *e)
{
    if (c->have >= limit)
        return FAIL(e, E_ENGINE, "its answer is longer than %zu bytes", limit);
    if (c->have + 65536 < c->room)
        return OK;
    size_t room = c->room ? 2 * c->room : 1 << 17;
    char *more = realloc(c->line, room);
    if (!more)
        return FAIL(e, E_NOMEM, "out of memory for a line of %zu bytes", c->have);
    c->line = more;
    c->room = room;
    return OK;
}

int child_line(struct child *c, size_t limit, double deadline, char **line, size_t *n, struct err *e)
{
    size_t looked = 0;
    if (c->used)
        memmove(c->line, c->line + c->used, c->have - c->used);
    c->have -= c->used;
    c->used = 0;
    for (;;) {
        char *end = c->have > looked ? memchr(c->line + looked, '\n', c->have - looked) : NULL;
        if (end) {
            *line = c->line;
            *n = (size_t)(end - c->line);
            *end = 0;
            c->used = *n + 1;
            return OK;
        }
        looked = c->have;
        if (grow(c, limit, e))
            return e->code;
        ssize_t k = read(c->out, c->line + c->have, c->room - c->have - 1);
        if (k == 0)
            return gone(c, c->have ? "in the middle of its answer" : "before it answered", e);
        if (k < 0 && errno != EAGAIN && errno != EINTR)
            return FAIL(e, E_IO, "read: %s", strerror(errno));
        if (k < 0 && wait_for(c, c->out, POLLIN, deadline, "answer", e))
            return e->code;
        c->have += k > 0 ? (size_t)k : 0;
    }
}

static int ended_within(struct child *c, double seconds)
{
    double until = child_clock() + seconds;
    while (child_alive(c)) {
        hear(c);
        if (child_clock() > until)
            return 0;
        usleep(2000);
    }
    return 1;
}

void child_terminate(struct child *c)
{
    kill(-c->pid, SIGTERM);
}

void child_stop(struct child *c, double grace)
{
    if (!c)
        return;
    close_fd(&c->in);
    if (!ended_within(c, grace)) {
        kill(-c->pid, SIGTERM);
        ended_within(c, 1.0);
    }
    kill(-c->pid, SIGKILL); /* whatever it has left behind, too */
    if (!c->reaped)
        waitpid(c->pid, &c->status, 0);
    close_fd(&c->out);
    close_fd(&c->words);
    free(c->line);
    free(c);
}

int words_split(const char *command, char ***words, int *n, struct err *e)
{
    wordexp_t w;
    static const char *const why[] = {[WRDE_BADCHAR] = "one of | & ; < > ( ) { } or a newline stands outside quotes",
                                      [WRDE_CMDSUB] = "command substitution",
                                      [WRDE_SYNTAX] = "a quote or bracket is not closed"};
    int rc = wordexp(command, &w, WRDE_NOCMD);
    *words = NULL;
    if (rc)
        return FAIL(e, rc == WRDE_NOSPACE ? E_NOMEM : E_USAGE, "command \"%.200s\": %s", command,
                    rc < (int)(sizeof why / sizeof *why) && why[rc] ? why[rc] : "it cannot be split into words");
    if (!(*words = calloc(w.we_wordc + 1, sizeof **words)))
        FAIL(e, E_NOMEM, "out of memory");
    for (size_t i = 0; *words && i < w.we_wordc && !e->code; i++)
        if (!((*words)[i] = strdup(w.we_wordv[i])))
            FAIL(e, E_NOMEM, "out of memory");
    *n = (int)w.we_wordc;
    wordfree(&w);
    if (!e->code && !*n)
        FAIL(e, E_USAGE, "the command is empty");
    return e->code;
}

void words_free(char **words)
{
    for (int i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}
