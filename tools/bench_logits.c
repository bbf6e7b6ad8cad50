/* bench logits - weight and speed of full logits in the store, and of verdicts */
#include "harness/bench/logits.h"
#include "tools/bench.h"
#include "tools/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command bench_of_logits;

static void show(void *arg, const char *what, int done, int total)
{
    tool_progress(arg, what, done, total);
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print(const json_t *r)
{
    const json_t *exact = json_object_get(r, "exact"), *other = json_object_get(r, "other");
    printf("rows      %.0f of %.0f bf16 logits, %.1f MB; %.0f of them are the oracle's own by their SHA-256\n",
           real(r, "rows"), real(r, "vocabulary"), real(r, "raw_bytes") / 1e6, real(r, "proven"));
    printf("foretold  in every bit: %.3f MB, so %.2f MB for 10,000 tokens\n", real(exact, "bytes") / 1e6,
           real(exact, "bytes_10000") / 1e6);
    if (json_is_object(other))
        printf("foretold  by another route, %.0f rows in every bit: %.3f MB, so %.2f MB for 10,000 tokens\n",
               real(other, "same_rows"), real(other, "bytes") / 1e6, real(other, "bytes_10000") / 1e6);
    printf("unpacked  and proven at %.2f GB/s on one core; %s\n", real(r, "unpack_gb_s"),
           json_is_true(json_object_get(r, "equal")) ? "every bit came back" : "BITS WERE LOST");
    printf("verdicts  %.0f in %.2f s of one core, their seal included: %.0f rows/s\n", real(r, "verdicts"),
           real(r, "verdicts_s"), real(r, "rows_s"));
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *model = "tiny-dense-nvfp4", *battery = "strict", *verdicts = "500000";
    const struct option_spec spec[] = {
        {"model", "M", &model}, {"battery", "B", &battery}, {"verdicts", "N", &verdicts}, {0}};
    char gpu[] = "gpu=gb10", route[] = "route=grouped", *const regrouped[] = {gpu, route};
    char *words[64], file[] = P_tmpdir "/assay-bench-XXXXXX";
    int status, n = argc <= 64 ? tool_options(t, &bench_of_logits, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *store = NULL;
    struct session s = {0};
    struct engine *other = NULL;
    json_t *report = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    struct logits_spec l = {.store = file, .verdicts = atoi(verdicts), .progress = show, .arg = t};
    struct session_spec ss = {.engine = "native", .model = model, .battery = battery, .threads = 1};
    int fd = n || l.verdicts < 1 || l.verdicts > 100000000 ? -1 : mkstemp(file);
    if (fd < 0)
        FAIL(&e, E_USAGE, "no words are expected, and --verdicts from 1 to 100000000");
    else if (!tool_store(t, &store, &e) && !session_open(t, store, &ss, &s, &e) &&
             !engine_open_spec("native", regrouped, 2, s.model, t->data_dir, 1, &other, &e)) {
        l.exact = s.engine;
        l.other = other;
        l.golden = s.golden;
        bench_logits(&l, &report, &e);
    }
    status = json_is_true(json_object_get(report, "equal")) ? 0 : 1;
    if (e.code)
        status = tool_fail(t, "bench logits", &e);
    else if (t->json)
        json_dumpf(report, stdout, JSON_COMPACT), putchar('\n');
    else
        print(report);
    if (other)
        other->ops->close(other);
    json_decref(report);
    session_close(&s);
    store_close(store);
    if (fd >= 0)
        close(fd);
    unlink(file);
    return status;
}

BENCH(logits) = {
    .name = "bench logits",
    .summary = "what full logits weigh, how fast they are proven, how fast verdicts are stored",
    .usage =
        "usage: assay bench logits [--model tiny-dense-nvfp4] [--battery strict] [--verdicts 500000]\n"
        "       (the same as `assay bench store --logits`)\n"
        "\nFull logits are kept as what the bit-exact engine leaves over, with a SHA-256 a row. Rows of the golden's "
        "own\n"
        "streams are packed, unpacked and proven; those whose hash the golden holds are the oracle's own. Then the "
        "same\n"
        "foretold by another route (gb10, grouped), and verdicts into a new store. What does not come back in every "
        "bit\n"
        "is exit status 1. Options: --store FILE, --json.\n",
    .order = 30,
    .run = run,
};
