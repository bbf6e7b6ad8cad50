/* assay - finds the verb, the data folder and the store, and hands over */
#include "tools/command.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The checkout that the program was built in (build/assay, build/san/assay), else PREFIX/share/assay. */
static void find_data_dir(char *out, size_t size)
{
    char exe[PATH_MAX], probe[PATH_MAX + 64];
    const char *set = getenv("ASSAY_DATA");
    if (set) {
        snprintf(out, size, "%s", set);
        return;
    }
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    static const char *const up[] = {"/..", "/../..", "/../share/assay"};
    char *slash = strrchr(exe, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof up / sizeof *up; i++) {
        snprintf(probe, sizeof probe, "%s%s/batteries", exe, up[i]);
        if (access(probe, R_OK))
            continue;
        snprintf(probe, sizeof probe, "%s%s", exe, up[i]);
        char *real = realpath(probe, NULL);
        snprintf(out, size, "%s", real ? real : probe);
        free(real);
        return;
    }
    snprintf(out, size, ".");
}

static void find_store(char *out, size_t size)
{
    const char *set = getenv("ASSAY_STORE"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (set)
        snprintf(out, size, "%s", set);
    else if (xdg && *xdg)
        snprintf(out, size, "%s/assay/assay.db", xdg);
    else
        snprintf(out, size, "%s/.local/share/assay/assay.db", home ? home : ".");
}

static void find_cache(char *out, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && *xdg)
        snprintf(out, size, "%s/assay/models", xdg);
    else
        snprintf(out, size, "%s/.cache/assay/models", home ? home : ".");
}

static void find_terminal(struct tool *t)
{
    struct winsize w;
    const char *no_colour = getenv("NO_COLOR");
    t->colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
    t->progress = isatty(STDERR_FILENO);
    t->width = 100;
    if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col >= 40)
        t->width = w.ws_col;
}

static int by_order(const void *a, const void *b)
{
    const struct command *x = *(const struct command *const *)a, *y = *(const struct command *const *)b;
    return x->order != y->order ? x->order - y->order : strcmp(x->name, y->name);
}

static void print_help(FILE *f)
{
    const struct command *list[64];
    int n = 0;
    for (int i = 0; command_all[i] && n < 64; i++)
        list[n++] = command_all[i];
    qsort(list, (size_t)n, sizeof *list, by_order);
    fprintf(f, "assay: strict parity tests for LLM inference engines\n\nusage: assay VERB [options]\n\n");
    for (int i = 0; i < n; i++)
        fprintf(f, "  %-10s %s\n", list[i]->name, list[i]->summary);
    fprintf(f, "\nEvery verb: --help, --json, --store FILE. Exit status: 0 pass, 1 fail, 2 usage, 3 error, "
               "4 no evidence, 5 void.\n");
}

static int unknown(const char *verb)
{
    fprintf(stderr, "assay: no verb \"%s\"; `assay --help` lists them\n", verb);
    return 2;
}

int main(int argc, char **argv)
{
    struct tool t = {0};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error with a place, not a death */
    setlocale(LC_CTYPE, "C.UTF-8");
    find_data_dir(t.data_dir, sizeof t.data_dir);
    find_store(t.store_path, sizeof t.store_path);
    find_cache(t.cache_dir, sizeof t.cache_dir);
    find_terminal(&t);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    for (int i = 0; command_all[i]; i++)
        if (!strcmp(command_all[i]->name, argv[1])) {
            int status = command_all[i]->run(&t, argc - 1, argv + 1);
            if (fflush(stdout) || ferror(stdout)) {
                if (!status && errno != EPIPE) /* the reader who left knows */
                    fprintf(stderr, "assay %s: standard output: cannot write\n", argv[1]);
                return status ? status : 3;
            }
            return status;
        }
    return unknown(argv[1]);
}
