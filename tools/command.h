/* command - one verb of the command line: a file tools/cmd_NAME.c that defines COMMAND(NAME) */
#ifndef ASSAY_TOOLS_COMMAND_H
#define ASSAY_TOOLS_COMMAND_H

#include "harness/base/err.h"

struct cuda_device;
struct cuda_part;
struct model;
struct store;

struct tool {
    char data_dir[512];   /* shipped batteries, goldens, models, tables: the checkout, or PREFIX/share/assay */
    char store_path[512]; /* --store FILE, else assay.db under XDG_DATA_HOME */
    char cache_dir[512];  /* where fetched models lie: assay/models under XDG_CACHE_HOME */
    int json;             /* --json */
    int colour;           /* standard output is a terminal and NO_COLOR is not set */
    int progress;         /* standard error is a terminal */
    int width;            /* columns of the terminal, 100 when it is none */
};

struct command {
    const char *name, *summary; /* one line */
    const char *usage;          /* whole --help text */
    int order;                  /* place in the list of verbs */
    /* argv[0] is the verb. Returns the exit status; errors go through tool_fail. */
    int (*run)(struct tool *t, int argc, char **argv);
};

#define COMMAND(NAME) const struct command command_##NAME

extern const struct command *const command_all[]; /* NULL-terminated, made by the Makefile */

/* Prints "assay VERB: text" (or {"error":..} with --json) and returns the documented exit status. */
int tool_fail(const struct tool *t, const char *verb, const struct err *e);

/* Prints "assay: about: text" on standard error, once in a process however often it is said; "" is nothing. */
void tool_warn(const char *about, const char *text);

/* Progress line on standard error, when it is a terminal: "label  done/total". done == total ends the line. */
void tool_progress(const struct tool *t, const char *label, long done, long total);

/* --model NAME: a folder, a shipped or a fetched model. Caller closes. E_MISSING lists what there is. */
int tool_model(const struct tool *t, const char *name, struct model **m, struct err *e);

/* The command line as it would be typed again, quoted where a shell needs it. Caller frees; NULL without memory. */
char *command_again(int argc, char **argv);

/* Opens the store and brings in the shipped goldens and batteries that it does not hold yet. Caller closes. */
int tool_store(const struct tool *t, struct store **s, struct err *e);

/* The CUDA part and the first GPU, kernels/cuda/cuda.h. E_MISSING (exit status 4) when there is none. */
int tool_cuda(const struct cuda_part **part, struct cuda_device *d, struct err *e);

/* Option parsing shared by the verbs; see tools/options.c. */
struct option_spec {
    const char *name;    /* without the dashes */
    const char *argname; /* NULL: a switch */
    const char **value;  /* receives the argument, or "1" for a switch; repeated: the last wins */
};

/* Parses argv[1..]: --name VALUE, --name=VALUE, switches; the rest goes to words (argv order, argc entries at most).
 * --help prints the usage of `c` and returns -1 with *status = 0; a mistake prints it and returns -1 with status 2;
 * --json and --store are known to every verb. Returns the number of words. */
int tool_options(struct tool *t, const struct command *c, int argc, char **argv, const struct option_spec *spec,
                 char **words, int *status);

#endif
