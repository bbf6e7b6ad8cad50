/* http - a server under test: http:PROFILE or http:DIALECT@URL; what it is asked is in dialect_*.c
 *
 * Ids are checked against the vocabulary before anything is sent: one wrong id ends some servers for good. An answer
 * that fails costs its own prompt; a server that cannot be reached several times in a row is not asked again.
 */
#include "harness/base/json.h"
#include "harness/engines/child.h"
#include "harness/engines/dialect.h"
#include "harness/engines/http.h"
#include "harness/engines/profile_engine.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

extern ENGINE(http);

#define SLOTS_MAX  64
#define FAILED_MAX 3 /* requests in a row without any answer */
#define TOLD_MAX   4096
#define GRACE      5.0

/* Prompt ids that the server says it was fed, where they are not those that were sent. */
struct told {
    char name[128];
    int32_t *ids;
    int n;
};

struct http_engine {
    struct engine engine;
    struct engine_profile profile;
    const struct dialect *dialect;
    struct http *http[SLOTS_MAX];
    struct child *server; /* NULL: not ours */
    struct server_facts facts;
    json_t *fields;
    char url[512], model[256];
    int top_k_max;
    unsigned long salt, session;
    int failed;
    char last[300];
    struct told *told;
    int tolds;
    pthread_mutex_t lock;
};

/* --- one question --- */

static void new_salt(struct http_engine *x, char out[64])
{
    unsigned long n = __atomic_add_fetch(&x->salt, 1, __ATOMIC_RELAXED);
    snprintf(out, 64, "assay-%lx-%lx", x->session, n);
}

static int given_up(struct http_engine *x, struct err *e)
{
    pthread_mutex_lock(&x->lock);
    int rc = x->failed >= FAILED_MAX
                 ? FAIL(e, E_ENGINE, "not asked: the server gave no answer %d times in a row (%s)", x->failed, x->last)
                 : OK;
    pthread_mutex_unlock(&x->lock);
    return rc;
}

static void note(struct http_engine *x, int rc, const char *why)
{
    pthread_mutex_lock(&x->lock);
    x->failed = rc ? x->failed + 1 : 0;
    if (rc)
        snprintf(x->last, sizeof x->last, "%.290s", why);
    pthread_mutex_unlock(&x->lock);
}

static int keep_told(struct http_engine *x, const char *name, int32_t *ids, int n)
{
    struct told *t = NULL;
    pthread_mutex_lock(&x->lock);
    struct told *more = x->tolds < TOLD_MAX ? realloc(x->told, ((size_t)x->tolds + 1) * sizeof *more) : NULL;
    if (more) {
        x->told = more;
        t = &x->told[x->tolds++];
        *t = (struct told){.ids = ids, .n = n};
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    pthread_mutex_unlock(&x->lock);
    return t != NULL;
}

static int flush(struct http_engine *x, int slot, struct err *e)
{
    struct http_reply r;
    if (!x->dialect->reset)
        return OK;
    int rc = http_ask(x->http[slot], x->dialect->reset, "{}", &r, e);
    if (!rc && r.status != 200)
        rc = FAIL(e, E_ENGINE, "%s: the server refused (status %ld)", x->dialect->reset, r.status);
    free(r.text);
    return rc;
}

static int ask(struct http_engine *x, int slot, const char *prompt, struct server_ask *q, struct stream *s,
               struct err *e)
{
    struct http_reply r;
    char salt[64];
    int32_t *fed = NULL;
    int feds = 0, rc = given_up(x, e);
    if (rc || (!q->warm && (rc = flush(x, slot, e))))
        return rc;
    if (!q->salt) {
        new_salt(x, salt);
        q->salt = salt;
    }
    q->slot = slot;
    q->model = x->model;
    q->vocab = x->profile.vocab;
    q->values = x->profile.values;
    json_t *request = x->dialect->request(q);
    json_object_update(request, x->fields);
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (q->salt == salt)
        q->salt = NULL;
    if (!text)
        return FAIL(e, E_NOMEM, "out of memory");
    rc = http_ask(x->http[slot], x->dialect->path, text, &r, e);
    note(x, rc, e->text);
    free(text);
    if (rc)
        return rc;
    rc = dialect_read(x->dialect, r.status, r.content_type, r.text, r.bytes, q, s, &fed, &feds, e);
    free(r.text);
    if (!rc && fed && (feds != q->n || memcmp(fed, q->ids, (size_t)feds * sizeof *fed))) {
        if (q->kind != ASK_GENERATE)
            rc = FAIL(e, E_ENGINE, "it was sent %d ids and says that it was fed %d others", q->n, feds);
        else if (keep_told(x, prompt, fed, feds))
            fed = NULL;
    }
    free(fed);
    return rc;
}

/* --- answers --- */

static int generate(struct http_engine *x, int slot, const struct engine_request *r, const struct sequence *s,
                    struct stream *out, struct err *e)
{
    struct server_ask q = {.kind = ASK_GENERATE,
                           .ids = s->prompt,
                           .n = s->prompts,
                           .max_new = r->max_new,
                           .stop_at_eos = r->stop_at_eos,
                           .top_k = r->top_k};
    return ask(x, slot, s->name, &q, out, e);
}

/* Row `at` of out from the only row of one. */
static void put_row(struct stream *out, int at, const struct stream *one)
{
    size_t k = (size_t)out->view.top_k;
    out->ids[at] = one->ids[0];
    memcpy(out->view.top_ids + (size_t)at * k, one->view.top_ids, k * sizeof *out->view.top_ids);
    memcpy(out->view.top_values + (size_t)at * k, one->view.top_values, k * sizeof *out->view.top_values);
}

/* One id at a time: warm extends what the server remembers of the sequence, cold computes it anew. */
static int step(struct http_engine *x, int slot, const struct engine_request *r, const struct sequence *s, int warm,
                const int32_t *all, struct stream *out, struct err *e)
{
    char salt[64];
    new_salt(x, salt);
    for (int at = 0; at < s->forceds && !e->code; at++) {
        struct stream one = {0};
        struct server_ask q = {.kind = ASK_NEXT,
                               .ids = all,
                               .n = s->prompts + at,
                               .max_new = 1,
                               .top_k = r->top_k > 0 ? r->top_k : 1,
                               .warm = warm && at > 0,
                               .cached = warm && at > 0 ? s->prompts + at - 1 : 0,
                               .salt = warm ? salt : NULL};
        if (ask(x, slot, s->name, &q, &one, e))
            err_prefix(e, "position %d", at);
        else
            put_row(out, at, &one);
        stream_free(&one);
    }
    return e->code;
}

static int force(struct http_engine *x, int slot, const struct engine_request *r, const struct sequence *s,
                 struct stream *out, struct err *e)
{
    int n = s->prompts + s->forceds, top_k = r->top_k > 0 ? r->top_k : 1;
    int32_t *all = malloc((size_t)n * sizeof *all);
    out->ids = malloc(((size_t)s->forceds + 1) * sizeof *out->ids);
    out->n = s->forceds;
    if (!all || !out->ids) {
        FAIL(e, E_NOMEM, "out of memory");
        goto out;
    }
    memcpy(all, s->prompt, (size_t)s->prompts * sizeof *all);
    memcpy(all + s->prompts, s->forced, (size_t)s->forceds * sizeof *all);
    if (r->mode == MODE_FORCE_PREFILL && x->dialect->prompt_rows) {
        struct server_ask q = {
            .kind = ASK_PROMPT, .ids = all, .n = n, .from = s->prompts, .max_new = 1, .top_k = top_k, .cached = -1};
        if (!ask(x, slot, s->name, &q, out, e)) {
            out->n = s->forceds;
            reply_argmax(&out->view, out->ids);
        }
    } else if (!view_alloc(&out->view, s->forceds, top_k, 0, e)) {
        out->view.kind = x->profile.values;
        step(x, slot, r, s, r->mode == MODE_FORCE_DECODE, all, out, e);
    }
out:
    free(all);
    return e->code;
}

static int answer(struct engine *g, int slot, const struct engine_request *r, struct stream *answers, struct err *e)
{
    struct http_engine *x = (struct http_engine *)g;
    struct engine_request one = *r;
    if (request_check(r, x->profile.vocab, e))
        return e->code;
    if (x->top_k_max && one.top_k > x->top_k_max)
        one.top_k = x->top_k_max;
    for (int i = 0; i < r->seqs; i++) {
        const struct sequence *s = &r->seq[i];
        int rc = r->mode == MODE_GENERATE ? generate(x, slot, &one, s, &answers[i], e)
                                          : force(x, slot, &one, s, &answers[i], e);
        if (rc) {
            for (int k = 0; k <= i; k++) {
                stream_free(&answers[k]);
                memset(&answers[k], 0, sizeof answers[k]);
            }
            return rc;
        }
    }
    return OK;
}

static int fed(struct engine *g, const char *prompt, const int32_t **ids, int *n)
{
    struct http_engine *x = (struct http_engine *)g;
    for (int i = 0; i < x->tolds; i++)
        if (!strcmp(x->told[i].name, prompt)) {
            *ids = x->told[i].ids;
            *n = x->told[i].n;
            return 1;
        }
    return 0;
}

static int counters(struct engine *g, struct counter *out, int max)
{
    (void)g, (void)out, (void)max;
    return 0;
}

/* --- opening --- */

static void close_http(struct engine *g)
{
    struct http_engine *x = (struct http_engine *)g;
    if (!x)
        return;
    for (int i = 0; i < SLOTS_MAX; i++)
        http_close(x->http[i]);
    if (x->server) {
        child_terminate(x->server);
        child_stop(x->server, GRACE);
    }
    for (int i = 0; i < x->tolds; i++)
        free(x->told[i].ids);
    free(x->told);
    json_decref(x->fields);
    json_decref(x->facts.build);
    json_decref(x->facts.models);
    json_decref(x->engine.build);
    engine_profile_free(&x->profile);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

static int free_port(int *port, struct err *e)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &n)
                 ? FAIL(e, E_IO, "no free port")
                 : OK;
    *port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* url with {port} filled in. */
static void fill_url(struct http_engine *x, int port)
{
    const char *at = strstr(x->profile.url, "{port}");
    if (at)
        snprintf(x->url, sizeof x->url, "%.*s%d%s", (int)(at - x->profile.url), x->profile.url, port, at + 6);
    else
        snprintf(x->url, sizeof x->url, "%s", x->profile.url);
}

static int start_server(struct http_engine *x, const struct model *m, struct err *e)
{
    char **argv = NULL, **env = NULL;
    int port = 0;
    if ((strstr(x->profile.url, "{port}") && free_port(&port, e)) ||
        engine_profile_command(&x->profile, m, port, &argv, e) || engine_profile_environment(&x->profile, &env, e))
        goto out;
    fill_url(x, port);
    struct child_start s = {.argv = argv, .env = env, .log = *x->profile.log_file ? x->profile.log_file : "/dev/null"};
    child_start(&s, &x->server, e);
out:
    words_free(argv);
    words_free(env);
    return e->code;
}

/* Until the server answers on its ready path. */
static int wait_ready(struct http_engine *x, struct err *e)
{
    double until = child_clock() + x->profile.ready_seconds;
    const char *path = *x->profile.ready_path ? x->profile.ready_path : "/health";
    for (;;) {
        struct err why = {0};
        struct http_reply r = {0};
        char fate[300];
        if (!child_alive(x->server)) {
            child_fate(x->server, fate, sizeof fate);
            return FAIL(e, E_ENGINE, "the server ended before it was ready: %s%s%s", fate,
                        *x->profile.log_file ? "; see " : "", x->profile.log_file);
        }
        int rc = http_ask(x->http[0], path, NULL, &r, &why);
        free(r.text);
        if (!rc && r.status == 200)
            return OK;
        if (child_clock() > until)
            return FAIL(e, E_ENGINE, "the server was not ready within %.0f s: %.300s", x->profile.ready_seconds,
                        rc ? why.text : "its ready path does not answer 200");
        usleep(200000);
    }
}

static int connect_slots(struct http_engine *x, struct err *e)
{
    struct http_limits l = {x->profile.connect_seconds, x->profile.answer_seconds, x->profile.answer_bytes};
    for (int i = 0; i < x->profile.slots; i++)
        if (http_open(x->url, &l, x->profile.token_file, x->profile.ca_file, &x->http[i], e))
            return e->code;
    return OK;
}

static int probe(struct http_engine *x, struct err *e)
{
    x->facts.build = json_object();
    for (int i = 0; x->dialect->probe[i]; i++) {
        struct http_reply r;
        const char *path = x->dialect->probe[i];
        char excerpt[160];
        if (http_ask(x->http[0], path, NULL, &r, e))
            return e->code;
        reply_excerpt(r.text, r.bytes, excerpt, sizeof excerpt);
        json_t *o = r.status == 200 ? reply_parse(r.text, r.bytes, e) : NULL;
        if (r.status != 200)
            FAIL(e, E_ENGINE, "%s: status %ld: %s; is this a server of the dialect %s?", path, r.status, excerpt,
                 x->dialect->name);
        else if (o)
            x->dialect->facts(path, o, &x->facts, e);
        json_decref(o);
        free(r.text);
        if (e->code)
            return e->code;
    }
    return OK;
}

static int serves(const struct http_engine *x, const char *name)
{
    for (size_t i = 0; i < json_array_size(x->facts.models); i++)
        if (!strcmp(json_string_value(json_array_get(x->facts.models, i)), name))
            return 1;
    return 0;
}

/* The model's name at the server: as the profile or model=NAME says, else assay's, else the only one there is. */
static int choose_model(struct http_engine *x, const struct model *m, struct err *e)
{
    const char *name = *x->profile.served ? x->profile.served : m && serves(x, m->name) ? m->name : x->facts.model;
    if (x->facts.models && (!*name || !serves(x, name))) {
        char *list = json_dumps(x->facts.models, JSON_COMPACT);
        FAIL(e, E_MISSING, "the server does not serve \"%.100s\" but %.300s; model=NAME says which is meant",
             *name ? name
             : m   ? m->name
                   : "",
             list ? list : "");
        free(list);
        return e->code;
    }
    snprintf(x->model, sizeof x->model, "%.255s", name);
    if (x->facts.vocab && x->facts.vocab != x->profile.vocab)
        return FAIL(e, E_MISSING, "the server's model has a vocabulary of %d ids, the one meant here has %d",
                    x->facts.vocab, x->profile.vocab);
    return OK;
}

static void describe(struct http_engine *x)
{
    char flags[120];
    engine_profile_flags_text(&x->profile, flags, sizeof flags);
    x->engine.slots = x->profile.slots;
    x->engine.vocab = x->profile.vocab;
    x->engine.has_logits = 1;
    snprintf(x->engine.arm, sizeof x->engine.arm, "http:%s version=%.40s model=%.60s%s", x->dialect->name,
             *x->facts.version ? x->facts.version : "?", x->model, flags);
    x->engine.build = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:O,s:s}", "engine", x->dialect->name, "version",
                                x->facts.version, "server", x->url, "model", x->model, "values",
                                x->profile.values == VALUE_LOGIT ? "logit" : "logprob", "answers_known_from",
                                x->dialect->evidence, "build", x->facts.build, "profile_sha256", x->profile.sha256);
    snprintf(x->engine.warning, sizeof x->engine.warning,
             "the server's model files were not compared: it names its model \"%.100s\" and no hashes", x->model);
    for (int i = 0; i < x->profile.flags; i++)
        if (x->profile.flag[i].via == VIA_FIELD && *x->profile.flag[i].value) {
            const char *text = x->profile.flag[i].value;
            json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
            json_object_set_new(x->fields, x->profile.flag[i].key, v ? v : json_string(text));
        }
}

static int open_http(const struct engine_open *o, struct engine **out, struct err *e)
{
    char names[200] = "";
    struct timespec now;
    struct http_engine *x = calloc(1, sizeof *x);
    if (!x)
        return FAIL(e, E_NOMEM, "out of memory");
    pthread_mutex_init(&x->lock, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    x->session = (unsigned long)now.tv_sec * 1000003ul + (unsigned long)now.tv_nsec + (unsigned long)getpid();
    x->engine.ops = &engine_http;
    x->fields = json_object();
    if (engine_profile_open("http", o, &x->profile, e))
        goto out;
    for (int i = 0; dialect_all[i]; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", dialect_all[i]->name);
    if (!(x->dialect = dialect_find(x->profile.dialect))) {
        FAIL(e, E_USAGE, "no dialect \"%.40s\"; there are:%s", x->profile.dialect, names);
        goto out;
    }
    x->top_k_max = x->profile.top_k ? x->profile.top_k : x->dialect->top_k_max;
    fill_url(x, 0);
    if ((x->profile.command && start_server(x, o->model, e)) || connect_slots(x, e) ||
        (x->server && wait_ready(x, e)) || probe(x, e) || choose_model(x, o->model, e)) {
        err_prefix(e, "http:%s", x->dialect->name);
        goto out;
    }
    describe(x);
    *out = &x->engine;
    x = NULL;
out:
    close_http((struct engine *)x);
    return e->code;
}

ENGINE(http) = {
    .name = "http",
    .summary = "a server: vLLM, SGLang, llama.cpp (batteries/engines)",
    .wants_model = 1,
    .isolated = 1,
    .flag_help = "slots=N timeout=SECONDS model=NAME vocab=N values=logit|logprob, and those of its profile",
    .open = open_http,
    .close = close_http,
    .answer = answer,
    .counters = counters,
    .fed = fed,
};
