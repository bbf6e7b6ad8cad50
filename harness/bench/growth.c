#include "harness/bench/growth.h"

#include "goldens/exchange.h"
#include "harness/engine.h"
#include "harness/run/run.h"
#include "harness/run/shard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VOCAB 150000

/* What a measuring process tells; in memory that it shares with its parent. */
struct told {
    int64_t batteries, bytes, memory;
    double seconds, first, last;
    struct err err;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* splitmix64: a value is a function of where it stands. */
static uint64_t value(uint64_t battery, uint64_t prompt, uint64_t at)
{
    uint64_t z = (battery << 44 ^ prompt << 22 ^ at) * 0x9e3779b97f4a7c15ULL + 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* Rows whose largest logit is the emitted id; multiples of 1/16, as bf16 logits of that size are. */
static int make_view(struct golden_prompt *p, uint64_t b, uint64_t i, int top_k, struct view *v, struct err *e)
{
    if (view_alloc(v, p->n, top_k, 0, e))
        return e->code;
    v->kind = VALUE_LOGIT;
    for (int row = 0; row < p->n; row++) {
        double sum = 0;
        for (int k = 0; k < top_k; k++) {
            size_t at = (size_t)row * (size_t)top_k + (size_t)k;
            v->top_ids[at] = k ? (p->ids[row] + k * 7) % VOCAB : p->ids[row];
            v->top_values[at] = (float)(20 - 0.125 * k - (double)(value(b, i, at) % 2) / 16);
            sum += exp(v->top_values[at] - 20);
        }
        v->logsumexp[row] = 20 + log(sum) + 0.5;
    }
    return OK;
}

static int make_prompt(const struct growth_spec *s, uint64_t b, uint64_t i, int tokens, struct golden_prompt *p,
                       struct err *e)
{
    char name[24];
    snprintf(name, sizeof name, "p%06u", (unsigned)i);
    p->name = strdup(name);
    p->prompts = 1;
    p->prompt_ids = malloc(sizeof *p->prompt_ids);
    p->ids = malloc((size_t)tokens * sizeof *p->ids);
    if (!p->name || !p->prompt_ids || !p->ids)
        return FAIL(e, E_NOMEM, "out of memory");
    p->prompt_ids[0] = (int32_t)(value(b, i, 1 << 21) % VOCAB);
    p->n = tokens;
    p->finish = FINISH_LENGTH;
    p->rows_equal = -1;
    for (int t = 0; t < tokens; t++)
        p->ids[t] = (int32_t)(value(b, i, (uint64_t)t) % VOCAB);
    if (!s->top_k)
        return OK;
    return make_view(p, b, i, s->top_k, &p->decode, e) ? e->code : make_view(p, b, i, s->top_k, &p->prefill, e);
}

static json_t *make_header(const struct growth_spec *s, const char *battery)
{
    return json_pack("{s:s,s:s,s:{},s:s,s:s,s:{s:s,s:s},s:i}", "schema", "assay-golden/1", "model", "generated",
                     "model_files", "battery", battery, "arm", "eager", "oracle", "name", "generated", "dtype",
                     "bfloat16", "top_k", s->top_k);
}

static struct golden *make_golden(const struct growth_spec *s, int64_t number, int64_t positions, struct err *e)
{
    struct golden *g = calloc(1, sizeof *g);
    int prompts = (int)((positions + s->prompt - 1) / s->prompt);
    if (!g || !(g->prompt = calloc((size_t)prompts, sizeof *g->prompt))) {
        free(g);
        FAIL(e, E_NOMEM, "out of memory");
        return NULL;
    }
    snprintf(g->model, sizeof g->model, "generated");
    snprintf(g->battery, sizeof g->battery, "generated-%lld", (long long)number);
    snprintf(g->arm, sizeof g->arm, "eager");
    g->top_k = s->top_k;
    g->header = make_header(s, g->battery);
    for (int i = 0; i < prompts && !e->code; i++) {
        int64_t left = positions - (int64_t)i * s->prompt;
        g->prompts++;
        make_prompt(s, (uint64_t)number, (uint64_t)i, left < s->prompt ? (int)left : s->prompt, &g->prompt[i], e);
    }
    return g;
}

/* Borrows names and ids of the golden. Caller frees b->prompt. */
static int make_battery(const struct golden *g, int tokens, struct battery *b, struct err *e)
{
    char text[200];
    uint8_t hash[SHA256_BYTES];
    *b = (struct battery){.max_new_tokens = tokens, .razor_ulp = 2, .razor_cap_nats = 0.5, .prompts = g->prompts};
    snprintf(b->name, sizeof b->name, "%s", g->battery);
    snprintf(text, sizeof text, "%s %d %d", g->battery, g->prompts, tokens);
    sha256_of(text, strlen(text), hash);
    sha256_hex(hash, b->sha256);
    b->prompt = calloc((size_t)g->prompts + 1, sizeof *b->prompt);
    if (!b->prompt)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < g->prompts; i++)
        b->prompt[i] = (struct battery_prompt){g->prompt[i].name, NULL, g->prompt[i].prompt_ids, 1};
    return OK;
}

/* Stores the golden and writes the record that replay answers from. */
static int prepare(const struct growth_spec *s, struct store *store, int64_t number, int64_t positions,
                   const char *record, struct battery *b, struct golden **g, struct err *e)
{
    int64_t id;
    *g = make_golden(s, number, positions, e);
    if (e->code || golden_write(record, *g, e) || store_golden_put(store, *g, "active", &id, e))
        return e->code;
    return make_battery(*g, s->prompt, b, e) ? e->code : store_battery_put(store, b, e);
}

/* What `assay run` does: golden from the store, engine, answers, verdict. */
static int judge_one(struct store *store, const struct battery *b, const char *record, struct err *e)
{
    char spec[700], sha256[SHA256_HEX_SIZE];
    struct golden *g = NULL;
    struct engine *engine = NULL;
    struct run_result r = {0};
    snprintf(spec, sizeof spec, "replay:%s", record);
    int rc = store_golden_get(store, "generated", b->name, NULL, &g, sha256, e);
    if (!rc)
        rc = engine_open_spec(spec, NULL, 0, NULL, ".", 1, &engine, e);
    struct run_options o = {.store = store,
                            .engine = engine,
                            .golden = g,
                            .golden_sha256 = sha256,
                            .battery = b,
                            .model_sha256 = "",
                            .commit = ""};
    if (!rc && !(rc = run_battery(&o, &r, e)) && r.judgement.verdict != RV_PASS)
        rc = FAIL(e, E_VOID, "a generated battery was judged %s: %s", run_verdict_name(r.judgement.verdict),
                  r.judgement.why);
    run_result_free(&r);
    if (engine)
        engine->ops->close(engine);
    golden_free(g);
    return rc;
}

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (int64_t)st.st_size;
}

static void remove_store(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-runs"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char name[720];
        snprintf(name, sizeof name, "%.700s%s", path, tails[i]);
        unlink(name);
    }
}

/* One size: batteries into one store, each judged. Only the judging is timed. */
static void measure(const struct growth_spec *s, int64_t positions, struct told *t)
{
    char path[640], record[660];
    struct store *store = NULL;
    struct err *e = &t->err;
    snprintf(path, sizeof path, "%.600s/growth.db", s->folder);
    snprintf(record, sizeof record, "%.600s/growth.jsonl", s->folder);
    remove_store(path);
    if (store_open(path, &store, e))
        return;
    for (int64_t done = 0; done < positions && !e->code; t->batteries++) {
        int64_t n = positions - done < s->battery ? positions - done : s->battery;
        struct battery b = {0};
        struct golden *g = NULL;
        prepare(s, store, t->batteries, n, record, &b, &g, e);
        double start = now();
        if (!e->code)
            judge_one(store, &b, record, e);
        t->last = (now() - start) * 1e6 / (double)n;
        t->seconds += now() - start;
        t->first = t->batteries ? t->first : t->last;
        free(b.prompt);
        golden_free(g);
        done += n;
    }
    store_close(store);
    t->bytes = size_of(path);
    remove_store(path);
    unlink(record);
}

/* --- merging --- */

static void shard_path(const struct growth_spec *s, int i, char *out, size_t size)
{
    snprintf(out, size, "%.600s/growth-%d.db", s->folder, i);
}

/* A store as `assay run --shard` leaves it: the battery and the answers of its prompts. */
static int make_shard(const struct growth_spec *s, const struct golden *g, const struct battery *b, int i,
                      struct err *e)
{
    char path[640], name[32];
    struct store *store;
    struct battery part;
    int64_t run;
    struct run_key key = {.model = "generated",
                          .model_sha256 = "",
                          .battery = b->name,
                          .battery_sha256 = b->sha256,
                          .golden_sha256 = "",
                          .arm = "generated",
                          .commit = "",
                          .shard = name};
    snprintf(name, sizeof name, "%d/%d", i, s->shards);
    shard_path(s, i, path, sizeof path);
    remove_store(path);
    if (store_open(path, &store, e))
        return e->code;
    int rc = store_battery_put(store, b, e);
    if (!rc && !(rc = store_run_open(store, &key, 0, &run, e)) &&
        !(rc = shard_cut(b, (struct shard){i, s->shards}, &part, e))) {
        for (int k = 0; k < part.prompts && !rc; k++) {
            const struct golden_prompt *p = golden_find(g, part.prompt[k].name);
            struct stream st = {.ids = p->ids, .n = p->n, .finish = p->finish, .view = p->decode};
            rc = store_stream_put(store, run, p->name, PHASE_FREE, &st, e);
        }
        free(part.prompt);
    }
    store_close(store);
    return rc;
}

static int make_shards(const struct growth_spec *s, int64_t positions, struct err *e)
{
    struct battery b = {0};
    struct golden *g = make_golden(s, 0, positions, e);
    if (!e->code)
        make_battery(g, s->prompt, &b, e);
    for (int i = 1; i <= s->shards && !e->code; i++) {
        make_shard(s, g, &b, i, e);
        if (s->progress)
            s->progress(s->arg, "shards", i, s->shards);
    }
    free(b.prompt);
    golden_free(g);
    return e->code;
}

static void measure_merge(const struct growth_spec *s, int64_t positions, struct told *t)
{
    char path[640], (*names)[640] = calloc((size_t)s->shards, sizeof *names);
    const char **list = calloc((size_t)s->shards, sizeof *list);
    struct store *store = NULL;
    json_t *report = NULL;
    struct err *e = &t->err;
    (void)positions;
    if (!names || !list)
        FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < s->shards && !e->code; i++) {
        shard_path(s, i + 1, names[i], sizeof names[i]);
        list[i] = names[i];
    }
    snprintf(path, sizeof path, "%.600s/growth.db", s->folder);
    remove_store(path);
    double start = now();
    if (!e->code && !store_open(path, &store, e))
        store_merge(store, list, s->shards, MERGE_ANY, NULL, NULL, &report, e);
    t->seconds = now() - start;
    const json_t *joined = json_array_get(json_object_get(report, "joined"), 0);
    if (!e->code && (!joined || json_array_size(json_object_get(joined, "missing"))))
        FAIL(e, E_VOID, "the merged shards are not whole");
    json_decref(report);
    store_close(store);
    t->bytes = size_of(path);
    remove_store(path);
    for (int i = 0; i < s->shards && list; i++)
        remove_store(list[i]);
    free(list);
    free(names);
}

/* --- all --- */

/* Runs `job` in a process of its own: its memory is counted from nothing. */
static int apart(const struct growth_spec *s, int64_t positions,
                 void (*job)(const struct growth_spec *, int64_t, struct told *), struct told *out, struct err *e)
{
    struct rusage u;
    int status;
    struct told *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return FAIL(e, E_NOMEM, "out of memory");
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        job(s, positions, t);
        _exit(0);
    }
    if (pid < 0 || wait4(pid, &status, 0, &u) != pid)
        FAIL(e, E_IO, "cannot start a process: %s", strerror(errno));
    else if (status)
        FAIL(e, E_INTERNAL, "measuring %lld positions ended with status %d", (long long)positions, status);
    else if (t->err.code)
        FAIL(e, t->err.code, "%s", t->err.text);
    t->memory = (int64_t)u.ru_maxrss * 1024;
    *out = *t;
    munmap(t, sizeof *t);
    return e->code;
}

static json_t *row_object(int64_t positions, const struct told *t)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "positions", (json_int_t)positions, "batteries",
                     (json_int_t)t->batteries, "store_bytes", (json_int_t)t->bytes, "memory_bytes",
                     (json_int_t)t->memory, "seconds", t->seconds, "first_s", t->first, "last_s", t->last);
}

int bench_growth(const struct growth_spec *s, json_t **report, struct err *e)
{
    json_t *rows = json_array(), *merge = json_null();
    struct told t;
    int sizes = 0, done = 0;
    for (int64_t n = s->from; n <= s->to; n *= 10)
        sizes++;
    for (int64_t n = s->from; n <= s->to && !e->code; n *= 10) {
        if (s->progress)
            s->progress(s->arg, "sizes", done++, sizes);
        if (!apart(s, n, measure, &t, e))
            json_array_append_new(rows, row_object(n, &t));
    }
    int64_t positions = (int64_t)s->shards * s->prompt * 2;
    if (s->shards && !e->code && !make_shards(s, positions, e) && !apart(s, positions, measure_merge, &t, e))
        merge =
            json_pack("{s:i,s:I,s:I,s:I,s:f}", "shards", s->shards, "positions", (json_int_t)positions, "store_bytes",
                      (json_int_t)t.bytes, "memory_bytes", (json_int_t)t.memory, "seconds", t.seconds);
    *report = json_pack("{s:I,s:i,s:i,s:o,s:o}", "battery", (json_int_t)s->battery, "prompt", s->prompt, "top_k",
                        s->top_k, "rows", rows, "merge", merge);
    if (e->code) {
        json_decref(*report);
        *report = NULL;
    }
    return e->code;
}
