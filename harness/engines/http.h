/* http - one request to a server, within limits: time, size, no redirect, no credentials in an address, TLS checked
 *
 * One struct http a thread. A connection that cannot be made, and an answer 429 or 503 that says the server did not
 * take the request, are tried again until the time for connecting is over; nothing else is: a request that may have run
 * is never repeated.
 */
#ifndef ASSAY_ENGINES_HTTP_H
#define ASSAY_ENGINES_HTTP_H

#include "harness/base/err.h"

#include <stddef.h>

struct http;

struct http_limits {
    double connect_seconds, answer_seconds;
    size_t answer_bytes;
};

struct http_reply {
    long status;
    char *text; /* NUL-terminated; caller frees */
    size_t bytes;
    char content_type[64]; /* without parameters; "" when not said */
};

/* base: http://host:port or https://..., without a path of its own being needed. token_file: the first line is sent as
 * a bearer token, and appears nowhere else; "" for none. ca_file: "" for the system's. Caller closes. */
int http_open(const char *base, const struct http_limits *l, const char *token_file, const char *ca_file,
              struct http **h, struct err *e);
void http_close(struct http *h); /* NULL is fine */
/* body NULL: GET. E_ENGINE: no whole answer came, and why. Any status is OK here. */
int http_ask(struct http *h, const char *path, const char *body, struct http_reply *r, struct err *e);

#endif
