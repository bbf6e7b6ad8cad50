/* doctor - what this machine can do, what is missing and how to get it */
#include "goldens/store.h"
#include "kernels/cuda/cuda.h"
#include "kernels/panel.h"
#include "tools/command.h"

#include <curl/curl.h>
#include <dirent.h>
#include <jansson.h>
#include <openssl/crypto.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

extern const struct command command_doctor;

/* First line of what a program prints; "" when it is not there. */
static void first_line(const char *command, char *out, size_t size)
{
    FILE *p = popen(command, "r");
    out[0] = 0;
    if (!p)
        return;
    if (fgets(out, (int)size, p))
        out[strcspn(out, "\n")] = 0;
    if (pclose(p))
        out[0] = 0;
}

static void add(json_t *list, const char *what, const char *state, const char *detail, const char *remedy)
{
    json_array_append_new(
        list, json_pack("{s:s,s:s,s:s,s:s}", "what", what, "state", state, "detail", detail, "remedy", remedy));
}

static void check_cpu(json_t *list)
{
    char text[200];
    const char *path;
    panel_chain_best(&path);
    snprintf(text, sizeof text, "%ld cores, kernels run by %s (AVX2 %s, AVX-512 %s)", sysconf(_SC_NPROCESSORS_ONLN),
             path, panel_chain_named("avx2") ? "yes" : "no", panel_chain_named("avx512") ? "yes" : "no");
    add(list, "CPU", "ok", text, "");
}

static void check_gpu(json_t *list)
{
    char text[300];
    first_line("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null", text, sizeof text);
    if (*text)
        add(list, "GPU", "ok", text, "");
    else
        add(list, "GPU", "absent", "no NVIDIA GPU: everything here runs on the CPU, which foretells an H200's bytes",
            "run on a machine with one");
}

static void check_cuda(json_t *list)
{
    const struct cuda_part *part;
    struct cuda_device d;
    struct err e = {0};
    char text[300];
    if (tool_cuda(&part, &d, &e)) {
        add(list, "CUDA kernels", "absent", e.text, "make cuda (needs nvcc), and a machine with a GPU");
        return;
    }
    snprintf(text, sizeof text, "%s: sm_%d, %d SMs, %d MiB L2, %zu GiB; CUDA %d.%d, driver for %d.%d", d.name, d.sm,
             d.sms, d.l2_bytes >> 20, d.memory >> 30, d.runtime / 1000, d.runtime % 1000 / 10, d.driver / 1000,
             d.driver % 1000 / 10);
    add(list, "CUDA kernels", "ok", text, "");
}

static void check_program(json_t *list, const char *name, const char *command, const char *remedy)
{
    char text[300];
    first_line(command, text, sizeof text);
    add(list, name, *text ? "ok" : "absent", *text ? text : "not found", *text ? "" : remedy);
}

static void check_libraries(json_t *list)
{
    char text[400], pcre[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    snprintf(text, sizeof text, "SQLite %s, zstd %s, Jansson %s, PCRE2 %s, %s, %s", sqlite3_libversion(),
             ZSTD_versionString(), jansson_version_str(), pcre, OpenSSL_version(OPENSSL_VERSION), curl_version());
    add(list, "libraries", "ok", text, "");
}

static void check_store(const struct tool *t, json_t *list)
{
    struct store *s;
    struct err e = {0};
    json_t *report;
    char text[1200];
    if (access(t->store_path, F_OK)) {
        add(list, "store", "absent", t->store_path, "it is made at the first run");
        return;
    }
    if (store_open(t->store_path, &s, &e)) {
        add(list, "store", "broken", e.text, "name another one with --store FILE");
        return;
    }
    if (store_stats(s, &report, &e)) {
        add(list, "store", "broken", e.text, "assay store check");
    } else {
        snprintf(text, sizeof text, "%s, %lld bytes", t->store_path,
                 (long long)json_integer_value(json_object_get(report, "bytes")));
        add(list, "store", "ok", text, "");
        json_decref(report);
    }
    store_close(s);
}

static int count_entries(const char *folder, const char *tail)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *f; d && (f = readdir(d));) {
        size_t length = strlen(f->d_name), end = strlen(tail);
        n += f->d_name[0] != '.' && length >= end && !strcmp(f->d_name + length - end, tail);
    }
    if (d)
        closedir(d);
    return n;
}

static void check_data(const struct tool *t, json_t *list)
{
    static const struct {
        const char *what, *folder, *tail;
    } sets[] = {{"shipped models", "batteries/models", "4"}, {"int4 models", "batteries/models", "g128"},
                {"batteries", "batteries", "t.json"},        {"goldens", "goldens", ".jsonl.zst"},
                {"GPU profiles", "batteries/gpus", ".json"}, {"hardware tables", "kernels/tables", ".zst"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char folder[700], text[800];
        snprintf(folder, sizeof folder, "%s/%s", t->data_dir, sets[i].folder);
        int n = count_entries(folder, sets[i].tail);
        snprintf(text, sizeof text, "%d in %s", n, folder);
        add(list, sets[i].what, n ? "ok" : "absent", text, n ? "" : "run from a checkout, or make install");
    }
    int fetched = count_entries(t->cache_dir, "");
    char text[800];
    snprintf(text, sizeof text, "%d in %s", fetched, t->cache_dir);
    add(list, "fetched models", fetched ? "ok" : "absent", text, fetched ? "" : "assay model fetch smollm2-135m");
}

static void print(const struct tool *t, const json_t *list)
{
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o)
    {
        const char *state = json_string_value(json_object_get(o, "state"));
        const char *remedy = json_string_value(json_object_get(o, "remedy"));
        const char *colour = !strcmp(state, "ok") ? "\033[32m" : !strcmp(state, "absent") ? "\033[33m" : "\033[31m";
        printf("%s%-7s%s %-16s %s\n", t->colour ? colour : "", state, t->colour ? "\033[0m" : "",
               json_string_value(json_object_get(o, "what")), json_string_value(json_object_get(o, "detail")));
        if (*remedy)
            printf("%-7s %-16s -> %s\n", "", "", remedy);
    }
}

static int run(struct tool *t, int argc, char **argv)
{
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_doctor, argc, argv, NULL, words, &status) : -1;
    struct err e = {0};
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (n) {
        FAIL(&e, E_USAGE, "no words are expected");
        return tool_fail(t, "doctor", &e);
    }
    json_t *list = json_array();
    check_cpu(list);
    check_gpu(list);
    check_cuda(list);
    check_program(list, "C compiler", "cc --version 2>/dev/null", "apt-get install gcc");
    check_program(list, "nvcc", "nvcc --version 2>/dev/null | tail -n 1",
                  "optional: the CUDA toolkit; nothing here needs it");
    check_program(list, "python3", "python3 --version 2>/dev/null", "apt-get install python3 (for assay model fetch)");
    check_libraries(list);
    check_store(t, list);
    check_data(t, list);
    if (t->json) {
        json_dumpf(list, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print(t, list);
    }
    json_decref(list);
    return 0;
}

COMMAND(doctor) = {
    .name = "doctor",
    .summary = "what this machine can do, what is missing and how to get it",
    .usage =
        "usage: assay doctor\n\nLooks at the CPU, GPUs, compilers, libraries, the store and what ships. What is absent "
        "and optional is no error.\nOptions: --store FILE, --json.\n",
    .order = 1,
    .run = run,
};
