#include "goldens/exchange.h"
#include "goldens/lmeval.h"
#include "harness/models/load.h"
#include "harness/prompts.h"
#include "tools/import_more.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tokenizer_of(const struct tool *t, const char *model, struct tokenizer **tok, char *sha256, struct err *e)
{
    struct model *m = NULL;
    char path[600];
    if (tool_model(t, model, &m, e))
        return e->code;
    snprintf(path, sizeof path, "%s/tokenizer.json", m->path);
    model_close(m);
    return sha256_file(path, sha256, e) || tokenizer_open(path, tok, e) ? e->code : OK;
}

static int fill(struct battery *b, const char *path, const struct import_options *o, struct err *e)
{
    char *end;
    long tokens = o->tokens ? strtol(o->tokens, &end, 10) : 16;
    const char *slash = strrchr(path, '/');
    if (o->tokens && (*end || tokens < 1 || tokens > 1 << 20))
        return FAIL(e, E_USAGE, "--tokens %s: a number from 1 to %d is expected", o->tokens, 1 << 20);
    if (strlen(o->name) >= sizeof b->name)
        return FAIL(e, E_USAGE, "--name %s: below %zu bytes", o->name, sizeof b->name);
    b->max_new_tokens = (int)tokens;
    b->stop_at_eos = 1;
    b->razor_ulp = 2;
    b->razor_cap_nats = 0.5;
    snprintf(b->name, sizeof b->name, "%s", o->name);
    snprintf(b->note, sizeof b->note, "contexts of %.200s", slash ? slash + 1 : path);
    return OK;
}

/* A battery's identity is its file's hash: it is written once, read back, and put into the store. */
static int seal(struct store *s, const struct battery *b, struct battery **sealed, struct err *e)
{
    char path[] = P_tmpdir "/assay-battery-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return FAIL(e, E_IO, "%s: cannot be made", path);
    close(fd);
    if (!battery_write(path, b, e) && !battery_read(path, sealed, e))
        store_battery_put(s, *sealed, e);
    unlink(path);
    return e->code;
}

int import_lm_eval(const struct tool *t, struct store *s, const char *path, const struct import_options *o,
                   struct err *e)
{
    struct battery *b = calloc(1, sizeof *b), *sealed = NULL;
    struct tokenizer *tok = NULL;
    void *text = NULL;
    char *lines = NULL;
    size_t bytes, n;
    int prompts, samples;
    if (!b)
        FAIL(e, E_NOMEM, "out of memory");
    else if (!o->name || !o->model)
        FAIL(e, E_USAGE, "--model and --name are needed: text becomes ids by a tokenizer, a battery has a name");
    else if (!fill(b, path, o, e) && !tokenizer_of(t, o->model, &tok, b->tokenizer_sha256, e) &&
             !packed_read(path, (size_t)1 << 30, &text, &bytes, e) &&
             !lmeval_prompts(path, text, bytes, &lines, &n, &prompts, &samples, e) &&
             !prompts_add(b, tok, path, lines, n, e) && !seal(s, b, &sealed, e)) {
        if (t->json)
            printf("{\"battery\":\"%s\",\"prompts\":%d,\"samples\":%d,\"max_new_tokens\":%d,\"sha256\":\"%s\"}\n",
                   b->name, prompts, samples, b->max_new_tokens, sealed->sha256);
        else
            printf("battery %s: %d prompts out of %d samples, up to %d tokens each, tokenizer %.12s\n", b->name,
                   prompts, samples, b->max_new_tokens, b->tokenizer_sha256);
    }
    free(lines);
    free(text);
    tokenizer_close(tok);
    battery_free(sealed);
    battery_free(b);
    return e->code;
}
