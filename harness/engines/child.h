/* child - another program, started and stopped by this one: lines in, lines out, last words kept
 *
 * time      seconds; a deadline is a value of child_clock()
 * signals   the program is a process group of its own; stopping it stops what it started
 * limits    a line longer than its limit, a program that ends or a deadline that passes is E_ENGINE with the reason and
 *           the last line that the program wrote on standard error
 */
#ifndef ASSAY_ENGINES_CHILD_H
#define ASSAY_ENGINES_CHILD_H

#include "harness/base/err.h"

#include <stddef.h>

struct child;

struct child_start {
    char *const *argv; /* argv[0] is looked up in PATH */
    char *const *env;  /* NULL-terminated "NAME=value" words that are added to the environment; NULL is fine */
    const char *log;   /* NULL: a program that speaks lines. Else a file that takes all that it prints */
};

double child_clock(void);

/* Caller stops. E_MISSING: there is no such program. */
int child_start(const struct child_start *s, struct child **c, struct err *e);
/* 1 while the program runs. */
int child_alive(struct child *c);
/* Writes all n bytes. */
int child_send(struct child *c, const char *text, size_t n, double deadline, struct err *e);
/* The next line, without its newline; borrowed until the next call. */
int child_line(struct child *c, size_t limit, double deadline, char **line, size_t *n, struct err *e);
/* "exit status 3", "signal 9 (Killed)", with the last line of standard error; made for messages. */
void child_fate(struct child *c, char *out, size_t size);
/* Asks the group to end (SIGTERM). */
void child_terminate(struct child *c);
/* Closes its input, waits `grace` seconds, then terminates the group, then kills it. NULL is fine. */
void child_stop(struct child *c, double grace);

/* Splits a command as a shell would, without running anything. Caller frees with words_free. */
int words_split(const char *command, char ***words, int *n, struct err *e);
void words_free(char **words);

#endif
