/* err - the one way in which a function fails: an int (OK or a code) and a filled struct err */
#ifndef ASSAY_BASE_ERR_H
#define ASSAY_BASE_ERR_H

enum err_code {
#define ERR(name, status, text) name,
#include "harness/base/err.def"
#undef ERR
};

struct err {
    int code;       /* OK or the first failure */
    char text[768]; /* subject: fact; no newline */
};

/* Records a failure unless one is recorded already (the first wins) and returns its code. NULL e is fine. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the recorded text, for callers that know the file or row; returns e->code. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Exit status of a code, see DESIGN "Verdicts": 0, 2, 3, 4 or 5. */
int err_exit_status(int code);
const char *err_name(int code);

#define FAIL(e, code, ...) err_set((e), (code), __VA_ARGS__)

#endif
