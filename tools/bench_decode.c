/* bench decode - tokens a second of arms that take turns, tokens checked while timed */
#include "goldens/store.h"
#include "harness/base/team.h"
#include "harness/bench/decode.h"
#include "harness/models/load.h"
#include "tools/bench.h"
#include "tools/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command bench_of_decode;

static void show(void *arg, int done, int total)
{
    tool_progress(arg, "bench", done, total);
}

/* One argument of words with blanks between them; "default" has none. */
static int split(char *text, char **words, int max)
{
    int n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, " ", &rest); w && n < max; w = strtok_r(NULL, " ", &rest))
        if (strcmp(w, "default"))
            words[n++] = w;
    return n;
}

static int numbers(const char *text, int *out, int max, struct err *e)
{
    int n = 0;
    for (const char *p = text; *p; n++) {
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || v < 1 || v > 64 || n == max)
            return FAIL(e, E_USAGE, "--sizes %s: up to %d numbers from 1 to 64 with commas between", text, max), -1;
        out[n] = (int)v;
        p = *end ? end + 1 : end;
    }
    return n;
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void print(const json_t *r)
{
    json_t *o;
    size_t i;
    printf("%d tokens a sequence, median of %d runs, arms in turns, tokens a second of %s time\n\n",
           (int)real(r, "tokens"), (int)real(r, "runs"), text(r, "clock"));
    json_array_foreach(json_object_get(r, "arms"), i, o)
        printf("%-24s %s, %.1f MB resident, %.1f MB of it weights\n", text(o, "label"), text(o, "arm"),
               real(o, "memory_bytes") / 1e6, real(o, "weight_bytes") / 1e6);
    printf("\n%-4s %-24s %10s %7s %7s %8s  %s\n", "", "arm", "tokens/s", "ratio", "spread", "others", "tokens");
    json_array_foreach(json_object_get(r, "rows"), i, o)
        printf("c%-3d %-24s %10.1f %7.3f %6.1f%% %7.1f%%  %s, %s\n", (int)real(o, "size"), text(o, "label"),
               real(o, "tokens_s"), real(o, "ratio"), 100 * real(o, "spread"), 100 * real(o, "foreign"),
               json_is_true(json_object_get(o, "tokens_stable")) ? "the same in each run" : "CHANGED BETWEEN RUNS",
               text(o, "golden"));
    if (json_is_string(json_object_get(r, "void")))
        printf("\nVOID: %s\n", text(r, "void"));
}

/* Tokens that change are a failure whatever the clock says. */
static int status_of(const json_t *r)
{
    json_t *o;
    size_t i;
    int stable = 1;
    json_array_foreach(json_object_get(r, "rows"), i, o) stable &= json_is_true(json_object_get(o, "tokens_stable"));
    return !stable ? 1 : json_is_string(json_object_get(r, "void")) ? 5 : 0;
}

static int measure(struct tool *t, struct decode_spec *s, const char *model, const char *battery, json_t **report,
                   struct err *e)
{
    struct store *store = NULL;
    struct model *m = NULL;
    struct battery *b = NULL;
    struct golden *g = NULL;
    struct err none = {0};
    char hash[SHA256_HEX_SIZE];
    if (!tool_store(t, &store, e) && !tool_model(t, model, &m, e) && !session_battery(store, battery, &b, e)) {
        store_golden_get(store, m->name, b->name, NULL, &g, hash, &none); /* without one nothing is compared with it */
        s->model = m;
        s->battery = b;
        s->golden = g;
        bench_decode(s, report, e);
    }
    golden_free(g);
    battery_free(b);
    model_close(m);
    store_close(store);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *model = "tiny-dense-nvfp4", *battery = "strict", *engine = "native:cpu", *sizes = "1,2,4,8",
               *runs = "3";
    const char *tokens = "32", *threads = "0", *cpu = NULL, *foreign = "0.10", *spread = "0.15";
    const struct option_spec spec[] = {{"model", "M", &model},
                                       {"battery", "B", &battery},
                                       {"engine", "E", &engine},
                                       {"sizes", "LIST", &sizes},
                                       {"runs", "R", &runs},
                                       {"tokens", "N", &tokens},
                                       {"threads", "T", &threads},
                                       {"cpu-clock", NULL, &cpu},
                                       {"max-foreign", "X", &foreign},
                                       {"max-spread", "X", &spread},
                                       {0}};
    char *arms[64], *words[DECODE_ARMS][32];
    int status, n = argc <= 64 ? tool_options(t, &bench_of_decode, argc, argv, spec, arms, &status) : -1;
    struct err e = {0};
    json_t *report = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    struct decode_spec s = {.engine = engine,
                            .data_dir = t->data_dir,
                            .runs = atoi(runs),
                            .tokens = atoi(tokens),
                            .threads = atoi(threads),
                            .cpu_clock = cpu != NULL,
                            .max_foreign = strtod(foreign, NULL),
                            .max_spread = strtod(spread, NULL),
                            .progress = show,
                            .arg = t};
    char **list = n ? arms : (char *[]){(char[]){"default"}};
    if ((s.sizes = numbers(sizes, s.size, DECODE_SIZES, &e)) < 0 || (s.arms = n ? n : 1) > DECODE_ARMS)
        FAIL(&e, E_USAGE, "up to %d arms", DECODE_ARMS);
    for (int a = 0; a < s.arms && !e.code; a++) {
        s.arm[a].label = strdup(list[a]);
        s.arm[a].n = split(list[a], words[a], 32);
        s.arm[a].words = words[a];
    }
    if (!e.code)
        measure(t, &s, model, battery, &report, &e);
    for (int a = 0; a < s.arms && a < DECODE_ARMS; a++)
        free((char *)s.arm[a].label);
    if (e.code)
        return tool_fail(t, "bench decode", &e);
    if (t->json) {
        json_dumpf(report, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print(report);
    }
    status = status_of(report);
    json_decref(report);
    return status;
}

BENCH(decode) = {
    .name = "bench decode",
    .summary = "tokens a second of arms in turns, c1 to c8, tokens checked while timed",
    .usage =
        "usage: assay bench decode [ARM ...] [--model M] [--battery B] [--engine native:cpu] [options]\n"
        "\n"
        "ARM is one argument of flag=value words (\"route=grouped\"), or default; the first is what ratios are to.\n"
        "Every arm has a process of its own; runs of the arms alternate; each timed answer must have the tokens of "
        "an\n"
        "untimed one.\n"
        "\n"
        "  --sizes LIST     batch sizes (1,2,4,8)\n"
        "  --runs R         timed runs of each (3)\n"
        "  --tokens N       tokens a sequence (32)\n"
        "  --threads T      of each arm; 0: one a CPU\n"
        "  --cpu-clock      tokens a second of CPU time, for a machine that does other things too\n"
        "  --max-foreign X  share of the machine's CPU time that others may use meanwhile (0.10)\n"
        "  --max-spread X   (largest - smallest) / median of the runs (0.15)\n"
        "\n"
        "Exit status: 0, 1 when tokens changed between runs, 5 (VOID) when others used more of the machine, or the "
        "runs\n"
        "spread more, than allowed.\n",
    .order = 20,
    .run = run,
};
