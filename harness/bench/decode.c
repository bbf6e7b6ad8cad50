#include "harness/bench/decode.h"

#include "harness/base/sha256.h"
#include "harness/base/team.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct order { /* parent to child; size 0: the end */
    int size;
};

struct told { /* child to parent */
    int code;
    char text[256], arm[256];
    double wall, cpu;
    int64_t tokens, weight_bytes, memory_bytes;
    int golden; /* ids of the first sequence are the oracle's as far as both go; -1: not compared */
    uint8_t ids[SHA256_BYTES];
};

struct worker {
    pid_t pid;
    int to, from;
    char arm[256];
    int64_t memory, weights;
};

struct cell { /* of one arm and size */
    double rate[DECODE_RUNS], foreign;
    int stable, golden;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int move(int fd, void *data, size_t n, int writing)
{
    char *p = data;
    while (n) {
        ssize_t k = writing ? write(fd, p, n) : read(fd, p, n);
        if (k <= 0 && !(k < 0 && errno == EINTR))
            return 0;
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return 1;
}

/* Largest resident set so far. */
static int64_t peak_bytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (int64_t)u.ru_maxrss * 1024;
}

static int golden_agrees(const struct decode_spec *s, const struct stream *a)
{
    const struct golden_prompt *p = s->golden ? golden_find(s->golden, s->battery->prompt[0].name) : NULL;
    int n = p ? (p->n < a->n ? p->n : a->n) : 0;
    return n ? !memcmp(p->ids, a->ids, (size_t)n * sizeof *p->ids) : -1;
}

static void answer(const struct decode_spec *s, struct engine *g, int size, struct told *t, struct err *e)
{
    struct sequence seq[64];
    struct stream out[64];
    memset(out, 0, sizeof out);
    for (int i = 0; i < size; i++) {
        const struct battery_prompt *p = &s->battery->prompt[i % s->battery->prompts];
        seq[i] = (struct sequence){.name = p->name, .prompt = p->ids, .prompts = p->n};
    }
    struct engine_request q = {.mode = MODE_GENERATE, .seq = seq, .seqs = size, .max_new = s->tokens};
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    int rc = g->ops->answer(g, 0, &q, out, e);
    t->wall = seconds(CLOCK_MONOTONIC) - wall;
    t->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    t->tokens = 0;
    struct sha256 *h = sha256_new();
    for (int i = 0; i < size && !rc; i++) {
        sha256_add(h, out[i].ids, (size_t)out[i].n * sizeof *out[i].ids);
        t->tokens += out[i].n;
    }
    sha256_end(h, t->ids);
    t->golden = rc ? -1 : golden_agrees(s, &out[0]);
    for (int i = 0; i < size; i++)
        stream_free(&out[i]);
}

static void child(const struct decode_spec *s, const struct decode_arm *a, int in, int out)
{
    struct err e = {0};
    struct engine *g = NULL;
    struct order o = {1};
    int64_t before = peak_bytes();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* none outlives a parent that is killed */
    signal(SIGPIPE, SIG_IGN);
    engine_open_spec(s->engine, a->words, a->n, s->model, s->data_dir, s->threads, &g, &e);
    for (int first = 1; o.size; first = 0) {
        struct told t = {.golden = -1};
        if (!first && !e.code)
            answer(s, g, o.size, &t, &e);
        if (g) {
            snprintf(t.arm, sizeof t.arm, "%s", g->arm);
            t.weight_bytes = json_integer_value(json_object_get(g->build, "weight_bytes"));
        }
        t.memory_bytes = peak_bytes() - before;
        t.code = e.code;
        snprintf(t.text, sizeof t.text, "%.255s", e.text);
        if (!move(out, &t, sizeof t, 1) || !move(in, &o, sizeof o, 0))
            break; /* the parent is gone */
    }
    _exit(0);
}

static int hear(struct worker *w, struct told *t, struct err *e)
{
    if (!move(w->from, t, sizeof *t, 0))
        return FAIL(e, E_ENGINE, "%s: its process died", *w->arm ? w->arm : "an arm");
    if (t->code)
        return FAIL(e, t->code, "%s", t->text);
    snprintf(w->arm, sizeof w->arm, "%s", t->arm);
    w->memory = t->memory_bytes;
    w->weights = t->weight_bytes;
    return OK;
}

static int start(const struct decode_spec *s, const struct decode_arm *a, struct worker *w, struct err *e)
{
    int down[2], up[2];
    struct told hello;
    if (pipe(down))
        return FAIL(e, E_IO, "no pipe: %s", strerror(errno));
    if (pipe(up)) {
        close(down[0]), close(down[1]);
        return FAIL(e, E_IO, "no pipe: %s", strerror(errno));
    }
    fflush(NULL);
    w->pid = fork();
    if (!w->pid) {
        close(down[1]), close(up[0]);
        child(s, a, down[0], up[1]);
    }
    close(down[0]), close(up[1]);
    w->to = down[1];
    w->from = up[0];
    return w->pid < 0 ? FAIL(e, E_IO, "no process: %s", strerror(errno)) : hear(w, &hello, e);
}

/* A later arm's process holds a copy of this pipe, so that closing it would not end the reader. */
static void stop(struct worker *w)
{
    struct order end = {0};
    if (w->to > 0) {
        move(w->to, &end, sizeof end, 1);
        close(w->to);
    }
    if (w->from > 0)
        close(w->from);
    if (w->pid > 0)
        waitpid(w->pid, NULL, 0);
}

/* Seconds of CPU that all processes used since the machine started, idle and waiting left out, stolen ones counted. */
static double machine_busy(void)
{
    double v[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    int n =
        f ? fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) : 0;
    if (f)
        fclose(f);
    return n == 8 ? (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / (double)sysconf(_SC_CLK_TCK) : -1;
}

static int ask(struct worker *w, int size, struct told *t, double *foreign, struct err *e)
{
    struct order o = {size};
    double busy = machine_busy();
    if (!move(w->to, &o, sizeof o, 1))
        return FAIL(e, E_ENGINE, "%s: its process died", w->arm);
    if (hear(w, t, e))
        return e->code;
    double all = t->wall * (double)sysconf(_SC_NPROCESSORS_ONLN);
    *foreign = busy < 0 || !(all > 0) ? 0 : (machine_busy() - busy - t->cpu) / all;
    *foreign = *foreign > 0 ? *foreign : 0;
    return OK;
}

static int measure_size(const struct decode_spec *s, struct worker *w, int size, struct cell *cell, struct err *e)
{
    uint8_t first[DECODE_ARMS][SHA256_BYTES];
    struct told t;
    double foreign;
    for (int a = 0; a < s->arms; a++) { /* untimed: caches fill, and the tokens to compare with */
        if (ask(&w[a], size, &t, &foreign, e))
            return e->code;
        memcpy(first[a], t.ids, sizeof t.ids);
        cell[a].stable = 1;
        cell[a].golden = t.golden;
    }
    for (int r = 0; r < s->runs; r++)
        for (int k = 0; k < s->arms; k++) {
            int a = r % 2 ? s->arms - 1 - k : k;
            if (ask(&w[a], size, &t, &foreign, e))
                return e->code;
            cell[a].stable &= !memcmp(first[a], t.ids, sizeof t.ids);
            cell[a].rate[r] = (double)t.tokens / (s->cpu_clock ? t.cpu : t.wall);
            cell[a].foreign = foreign > cell[a].foreign ? foreign : cell[a].foreign;
        }
    return OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *x, int n)
{
    double y[DECODE_RUNS];
    memcpy(y, x, (size_t)n * sizeof *y);
    qsort(y, (size_t)n, sizeof *y, ascending);
    return n % 2 ? y[n / 2] : (y[n / 2 - 1] + y[n / 2]) / 2;
}

double bench_spread(const double *x, int n)
{
    double low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    return (high - low) / bench_median(x, n);
}

static void add_rows(const struct decode_spec *s, int size, const struct cell *cell, json_t *rows, char *why, size_t n)
{
    static const char *const golden[] = {"not compared", "other tokens", "the golden's tokens"};
    for (int a = 0; a < s->arms; a++) {
        double m = bench_median(cell[a].rate, s->runs), spread = bench_spread(cell[a].rate, s->runs);
        json_array_append_new(rows, json_pack("{s:s,s:i,s:f,s:f,s:f,s:b,s:s,s:f}", "label", s->arm[a].label, "size",
                                              size, "tokens_s", m, "spread", spread, "foreign", cell[a].foreign,
                                              "tokens_stable", cell[a].stable, "golden", golden[cell[a].golden + 1],
                                              "ratio", m / bench_median(cell[0].rate, s->runs)));
        if (*why)
            continue;
        if (!s->cpu_clock && cell[a].foreign > s->max_foreign)
            snprintf(why, n, "c%d, %s: %.0f%% of the machine's CPU time went to others (%.0f%% allowed)", size,
                     s->arm[a].label, 100 * cell[a].foreign, 100 * s->max_foreign);
        else if (spread > s->max_spread)
            snprintf(why, n, "c%d, %s: runs spread by %.0f%% (%.0f%% allowed)", size, s->arm[a].label, 100 * spread,
                     100 * s->max_spread);
    }
}

int bench_decode(const struct decode_spec *s, json_t **report, struct err *e)
{
    struct worker w[DECODE_ARMS] = {{0}};
    char why[256] = "";
    json_t *rows = json_array(), *arms = json_array();
    if (s->arms < 1 || s->arms > DECODE_ARMS || s->sizes < 1 || s->sizes > DECODE_SIZES || s->runs < 1 ||
        s->runs > DECODE_RUNS || s->tokens < 1)
        FAIL(e, E_USAGE, "1 to %d arms, 1 to %d sizes, 1 to %d runs, 1 token or more", DECODE_ARMS, DECODE_SIZES,
             DECODE_RUNS);
    for (int a = 0; a < s->arms && !e->code; a++)
        start(s, &s->arm[a], &w[a], e);
    for (int i = 0; i < s->sizes && !e->code; i++) {
        struct cell cell[DECODE_ARMS] = {{{0}, 0, 0, 0}};
        if (s->progress)
            s->progress(s->arg, i, s->sizes);
        if (!measure_size(s, w, s->size[i], cell, e))
            add_rows(s, s->size[i], cell, rows, why, sizeof why);
    }
    if (s->progress)
        s->progress(s->arg, s->sizes, s->sizes);
    for (int a = 0; a < s->arms; a++) {
        json_array_append_new(arms,
                              json_pack("{s:s,s:s,s:I,s:I}", "label", s->arm[a].label, "arm", w[a].arm, "memory_bytes",
                                        (json_int_t)w[a].memory, "weight_bytes", (json_int_t)w[a].weights));
        stop(&w[a]);
    }
    *report = e->code ? NULL
                      : json_pack("{s:s,s:i,s:i,s:O,s:O,s:o}", "clock", s->cpu_clock ? "cpu" : "wall", "runs", s->runs,
                                  "tokens", s->tokens, "arms", arms, "rows", rows, "void",
                                  *why ? json_string(why) : json_null());
    json_decref(rows);
    json_decref(arms);
    return e->code;
}
