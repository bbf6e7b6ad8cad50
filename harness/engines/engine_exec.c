/* exec - any program that speaks the line protocol of tools/examples/README.md
 *
 * exec:PROFILE or exec:COMMAND. Each slot is a process of its own. A program that ends, hangs or talks nonsense is
 * stopped and costs the answer that was asked for; the next request starts it again.
 */
#include "harness/base/json.h"
#include "harness/engines/child.h"
#include "harness/engines/profile_engine.h"
#include "harness/engines/reply.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern ENGINE(exec);

#define SLOTS_MAX  64
#define PROTOCOL   1
#define STARTS_MAX 3 /* in a row, without one answer between */

struct process {
    struct child *child;
    int fruitless; /* starts since the last answer */
    int64_t id;
    struct counter counter[COUNTERS_MAX];
    int counters;
};

struct exec_engine {
    struct engine engine;
    struct engine_profile profile;
    char **argv, **env;
    json_t *hello; /* the first answer to it; a later process must say the same */
    char model_name[128], model_dir[512], dtype[32];
    int32_t eos[8];
    int eos_count, decode_shaped, prefill_shaped;
    struct process process[SLOTS_MAX];
    char given_up[300];
    pthread_mutex_t lock;
};

static void stop(struct process *p, double grace)
{
    child_stop(p->child, grace);
    p->child = NULL;
}

/* One request, one answer. A failure stops the program. New reference. */
static json_t *talk(struct exec_engine *x, struct process *p, json_t *request, double seconds, struct err *e)
{
    char *text = json_dumps(request, JSON_COMPACT), *line;
    size_t n;
    json_t *answer = NULL;
    double deadline = child_clock() + seconds;
    if (!text) {
        FAIL(e, E_NOMEM, "out of memory");
        return NULL;
    }
    n = strlen(text);
    text[n] = '\n'; /* over the end: the length says where it is */
    if (!child_send(p->child, text, n + 1, deadline, e) &&
        !child_line(p->child, x->profile.answer_bytes, deadline, &line, &n, e))
        answer = reply_parse(line, n, e);
    free(text);
    if (answer && !json_is_object(answer)) {
        FAIL(e, E_ENGINE, "its answer is no JSON object");
        json_decref(answer);
        answer = NULL;
    }
    if (!answer)
        stop(p, 0);
    return answer;
}

static json_t *flags_object(const struct engine_profile *p)
{
    json_t *o = json_object();
    for (int i = 0; i < p->flags; i++)
        if (p->flag[i].via == VIA_HELLO && *p->flag[i].value)
            json_object_set_new(o, p->flag[i].key, json_string(p->flag[i].value));
    return o;
}

static int check_hello(const json_t *h, struct err *e)
{
    const char *text;
    int64_t version;
    struct err why = {0};
    if (json_object_get(h, "error"))
        return FAIL(e, E_ENGINE, "it refused: %.300s",
                    json_is_string(json_object_get(h, "error")) ? json_string_value(json_object_get(h, "error")) : "?");
    if (json_get_int(h, "assay", 0, 1 << 20, &version, "its hello", &why) ||
        json_get_str(h, "engine", &text, "its hello", &why) || json_get_str(h, "values", &text, "its hello", &why))
        return FAIL(e, E_ENGINE, "%s", why.text);
    if (version != PROTOCOL)
        return FAIL(e, E_ENGINE, "it speaks version %lld of the protocol, assay speaks %d", (long long)version,
                    PROTOCOL);
    if (strcmp(text, "logit") && strcmp(text, "logprob") && strcmp(text, "none"))
        return FAIL(e, E_ENGINE, "its hello: \"values\" is \"%.40s\", must be logit, logprob or none", text);
    return OK;
}

static int same_member(const json_t *a, const json_t *b, const char *key)
{
    json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return (!x && !y) || json_equal(x, y);
}

/* Starts the program when it does not run, and greets it. */
static int greet(struct exec_engine *x, struct process *p, struct err *e)
{
    if (p->child && child_alive(p->child))
        return OK;
    stop(p, 0);
    if (p->fruitless >= STARTS_MAX)
        return FAIL(e, E_ENGINE, "it was started %d times without one answer, and is not started again", STARTS_MAX);
    p->fruitless++;
    struct child_start s = {.argv = x->argv, .env = x->env};
    if (child_start(&s, &p->child, e))
        return e->code;
    json_t *hello = json_pack("{s:i,s:s,s:s?,s:s?,s:i,s:o}", "assay", PROTOCOL, "op", "hello", "model",
                              *x->model_name ? x->model_name : NULL, "model_dir", *x->model_dir ? x->model_dir : NULL,
                              "vocab", x->profile.vocab, "flags", flags_object(&x->profile));
    json_t *answer = talk(x, p, hello, x->profile.ready_seconds, e);
    json_decref(hello);
    if (!answer)
        return err_prefix(e, "hello");
    if (check_hello(answer, e)) {
        stop(p, 0);
    } else if (!x->hello) {
        x->hello = json_incref(answer);
    } else if (!same_member(x->hello, answer, "engine") || !same_member(x->hello, answer, "version") ||
               !same_member(x->hello, answer, "values") || !same_member(x->hello, answer, "build")) {
        FAIL(e, E_ENGINE, "it says another version or build than before");
        stop(p, 0);
    }
    json_decref(answer);
    return e->code;
}

/* --- answers --- */

static int read_list(const json_t *list, struct view *v, int row, int vocab, struct err *e)
{
    int n = (int)json_array_size(list);
    struct listed *l = calloc((size_t)n + 1, sizeof *l);
    if (!l)
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < n && !e->code; i++) {
        const json_t *pair = json_array_get(list, (size_t)i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= vocab)
            FAIL(e, E_ENGINE, "top[%d][%d] of its answer is no [id of the vocabulary of %d, value]", row, i, vocab);
        else if (!reply_value(json_array_get(pair, 1), &l[i].value, e))
            l[i].id = (int32_t)json_integer_value(id);
    }
    if (!e->code)
        reply_row(v, row, l, n, vocab, -3.4e38f, e);
    if (!e->code && v->top_ids[(size_t)row * (size_t)v->top_k] < 0)
        FAIL(e, E_ENGINE, "top[%d] of its answer is empty", row);
    free(l);
    return e->code;
}

static int read_hash(const json_t *h, uint8_t *out)
{
    const char *s = json_string_value(h);
    if (!s || strlen(s) != 2 * SHA256_BYTES)
        return 0;
    for (int i = 0; i < SHA256_BYTES; i++) {
        unsigned byte;
        if (sscanf(s + 2 * i, "%2x", &byte) != 1)
            return 0;
        out[i] = (uint8_t)byte;
    }
    return 1;
}

/* top, logsumexp and row_sha256 of n rows. */
static int read_rows(const struct exec_engine *x, const json_t *a, int n, int top_k, struct view *v, struct err *e)
{
    const json_t *top = json_object_get(a, "top"), *sum = json_object_get(a, "logsumexp"),
                 *hash = json_object_get(a, "row_sha256");
    if (!x->engine.has_logits || !top_k)
        return OK;
    if (!json_is_array(top) || (int)json_array_size(top) != n)
        return FAIL(e, E_ENGINE, "its answer has %d top lists for %d ids", (int)json_array_size(top), n);
    if ((sum && (int)json_array_size(sum) != n) || (hash && (int)json_array_size(hash) != n))
        return FAIL(e, E_ENGINE, "its answer has logsumexp or row_sha256 for another number of rows than %d", n);
    if (view_alloc(v, n, top_k, hash != NULL, e))
        return e->code;
    v->kind = x->profile.values;
    for (int row = 0; row < n && !e->code; row++) {
        float lse = 0;
        if (read_list(json_array_get(top, (size_t)row), v, row, x->profile.vocab, e))
            break;
        if (sum && reply_value(json_array_get(sum, (size_t)row), &lse, e))
            break;
        v->logsumexp[row] = sum && json_is_number(json_array_get(sum, (size_t)row))
                                ? json_number_value(json_array_get(sum, (size_t)row))
                                : (double)lse;
        if (hash && !read_hash(json_array_get(hash, (size_t)row), v->row_sha256 + (size_t)row * SHA256_BYTES))
            FAIL(e, E_ENGINE, "row_sha256[%d] of its answer is no hash", row);
    }
    return e->code ? e->code : reply_kind(v, e);
}

static int read_counters(const json_t *a, struct process *p, struct err *e)
{
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(a, "counters"), name, v)
    {
        const json_t *ran = json_is_object(v) ? json_object_get(v, "ran") : v,
                     *expected = json_object_get(v, "expected");
        struct counter c = {.ran = json_integer_value(ran), .expected = expected ? json_integer_value(expected) : -1};
        if (!json_is_integer(ran) || (expected && !json_is_integer(expected)) || strlen(name) >= sizeof c.name)
            return FAIL(e, E_ENGINE, "counter \"%.60s\" of its answer is no number", name);
        snprintf(c.name, sizeof c.name, "%s", name);
        p->counters = counters_add(p->counter, p->counters, COUNTERS_MAX, &c, 1);
    }
    return OK;
}

static int read_answer(struct exec_engine *x, struct process *p, const struct engine_request *q, const json_t *a,
                       struct stream *s, struct err *e)
{
    const json_t *refused = json_object_get(a, "error"), *id = json_object_get(a, "id");
    const char *finish = json_string_value(json_object_get(a, "finish"));
    char excerpt[200];
    int most = q->mode == MODE_GENERATE ? q->max_new : q->seq->forceds;
    if (!json_is_integer(id) || json_integer_value(id) != p->id)
        return FAIL(e, E_ENGINE, "its answer has id %lld, the request had %lld", (long long)json_integer_value(id),
                    (long long)p->id);
    if (refused) {
        const char *why = json_string_value(refused);
        reply_excerpt(why ? why : "?", why ? strlen(why) : 1, excerpt, sizeof excerpt);
        return FAIL(e, E_ENGINE, "it refused: %s", excerpt);
    }
    if (reply_ids(json_object_get(a, "ids"), "ids", x->profile.vocab, &s->ids, &s->n, e))
        return e->code;
    if (s->n > most || !s->n || (q->mode != MODE_GENERATE && s->n != most))
        return FAIL(e, E_ENGINE, "its answer has %d ids where %d were asked for", s->n, most);
    if (q->mode == MODE_GENERATE && (!finish || (strcmp(finish, "stop") && strcmp(finish, "length"))))
        return FAIL(e, E_ENGINE, "its answer's \"finish\" must be stop or length");
    s->finish = finish && !strcmp(finish, "stop") ? FINISH_STOP : FINISH_LENGTH;
    if (q->mode == MODE_GENERATE && s->finish == FINISH_LENGTH && s->n < most)
        return FAIL(e, E_ENGINE, "it finished by length after %d of %d ids", s->n, most);
    if (read_rows(x, a, s->n, q->top_k, &s->view, e) || reply_greedy(s, e))
        return e->code;
    return read_counters(a, p, e);
}

static json_t *id_array(const int32_t *ids, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

static json_t *request_object(const struct exec_engine *x, const struct engine_request *q, int64_t id)
{
    const struct sequence *s = q->seq;
    int top_k = x->engine.has_logits ? q->top_k : 0;
    if (q->mode == MODE_GENERATE)
        return json_pack("{s:I,s:s,s:o,s:i,s:b,s:o,s:i}", "id", (json_int_t)id, "op", "generate", "prompt",
                         id_array(s->prompt, s->prompts), "max_new", q->max_new, "stop_at_eos", q->stop_at_eos, "eos",
                         id_array(x->eos, x->eos_count), "top_k", top_k);
    return json_pack("{s:I,s:s,s:s,s:o,s:o,s:i}", "id", (json_int_t)id, "op", "force", "shape",
                     q->mode == MODE_FORCE_DECODE ? "decode" : "prefill", "prompt", id_array(s->prompt, s->prompts),
                     "forced", id_array(s->forced, s->forceds), "top_k", top_k);
}

static int answer_one(struct exec_engine *x, struct process *p, const struct engine_request *q, struct stream *s,
                      struct err *e)
{
    if (q->mode == MODE_FORCE_DECODE ? !x->decode_shaped : q->mode == MODE_FORCE_PREFILL && !x->prefill_shaped)
        return FAIL(e, E_MISSING, "the engine cannot be forced in this shape");
    pthread_mutex_lock(&x->lock); /* hello is kept once for all slots */
    int rc = greet(x, p, e);
    pthread_mutex_unlock(&x->lock);
    if (rc)
        return rc;
    json_t *request = request_object(x, q, ++p->id), *a = talk(x, p, request, x->profile.answer_seconds, e);
    json_decref(request);
    if (!a)
        return e->code;
    if (!read_answer(x, p, q, a, s, e))
        p->fruitless = 0;
    else if (!json_object_get(a, "error"))
        stop(p, 0); /* who answered nonsense once is not asked again as it is */
    else
        p->fruitless = 0;
    json_decref(a);
    return e->code;
}

static int answer(struct engine *g, int slot, const struct engine_request *q, struct stream *answers, struct err *e)
{
    struct exec_engine *x = (struct exec_engine *)g;
    if (request_check(q, x->profile.vocab, e))
        return e->code;
    for (int i = 0; i < q->seqs; i++) {
        struct engine_request one = *q;
        one.seq = &q->seq[i];
        one.seqs = 1;
        if (answer_one(x, &x->process[slot], &one, &answers[i], e)) {
            stream_free(&answers[i]);
            return e->code;
        }
    }
    return OK;
}

static int slot_counters(struct engine *g, int slot, struct counter *out, int max)
{
    const struct process *p = &((struct exec_engine *)g)->process[slot];
    int n = p->counters < max ? p->counters : max;
    memcpy(out, p->counter, (size_t)n * sizeof *out);
    return n;
}

static int counters(struct engine *g, struct counter *out, int max)
{
    struct counter one[COUNTERS_MAX];
    int n = 0;
    for (int i = 0; i < g->slots; i++)
        n = counters_add(out, n, max, one, slot_counters(g, i, one, COUNTERS_MAX));
    return n;
}

/* --- opening --- */

static void close_exec(struct engine *g)
{
    struct exec_engine *x = (struct exec_engine *)g;
    if (!x)
        return;
    for (int i = 0; i < SLOTS_MAX; i++) {
        struct err none = {0};
        if (x->process[i].child)
            child_send(x->process[i].child, "{\"op\":\"bye\"}\n", 13, child_clock() + 1, &none);
        stop(&x->process[i], 1.0);
    }
    pthread_mutex_destroy(&x->lock);
    json_decref(x->hello);
    json_decref(x->engine.build);
    words_free(x->argv);
    words_free(x->env);
    engine_profile_free(&x->profile);
    free(x);
}

/* Files among the words of the command: what the program is. */
static json_t *program_files(char **argv)
{
    json_t *files = json_object();
    for (int i = 0; argv[i]; i++) {
        struct stat st;
        char hash[SHA256_HEX_SIZE];
        struct err none = {0};
        const char *base = strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i];
        if (!stat(argv[i], &st) && S_ISREG(st.st_mode) && !sha256_file(argv[i], hash, &none))
            json_object_set_new(files, base, json_string(hash));
    }
    return files;
}

/* The engine's model files against those that assay has, where both tell. */
static int compare_files(const struct exec_engine *x, const struct model *m, struct err *e)
{
    const json_t *theirs = json_object_get(x->hello, "model_files");
    for (int i = 0; m && theirs && i < m->files; i++) {
        const char *hash = json_string_value(json_object_get(theirs, m->file[i].name));
        if (hash && strcmp(hash, m->file[i].sha256))
            return FAIL(e, E_MISSING, "the engine's %s is another file (SHA-256 %.12s) than that of model %s (%.12s)",
                        m->file[i].name, hash, m->name, m->file[i].sha256);
    }
    return OK;
}

static int shape_listed(const json_t *hello, const char *shape)
{
    const json_t *shapes = json_object_get(hello, "shapes");
    for (size_t i = 0; i < json_array_size(shapes); i++)
        if (!strcmp(shape,
                    json_is_string(json_array_get(shapes, i)) ? json_string_value(json_array_get(shapes, i)) : ""))
            return 1;
    return !shapes;
}

static void describe(struct exec_engine *x, const struct model *m)
{
    const json_t *h = x->hello;
    const char *name = json_string_value(json_object_get(h, "engine")),
               *version = json_string_value(json_object_get(h, "version")),
               *values = json_string_value(json_object_get(h, "values")),
               *dtype = json_string_value(json_object_get(h, "dtype"));
    char flags[160];
    engine_profile_flags_text(&x->profile, flags, sizeof flags);
    x->engine.has_logits = strcmp(values, "none") != 0;
    x->profile.values = strcmp(values, "logit") ? VALUE_LOGPROB : VALUE_LOGIT;
    x->decode_shaped = x->engine.has_logits && shape_listed(h, "decode");
    x->prefill_shaped = x->engine.has_logits && shape_listed(h, "prefill");
    snprintf(x->engine.arm, sizeof x->engine.arm, "exec:%.60s version=%.30s%s", name, version ? version : "?", flags);
    x->engine.build =
        json_pack("{s:s,s:s,s:s,s:s?,s:s,s:o,s:O?,s:s}", "engine", name, "version", version ? version : "?", "values",
                  values, "dtype", dtype, "command", x->profile.command_text, "files", program_files(x->argv), "build",
                  json_object_get(h, "build"), "profile_sha256", x->profile.sha256);
    if (!m || !json_object_get(h, "model_files"))
        snprintf(x->engine.warning, sizeof x->engine.warning,
                 "its model files were not compared: it does not tell their hashes");
}

static int open_exec(const struct engine_open *o, struct engine **out, struct err *e)
{
    struct exec_engine *x = calloc(1, sizeof *x);
    if (!x)
        return FAIL(e, E_NOMEM, "out of memory");
    pthread_mutex_init(&x->lock, NULL);
    x->engine.ops = &engine_exec;
    if (o->model) {
        const struct model_config *c = &o->model->config;
        snprintf(x->model_name, sizeof x->model_name, "%s", o->model->name);
        snprintf(x->model_dir, sizeof x->model_dir, "%s", o->model->path);
        memcpy(x->eos, c->eos, sizeof x->eos);
        x->eos_count = c->eos_count;
    }
    if (engine_profile_open("exec", o, &x->profile, e) ||
        engine_profile_command(&x->profile, o->model, 0, &x->argv, e) ||
        engine_profile_environment(&x->profile, &x->env, e))
        goto out;
    if (*x->profile.served)
        snprintf(x->model_name, sizeof x->model_name, "%.127s", x->profile.served);
    x->engine.slots = x->profile.slots;
    x->engine.vocab = x->profile.vocab;
    if (greet(x, &x->process[0], e) || compare_files(x, o->model, e)) {
        err_prefix(e, "exec:%.100s", x->profile.command_text);
        goto out;
    }
    x->process[0].fruitless = 0;
    describe(x, o->model);
    *out = &x->engine;
    x = NULL;
out:
    close_exec((struct engine *)x);
    return e->code;
}

ENGINE(exec) = {
    .name = "exec",
    .summary = "any program that speaks JSON Lines on its standard streams (tools/examples)",
    .wants_model = 1,
    .isolated = 1,
    .flag_help = "slots=N timeout=SECONDS ready=SECONDS model=NAME vocab=N, and the program's own flags",
    .open = open_exec,
    .close = close_exec,
    .answer = answer,
    .counters = counters,
    .slot_counters = slot_counters,
};
