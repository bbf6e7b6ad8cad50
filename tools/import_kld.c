#include "goldens/exchange.h"
#include "harness/kld_compare.h"
#include "tools/import_more.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST ((size_t)1 << 31) /* of a record; larger files are compared where they lie */

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* NAME.kld.zst -> NAME */
static void name_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(out, size, "%s", slash ? slash + 1 : path);
    for (int i = 0; i < 2; i++) {
        char *dot = strrchr(out, '.');
        if (dot && dot != out && (!strcmp(dot, ".zst") || !strcmp(dot, ".kld")))
            *dot = 0;
    }
}

static void print(const struct tool *t, const json_t *r)
{
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
        return;
    }
    printf("kld %s: %.0f chunks of %.0f tokens, vocabulary %.0f, %.0f positions, record %.12s\n",
           json_string_value(json_object_get(r, "name")), num(r, "chunks"), num(r, "tokens_a_chunk"),
           num(r, "vocabulary"), num(r, "positions"), json_string_value(json_object_get(r, "record")));
    printf("perplexity %.4f +- %.4f\n", num(r, "ppl"), num(r, "ppl_error"));
    printf("grid     16-bit values, steps of up to %.3f milli-nats; at %.0f positions the two largest are closer than "
           "that: no exact tie is known\n",
           num(r, "grid_mnats"), num(r, "tied_tops"));
}

int import_kld(const struct tool *t, struct store *s, const char *path, const struct import_options *o, struct err *e)
{
    void *data = NULL;
    size_t bytes;
    struct kld k;
    json_t *report = NULL;
    char sha256[SHA256_HEX_SIZE], name[200];
    name_of(o->name ? o->name : path, name, sizeof name);
    if (packed_read(path, LARGEST, &data, &bytes, e))
        return e->code;
    if (!kld_parse(data, bytes, path, &k, e) && !kld_describe(&k, &report, e) &&
        !store_record_put(s, "kld", name, data, bytes, NULL, sha256, e)) {
        json_object_set_new(report, "record", json_string(sha256));
        json_object_set_new(report, "name", json_string(name));
        print(t, report);
    }
    json_decref(report);
    free(data);
    return e->code;
}

/* A file when there is one of that name, else a record. */
static int load(struct store *s, const char *name, char **data, size_t *bytes, struct kld *k, struct err *e)
{
    char sha256[SHA256_HEX_SIZE];
    void *file;
    int rc;
    if (!access(name, F_OK)) {
        if ((rc = packed_read(name, (size_t)1 << 36, &file, bytes, e)))
            return rc;
        *data = file;
    } else if ((rc = store_record_get(s, "kld", name, data, bytes, sha256, e))) {
        return rc;
    }
    return kld_parse(*data, *bytes, name, k, e);
}

static void print_diff(const json_t *r)
{
    size_t i;
    json_t *c;
    printf("%5s  %22s  %20s  %20s  %20s  %20s\n", "chunk", "KL divergence", "same top %", "RMS dp %", "PPL",
           "base PPL");
    json_array_foreach(json_object_get(r, "chunks"), i, c)
        printf("%5zu  %10.5f +- %8.5f  %10.3f +- %6.3f  %10.3f +- %6.3f  %10.4f +- %6.4f  %10.4f +- %6.4f\n", i + 1,
               num(c, "kl"), num(c, "kl_error"), num(c, "same_top_percent"), num(c, "same_top_error"),
               num(c, "rms_dp_percent"), num(c, "rms_dp_error"), num(c, "ppl"), num(c, "ppl_error"), num(c, "base_ppl"),
               num(c, "base_ppl_error"));
    const json_t *last =
        json_array_get(json_object_get(r, "chunks"), json_array_size(json_object_get(r, "chunks")) - 1);
    printf("grid   16-bit values, steps of up to %.3f milli-nats; %.0f of %.0f top pairs of the base are closer than "
           "that: no exact tie is known\n",
           num(r, "grid_mnats"), num(last, "tied_tops"), num(r, "positions"));
    printf("       rounding to it moves KL and the logarithm of PPL by about %.2g nat\n", num(r, "grid_error_nats"));
}

int diff_kld(const struct tool *t, const char *base, const char *test, struct err *e)
{
    char *a = NULL, *b = NULL;
    size_t na, nb;
    struct kld ka, kb;
    struct store *s = NULL;
    json_t *report = NULL;
    int status = 3;
    if (!store_open(t->store_path, &s, e) && !load(s, base, &a, &na, &ka, e) && !load(s, test, &b, &nb, &kb, e) &&
        !kld_compare(&ka, &kb, &report, e)) {
        status = na != nb || memcmp(a, b, na) != 0;
        if (t->json) {
            json_dumpf(report, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
            putchar('\n');
        } else {
            print_diff(report);
        }
    }
    json_decref(report);
    free(a);
    free(b);
    store_close(s);
    return status;
}
