#include "tools/command.h"

#include "harness/base/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Names in a message come from files and people: what a terminal would obey is shown instead. Lines stay lines. */
static void put_visible(FILE *f, const char *text)
{
    char one[UTF8_UNIT_SIZE];
    for (size_t i = 0, n = strlen(text); i < n;) {
        if (text[i] == '\n') {
            fputc(text[i++], f);
            continue;
        }
        i += utf8_visible(text + i, n - i, 0, one);
        fputs(one, f);
    }
    fputc('\n', f);
}

int tool_fail(const struct tool *t, const char *verb, const struct err *e)
{
    int status = err_exit_status(e->code);
    if (t->json) {
        json_t *o = json_pack("{s:{s:s,s:s,s:s},s:i}", "error", "verb", verb, "code", err_name(e->code), "text",
                              e->text, "exit", status);
        if (o) {
            json_dumpf(o, stdout, JSON_COMPACT);
            putchar('\n');
        }
        json_decref(o);
    }
    fprintf(stderr, "assay %s: %s", verb, status == 4 ? "NO_EVIDENCE: " : status == 5 ? "VOID: " : "");
    put_visible(stderr, e->text);
    return status;
}

void tool_warn(const char *about, const char *text)
{
    static char said[16][256];
    static int n;
    for (int i = 0; i < n; i++)
        if (!strcmp(said[i], text))
            return;
    if (!*text)
        return;
    if (n < (int)(sizeof said / sizeof *said))
        snprintf(said[n++], sizeof said[0], "%s", text);
    fprintf(stderr, "assay: %s: %s\n", about, text);
}

void tool_progress(const struct tool *t, const char *label, long done, long total)
{
    static struct timespec last;
    struct timespec now;
    if (!t->progress)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since = (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) * 1e-9;
    if (done < total && since < 0.1)
        return;
    last = now;
    fprintf(stderr, "\r\033[K%s  %ld/%ld", label, done, total);
    if (done >= total)
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

static int mistake(const struct command *c, const char *fact, const char *word, int *status)
{
    fprintf(stderr, "assay %s: %s \"%s\"\n\n%s", c->name, fact, word, c->usage);
    *status = 2;
    return -1;
}

static const struct option_spec *find(const struct option_spec *spec, const char *name, size_t n)
{
    for (; spec && spec->name; spec++)
        if (strlen(spec->name) == n && !strncmp(spec->name, name, n))
            return spec;
    return NULL;
}

int tool_options(struct tool *t, const struct command *c, int argc, char **argv, const struct option_spec *spec,
                 char **words, int *status)
{
    const char *json = NULL, *store = NULL;
    const struct option_spec common[] = {{"json", NULL, &json}, {"store", "FILE", &store}, {0}};
    int n = 0, plain = 0;
    for (int i = 1; i < argc; i++) {
        char *a = argv[i];
        if (!plain && !strcmp(a, "--")) {
            plain = 1;
            continue;
        }
        if (plain || a[0] != '-' || !a[1]) {
            words[n++] = a;
            continue;
        }
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            fputs(c->usage, stdout);
            *status = 0;
            return -1;
        }
        size_t len = strncmp(a, "--", 2) ? 0 : strcspn(a + 2, "=");
        const struct option_spec *o = len ? find(spec, a + 2, len) : NULL;
        if (!o && len)
            o = find(common, a + 2, len);
        if (!o)
            return mistake(c, "unknown option", a, status);
        const char *value = a[2 + len] == '=' ? a + 3 + len : NULL;
        if (!o->argname && value)
            return mistake(c, "no argument is allowed for", a, status);
        if (o->argname && !value && ++i >= argc)
            return mistake(c, "an argument is missing for", a, status);
        *o->value = !o->argname ? "1" : value ? value : argv[i];
    }
    t->json = json != NULL;
    if (store && strlen(store) >= sizeof t->store_path) /* cut, it would be another file */
        return mistake(c, "too long for a store's name:", store, status);
    if (store)
        snprintf(t->store_path, sizeof t->store_path, "%s", store);
    return n;
}
