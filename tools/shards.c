#include "tools/shards.h"

#include "harness/base/team.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int shard_gather(const struct session *s, struct store *store, struct shard shard, int fresh,
                 void (*progress)(void *, int done, int total), void *arg, struct run_result *r, struct err *e)
{
    char name[32];
    struct battery part;
    struct run_options o = {.store = store,
                            .engine = s->engine,
                            .golden = s->golden,
                            .golden_sha256 = s->golden_sha256,
                            .battery = &part,
                            .model = s->model,
                            .model_sha256 = s->model_sha256,
                            .commit = s->build,
                            .fresh = fresh,
                            .progress = progress,
                            .arg = arg};
    snprintf(name, sizeof name, "%d/%d", shard.i, shard.n);
    memset(r, 0, sizeof *r);
    /* The merge wants to know what was asked for. */
    int rc = store_battery_put(store, s->battery, e);
    if (rc || (rc = shard_cut(s->battery, shard, &part, e)))
        return rc;
    rc = run_shard(&o, name, r, e);
    free(part.prompt);
    return rc;
}

/* --- several processes --- */

/* What a worker tells; in memory that it shares with the parent. */
struct told {
    int done, total;
    struct err err;
};

struct worker {
    pid_t pid;
    struct told *told;
    char store[700];
};

static void tell(void *arg, int done, int total)
{
    struct told *told = arg;
    __atomic_store_n(&told->total, total, __ATOMIC_RELAXED);
    __atomic_store_n(&told->done, done, __ATOMIC_RELAXED);
}

/* In the child: goldens come from the common store, answers go to the shard's. */
static int work(const struct tool *t, const struct jobs *j, int i, const struct worker *w)
{
    struct session s = {0};
    struct session_spec spec = *j->spec;
    struct store *common = NULL, *own = NULL;
    struct run_result r = {0};
    struct err *e = &w->told->err;
    int cpus = spec.threads > 0 ? spec.threads : team_cpus();
    spec.threads = cpus / j->jobs > 0 ? cpus / j->jobs : 1;
    spec.witness = NULL; /* judges, answers nothing */
    if (!store_open(t->store_path, &common, e) && !store_open(w->store, &own, e) &&
        !session_open(t, common, &spec, &s, e))
        shard_gather(&s, own, (struct shard){i + 1, j->jobs}, j->fresh, tell, w->told, &r, e);
    run_result_free(&r);
    session_close(&s);
    store_close(own);
    store_close(common);
    return e->code;
}

static int start(const struct tool *t, const struct jobs *j, struct worker *w, struct err *e)
{
    fflush(NULL);
    pid_t parent = getpid();
    for (int i = 0; i < j->jobs; i++) {
        snprintf(w[i].store, sizeof w[i].store, "%s/%d-of-%d.db", j->folder, i + 1, j->jobs);
        w[i].pid = fork();
        if (w[i].pid < 0)
            return FAIL(e, E_IO, "cannot start process %d of %d: %s", i + 1, j->jobs, strerror(errno));
        if (w[i].pid)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* workers do not outlive who waits for them */
        _exit(getppid() == parent ? work(t, j, i, &w[i]) : 0);
    }
    return OK;
}

/* "8 workers  3/4 2/4 ...": the sum comes behind it. */
static void show(const struct tool *t, const struct jobs *j, const struct worker *w)
{
    char line[160];
    int done = 0, total = 0;
    size_t n = (size_t)snprintf(line, sizeof line, "%d workers ", j->jobs);
    for (int i = 0; i < j->jobs; i++) {
        int d = __atomic_load_n(&w[i].told->done, __ATOMIC_RELAXED),
            all = __atomic_load_n(&w[i].told->total, __ATOMIC_RELAXED);
        done += d, total += all;
        if (n + 30 < sizeof line)
            n += (size_t)snprintf(line + n, sizeof line - n, " %d/%d", d, all);
    }
    tool_progress(t, line, done, total > done ? total : done + 1);
}

/* A worker that was killed told nothing. */
static void end(const struct jobs *j, struct worker *w, int i, int status, struct err *e)
{
    w[i].pid = 0;
    if (w[i].told->err.code)
        FAIL(e, w[i].told->err.code, "worker %d of %d: %.600s", i + 1, j->jobs, w[i].told->err.text);
    else if (WIFSIGNALED(status))
        FAIL(e, E_ENGINE, "worker %d of %d was killed by signal %d (%s); the same command goes on", i + 1, j->jobs,
             WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (status)
        FAIL(e, E_INTERNAL, "worker %d of %d ended with status %d and no reason", i + 1, j->jobs, WEXITSTATUS(status));
}

static void wait_for_all(const struct tool *t, const struct jobs *j, struct worker *w, struct err *e)
{
    int left = j->jobs, status;
    while (left) {
        left = 0;
        for (int i = 0; i < j->jobs; i++) {
            if (w[i].pid > 0 && waitpid(w[i].pid, &status, WNOHANG) == w[i].pid)
                end(j, w, i, status, e);
            left += w[i].pid > 0;
        }
        show(t, j, w);
        if (left)
            usleep(20000);
    }
    tool_progress(t, "", 1, 1);
}

/* What is run, as a few digits: the next call finds what this one leaves. */
static int name_of(const struct session_spec *s, char name[13], struct err *e)
{
    const char *part[] = {s->engine, s->model, s->battery, s->golden ? s->golden : ""};
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE], build[SHA256_HEX_SIZE];
    int rc = sha256_file("/proc/self/exe", build, e);
    if (rc)
        return rc;
    struct sha256 *h = sha256_new();
    for (int i = 0; i < 4; i++)
        sha256_add(h, part[i], strlen(part[i]) + 1);
    for (int i = 0; i < s->flags; i++)
        sha256_add(h, s->flag[i], strlen(s->flag[i]) + 1);
    sha256_add(h, build, strlen(build));
    sha256_end(h, hash);
    sha256_hex(hash, hex);
    snprintf(name, 13, "%.12s", hex);
    return OK;
}

/* 1: the folder is ours until all our processes have ended; 0: somebody else's; -1: an error. */
static int lock_folder(struct jobs *j, struct err *e)
{
    char path[640];
    struct stat ours, there;
    if (mkdir(j->folder, 0755) && errno != EEXIST)
        return FAIL(e, E_STORE, "%s: cannot make the folder: %s", j->folder, strerror(errno)), -1;
    snprintf(path, sizeof path, "%s/lock", j->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return FAIL(e, E_STORE, "%s: %s", path, strerror(errno)), -1;
    int mine = !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &ours) && !stat(path, &there) && ours.st_ino == there.st_ino;
    if (mine)
        j->lock = fd;
    else
        close(fd);
    return mine;
}

/* One folder a kind of run; a second process that runs the same at the same time takes the next. What somebody has left
 * is taken up before a new folder is made. */
static int make_folder(const struct tool *t, struct jobs *j, struct err *e)
{
    char name[13];
    int mine = 0, rc = name_of(j->spec, name, e);
    for (int i = 0; !rc && !mine && i < 2 * 64; i++) {
        snprintf(j->folder, sizeof j->folder, "%s-jobs-%s-%d", t->store_path, name, i % 64 + 1);
        if (i >= 64 || !access(j->folder, F_OK))
            mine = lock_folder(j, e);
    }
    if (!rc && !mine)
        rc = FAIL(e, E_STORE, "%s: all folders up to this one are in use", j->folder);
    return mine < 0 ? e->code : rc;
}

static int merge(const struct tool *t, const struct jobs *j, const struct worker *w, struct err *e)
{
    const char **path = calloc((size_t)j->jobs, sizeof *path);
    struct store *s = NULL;
    json_t *report = NULL;
    if (!path)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < j->jobs; i++)
        path[i] = w[i].store;
    int rc = store_open(t->store_path, &s, e);
    if (!rc)
        rc = store_merge(s, path, j->jobs, j->fresh ? MERGE_NEW : MERGE_UNFINISHED, NULL, NULL, &report, e);
    const char *first = json_string_value(json_array_get(json_object_get(report, "conflicts"), 0));
    if (!rc && first)
        rc = FAIL(e, E_VOID, "the shards disagree (--fresh starts over): %s", first);
    json_decref(report);
    store_close(s);
    free(path);
    return rc;
}

static void remove_stores(const struct jobs *j)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-runs"};
    for (int i = 1; i <= j->jobs; i++)
        for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
            char path[700];
            snprintf(path, sizeof path, "%s/%d-of-%d.db%s", j->folder, i, j->jobs, tails[k]);
            unlink(path);
        }
}

int jobs_gather(const struct tool *t, struct jobs *j, struct err *e)
{
    size_t bytes = (size_t)j->jobs * sizeof(struct told);
    struct worker *w = calloc((size_t)j->jobs, sizeof *w);
    struct told *told = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!w || told == MAP_FAILED) {
        FAIL(e, E_NOMEM, "out of memory for %d workers", j->jobs);
        goto out;
    }
    for (int i = 0; i < j->jobs; i++)
        w[i].told = &told[i];
    if (make_folder(t, j, e))
        goto out;
    if (j->fresh)
        remove_stores(j);
    start(t, j, w, e);
    wait_for_all(t, j, w, e);
    if (!e->code)
        merge(t, j, w, e);
out:
    if (told != MAP_FAILED)
        munmap(told, bytes);
    free(w);
    return e->code;
}

void jobs_clear(struct jobs *j)
{
    char path[640];
    remove_stores(j);
    snprintf(path, sizeof path, "%s/lock", j->folder);
    unlink(path);
    rmdir(j->folder); /* stays when another number of workers has left something */
    close(j->lock);
}
