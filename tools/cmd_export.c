/* export - a golden out of the store, in the exchange format */
#include "goldens/exchange.h"
#include "goldens/logits.h"
#include "goldens/store.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_export;

static void print_json(const struct golden *g, const char *sha256, const char *out)
{
    json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s}", "golden", sha256, "model", g->model, "battery", g->battery, "arm",
                          g->arm, "file", out);
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

static int export_golden(struct tool *t, char **words, int n, const char *out, struct err *e)
{
    struct store *s;
    struct golden *g = NULL;
    char sha256[SHA256_HEX_SIZE], *text;
    size_t bytes;
    if (store_open(t->store_path, &s, e))
        return e->code;
    int rc = store_import_shipped(s, t->data_dir, NULL, NULL, e);
    if (!rc)
        rc = store_golden_get(s, words[1], words[2], n > 3 ? words[3] : NULL, &g, sha256, e);
    store_close(s);
    if (rc)
        return rc;
    if (out) {
        rc = golden_write(out, g, e);
    } else if (!(rc = golden_text(g, &text, &bytes, e))) {
        if (fwrite(text, 1, bytes, stdout) != bytes)
            rc = FAIL(e, E_IO, "standard output: cannot write");
        free(text);
    }
    if (!rc && out && !t->json)
        printf("%s: golden %.12s (%s %s %s)\n", out, sha256, g->model, g->battery, g->arm);
    else if (!rc && out)
        print_json(g, sha256, out);
    golden_free(g);
    return rc;
}

/* The very bytes that were imported. */
static int export_kld(struct tool *t, const char *name, const char *out, struct err *e)
{
    struct store *s;
    char sha256[SHA256_HEX_SIZE], *data;
    size_t bytes;
    if (store_open(t->store_path, &s, e))
        return e->code;
    if (!store_record_get(s, "kld", name, &data, &bytes, sha256, e)) {
        if (!packed_write(out, data, bytes, e))
            printf(t->json ? "{\"record\":\"%s\",\"bytes\":%zu}\n" : "record %.12s, %zu bytes\n", sha256, bytes);
        free(data);
    }
    store_close(s);
    return e->code;
}

/* Raw little-endian bf16 rows, each proven by its hash. */
static int export_logits(struct tool *t, const char *name, const char *out, struct err *e)
{
    struct store *s;
    char sha256[SHA256_HEX_SIZE], *data;
    size_t bytes;
    int rows = 0, vocab = 0;
    if (store_open(t->store_path, &s, e))
        return e->code;
    if (!store_record_get(s, "logits", name, &data, &bytes, sha256, e)) {
        uint16_t *row = logits_sizes(data, bytes, name, &rows, &vocab, e)
                            ? NULL
                            : malloc((size_t)rows * (size_t)vocab * sizeof *row + 1);
        if (row && !logits_unpack(data, bytes, NULL, rows, vocab, name, row, e) &&
            !packed_write(out, row, (size_t)rows * (size_t)vocab * sizeof *row, e))
            printf(t->json ? "{\"rows\":%d,\"vocabulary\":%d}\n" : "%d rows of %d bf16 logits\n", rows, vocab);
        else if (!row)
            FAIL(e, E_NOMEM, "out of memory for %d rows of logits", rows);
        free(row);
        free(data);
    }
    store_close(s);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *out = NULL;
    const struct option_spec spec[] = {{"output", "FILE", &out}, {0}};
    char *words[64];
    static char output[] = "--output"; /* -o is its short form */
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "-o"))
            argv[i] = output;
    int status, n = argc <= 64 ? tool_options(t, &command_export, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (n == 2 && !strcmp(words[0], "kld") && out)
        export_kld(t, words[1], out, &e);
    else if (n == 2 && !strcmp(words[0], "logits") && out)
        export_logits(t, words[1], out, &e);
    else if (n < 3 || n > 4 || strcmp(words[0], "golden"))
        FAIL(&e, E_USAGE,
             "golden, a model and a battery are expected: export golden MODEL BATTERY [ARM], or kld|logits NAME "
             "--output FILE");
    else
        export_golden(t, words, n, out, &e);
    return e.code ? tool_fail(t, "export", &e) : 0;
}

COMMAND(export) = {
    .name = "export",
    .summary = "a golden out of the store, in the exchange format",
    .usage =
        "usage: assay export golden MODEL BATTERY [ARM] [-o|--output FILE.jsonl[.zst]]\n"
        "       assay export kld NAME -o|--output FILE[.zst]\n"
        "       assay export logits GOLDEN -o|--output FILE[.zst]      full rows that `assay capture --logits` kept\n"
        "\nWrites assay-golden/1 (to standard output without --output). Importing a file and exporting it again gives\n"
        "the same text, byte for byte.\nOptions: --store FILE, --json.\n",
    .order = 61,
    .run = run,
};
