#include "harness/gate/evidence.h"

#include "harness/base/json.h"
#include "harness/base/mapped.h"
#include "harness/base/sha256.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int say(struct finding *f, enum outcome o, const char *fmt, ...)
{
    va_list a;
    size_t n = strlen(f->text);
    f->outcome = o;
    va_start(a, fmt);
    vsnprintf(f->text + n, sizeof f->text - n, fmt, a);
    va_end(a);
    return 1;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int is_source(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return (n > 3 && !strcmp(d->d_name + n - 3, ".cu")) || (n > 4 && !strcmp(d->d_name + n - 4, ".cuh"));
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int evidence_sources(const char *data_dir, char sha256[65], struct err *e)
{
    char path[1400];
    struct dirent **name = NULL;
    uint8_t hash[SHA256_BYTES];
    snprintf(path, sizeof path, "%s/kernels/cuda", data_dir);
    int n = scandir(path, &name, is_source, by_bytes);
    struct sha256 *h = n > 0 ? sha256_new() : NULL;
    if (n <= 0)
        FAIL(e, E_MISSING, "%s: no kernel sources", path);
    else if (!h)
        FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < n; i++) {
        struct mapped m = {0};
        snprintf(path, sizeof path, "%s/kernels/cuda/%s", data_dir, name[i]->d_name);
        if (!e->code && !mapped_open(path, &m, e))
            sha256_add(h, m.data, m.bytes);
        mapped_close(&m);
        free(name[i]);
    }
    free(name);
    if (h)
        sha256_end(h, hash);
    if (!e->code)
        sha256_hex(hash, sha256);
    return e->code;
}

static int is_hex(const char *s, size_t least, size_t most)
{
    size_t n = strspn(s, "0123456789abcdef");
    return !s[n] && n >= least && n <= most;
}

/* Which step, where, of what: 1 when it does not count. */
static int judge_head(const json_t *o, const char *data_dir, const char *step, const char *gpu, struct finding *f)
{
    char here[SHA256_HEX_SIZE] = "";
    struct err none = {0};
    const char *sources = text_of(o, "kernel_sources_sha256"), *commit = text_of(o, "commit"), *on = text_of(o, "gpu");
    if (strcmp(text_of(o, "step"), step))
        return say(f, OUTCOME_MISSING, "is of step \"%s\"; \"%s\" is asked for", text_of(o, "step"), step);
    if (!*on || (gpu && *gpu && strcmp(gpu, on)))
        return say(f, OUTCOME_MISSING, "is of GPU \"%s\"%s%s", on, gpu && *gpu ? "; asked for: " : "", gpu ? gpu : "");
    if (!is_hex(commit, 7, 64) || !is_hex(sources, 64, 64) || !*text_of(o, "date"))
        return say(f, OUTCOME_MISSING, "does not say when, of which commit and of which kernel sources it is");
    if (evidence_sources(data_dir, here, &none))
        return say(f, OUTCOME_MISSING, "cannot be held against the sources: %s", none.text);
    if (strcmp(here, sources))
        return say(f, OUTCOME_MISSING,
                   "is of other kernel sources: %.12s, here %.12s; tools/gpu-gate.sh %s makes it anew", sources, here,
                   step);
    return 0;
}

/* "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)": -1 when it is neither */
static long errors_of(const char *summary)
{
    const char *at = strstr(summary, "SUMMARY: ");
    char *end;
    long n = at ? strtol(at + 9, &end, 10) : -1;
    return at && end > at + 9 && (!strncmp(end, " error", 6) || !strncmp(end, " hazard", 7)) ? n : -1;
}

static void judge_sanitizer(const json_t *result, struct finding *f)
{
    static const char *const tools[] = {"memcheck", "initcheck", "synccheck", "racecheck"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        const json_t *o = NULL, *v;
        size_t k;
        json_array_foreach((json_t *)result, k, v) if (!strcmp(text_of(v, "tool"), tools[i])) o = v;
        const json_t *status = json_object_get(o, "exit_status");
        long n = errors_of(text_of(o, "summary"));
        if (!o) {
            say(f, OUTCOME_MISSING, "says nothing of %s", tools[i]);
            return;
        }
        if (n > 0 || (json_is_integer(status) && json_integer_value(status))) {
            say(f, OUTCOME_FAILED, "%s, exit status %lld: %s", tools[i], (long long)json_integer_value(status),
                text_of(o, "summary"));
            return;
        }
        if (n < 0 || !json_is_integer(status)) {
            say(f, OUTCOME_MISSING, "%s has no summary with a number of errors", tools[i]);
            return;
        }
    }
    say(f, OUTCOME_OK, "no error by memcheck, initcheck, synccheck, racecheck");
}

static void judge_steady(const json_t *result, struct finding *f)
{
    static const char *const zero[] = {
        "runs_that_differ", "ways_that_differ",          "graph_differs", "streams_differ",
        "strides_differ",   "row_shift_mutant_survived", "failed"};
    const json_t *o = json_object_get(result, "steady");
    json_int_t cases = json_integer_value(json_object_get(o, "cases"));
    json_int_t runs = json_integer_value(json_object_get(o, "runs_of_each"));
    if (cases < 1 || runs < 2) {
        say(f, OUTCOME_MISSING, "does not say of how many cases and runs it is");
        return;
    }
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        const json_t *v = json_object_get(o, zero[i]);
        if (json_is_integer(v) && !json_integer_value(v))
            continue;
        say(f, json_is_integer(v) ? OUTCOME_FAILED : OUTCOME_MISSING, "%s %s: %lld",
            json_is_integer(v) ? "says" : "lacks", zero[i], (long long)json_integer_value(v));
        return;
    }
    say(f, OUTCOME_OK, "the kernels' calls, replayed from a graph, give eager's bytes (%lld cases, %lld runs each)",
        (long long)cases, (long long)runs);
}

void evidence_judge(const char *data_dir, const char *path, enum gate_check c, const char *gpu, struct finding *f)
{
    const char *step = c == CHECK_MEMORY ? "sanitizer" : "steady";
    char full[1400];
    struct err own = {0};
    memset(f, 0, sizeof *f);
    snprintf(full, sizeof full, "%s/%s", data_dir, path);
    json_t *o = json_read(full, &own);
    if (!o) {
        say(f, OUTCOME_MISSING, "%.400s", own.text);
        return;
    }
    say(f, OUTCOME_MISSING, "%.120s ", path);
    const json_t *status = json_object_get(o, "exit_status");
    if (judge_head(o, data_dir, step, gpu, f))
        goto out;
    c == CHECK_MEMORY ? judge_sanitizer(json_object_get(o, "result"), f)
                      : judge_steady(json_object_get(o, "result"), f);
    if (f->outcome == OUTCOME_OK && (!json_is_integer(status) || json_integer_value(status)))
        say(f, json_integer_value(status) == 1 ? OUTCOME_FAILED : OUTCOME_MISSING, ", but exit status %lld",
            (long long)json_integer_value(status));
    if (f->outcome == OUTCOME_OK)
        say(f, OUTCOME_OK, "; %s, commit %.12s, these kernel sources", text_of(o, "gpu"), text_of(o, "commit"));
out:
    json_decref(o);
}
