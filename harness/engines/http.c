#include "harness/engines/http.h"

#include "harness/engines/child.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct http {
    CURL *curl;
    struct curl_slist *header;
    char base[512];
    struct http_limits limits;
};

struct incoming {
    struct http_reply *r;
    size_t room, limit;
    int too_long, no_memory;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_ALL);
}

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    struct incoming *in = arg;
    size_t bytes = size * n;
    if (in->r->bytes + bytes > in->limit) {
        in->too_long = 1;
        return 0;
    }
    if (in->r->bytes + bytes + 1 > in->room) {
        size_t room = 2 * (in->r->bytes + bytes) + 4096;
        char *more = realloc(in->r->text, room);
        in->no_memory = !more;
        if (!more)
            return 0;
        in->r->text = more;
        in->room = room;
    }
    memcpy(in->r->text + in->r->bytes, data, bytes);
    in->r->bytes += bytes;
    in->r->text[in->r->bytes] = 0;
    return bytes;
}

static int add_header(struct http *h, const char *line, struct err *e)
{
    struct curl_slist *more = curl_slist_append(h->header, line);
    if (!more)
        return FAIL(e, E_NOMEM, "out of memory");
    h->header = more;
    return OK;
}

static int add_token(struct http *h, const char *file, struct err *e)
{
    char token[1024], line[1100];
    FILE *f = fopen(file, "r");
    if (!f)
        return FAIL(e, E_MISSING, "token file %s cannot be read", file);
    size_t n = fread(token, 1, sizeof token - 1, f);
    fclose(f);
    token[n] = 0;
    token[strcspn(token, "\r\n")] = 0;
    snprintf(line, sizeof line, "Authorization: Bearer %s", token);
    int rc = *token ? add_header(h, line, e) : FAIL(e, E_INPUT, "token file %s is empty", file);
    explicit_bzero(token, sizeof token);
    explicit_bzero(line, sizeof line);
    return rc;
}

static int check_base(const char *base, struct err *e)
{
    const char *host = strstr(base, "://");
    if (strncmp(base, "http://", 7) && strncmp(base, "https://", 8))
        return FAIL(e, E_USAGE, "the server's address must begin with http:// or https://");
    if (memchr(host, '@', strlen(host)))
        return FAIL(e, E_USAGE,
                    "no credentials belong in an address; \"token_file\" in a profile names a file with them");
    if (strpbrk(base, " \t\r\n?#") || !host[3] || host[3] == '/')
        return FAIL(e, E_USAGE, "\"%.200s\" is no server's address", base);
    return OK;
}

int http_open(const char *base, const struct http_limits *l, const char *token_file, const char *ca_file,
              struct http **out, struct err *e)
{
    pthread_once(&once, start_curl);
    struct http *h = calloc(1, sizeof *h);
    if (!h || !(h->curl = curl_easy_init())) {
        FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    if (check_base(base, e))
        goto out;
    snprintf(h->base, sizeof h->base, "%s", base);
    for (size_t n = strlen(h->base); n && h->base[n - 1] == '/'; n--)
        h->base[n - 1] = 0;
    h->limits = *l;
    if (add_header(h, "Content-Type: application/json", e) || add_header(h, "Expect:", e) ||
        (*token_file && add_token(h, token_file, e)))
        goto out;
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(h->curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(h->curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (*ca_file)
        curl_easy_setopt(h->curl, CURLOPT_CAINFO, ca_file);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->header);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(l->connect_seconds * 1000) + 1);
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)(l->answer_seconds * 1000) + 1);
    curl_easy_setopt(h->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)l->answer_bytes);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, take);
    *out = h;
    h = NULL;
out:
    http_close(h);
    return e->code;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    if (h->curl)
        curl_easy_cleanup(h->curl);
    curl_slist_free_all(h->header);
    free(h);
}

static int failed(const struct http *h, CURLcode rc, const char *detail, const struct incoming *in, const char *path,
                  struct err *e)
{
    if (in->no_memory)
        return FAIL(e, E_NOMEM, "out of memory for an answer of %zu bytes", in->r->bytes);
    if (in->too_long || rc == CURLE_FILESIZE_EXCEEDED)
        return FAIL(e, E_ENGINE, "%s: the answer is longer than %zu bytes", path, h->limits.answer_bytes);
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return FAIL(e, E_ENGINE, "%s: no whole answer within %.3g s (%zu bytes had come)", path,
                    h->limits.answer_seconds, in->r->bytes);
    if (rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR || rc == CURLE_GOT_NOTHING)
        return FAIL(e, E_ENGINE, "%s: the connection ended in the middle of the answer (%zu bytes had come)", path,
                    in->r->bytes);
    return FAIL(e, E_ENGINE, "%s: %s%s%.200s", path, curl_easy_strerror(rc), *detail ? ": " : "", detail);
}

static void describe(struct http *h, struct http_reply *r)
{
    const char *type = NULL;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &r->status);
    curl_easy_getinfo(h->curl, CURLINFO_CONTENT_TYPE, &type);
    snprintf(r->content_type, sizeof r->content_type, "%.*s", type ? (int)strcspn(type, "; ") : 0, type ? type : "");
}

int http_ask(struct http *h, const char *path, const char *body, struct http_reply *r, struct err *e)
{
    char url[1024], detail[CURL_ERROR_SIZE];
    double until = child_clock() + h->limits.connect_seconds;
    snprintf(url, sizeof url, "%s%s", h->base, path);
    for (unsigned wait = 50000;; wait = wait < 1000000 ? 2 * wait : wait) {
        struct incoming in = {.r = r, .limit = h->limits.answer_bytes};
        memset(r, 0, sizeof *r);
        *detail = 0;
        curl_easy_setopt(h->curl, CURLOPT_URL, url);
        curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, detail);
        curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, &in);
        if (body) {
            curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
            curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, body);
        } else {
            curl_easy_setopt(h->curl, CURLOPT_HTTPGET, 1L);
        }
        CURLcode rc = curl_easy_perform(h->curl);
        describe(h, r);
        int untaken = rc == CURLE_COULDNT_CONNECT || (rc == CURLE_OK && (r->status == 429 || r->status == 503));
        if (untaken && child_clock() < until) {
            free(r->text);
            usleep(wait);
            continue;
        }
        if (rc == CURLE_OK && (r->text || (r->text = calloc(1, 1))))
            return OK;
        failed(h, rc, detail, &in, path, e);
        free(r->text);
        memset(r, 0, sizeof *r);
        return e->code;
    }
}
