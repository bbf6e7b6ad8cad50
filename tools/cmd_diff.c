/* assay diff - which tokens and which logits rows changed between two stored runs */
#include "goldens/store.h"
#include "harness/rows.h"
#include "reports/escape.h"
#include "tools/import_more.h"
#include "tools/run_text.h"
#include "tools/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay diff RUN RUN\n"
    "       assay diff kld BASE TEST\n"
    "\n"
    "Compares the free runs of two stored runs of one battery, prompt by prompt: the first token that changed, how "
    "many\n"
    "tokens differ, and how many logits rows differ in any bit (until the first changed token).\n"
    "\n"
    "kld compares two base files of llama.cpp (imported ones by name, or files): KL divergence, same top, change of "
    "p,\n"
    "perplexity, each with its error, after every chunk.\n"
    "\n"
    "Exit status: 0 nothing changed, 1 something changed, 4 a run or an answer is missing.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(diff) = {
    .name = "diff", .summary = "which tokens changed between two runs", .usage = usage, .order = 42, .run = run};

struct side {
    int64_t run;
    json_t *object;
    struct stream stream;
};

struct change {
    int prompts, prompts_changed, tokens, tokens_changed, rows, rows_changed, missing;
    json_t *list;
};

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int load(struct store *s, struct side *side, struct err *e)
{
    return store_run_get(s, side->run, &side->object, e);
}

static void compare(const char *prompt, const struct stream *a, const struct stream *b, struct change *c)
{
    int most = a->n > b->n ? a->n : b->n, least = a->n < b->n ? a->n : b->n, first = 0, changed = 0, rows = 0;
    while (first < least && a->ids[first] == b->ids[first])
        first++;
    for (int i = first; i < most; i++)
        changed += i >= least || a->ids[i] != b->ids[i];
    for (int i = 0; i <= first && i < least; i++) {
        if (!row_comparable(&a->view, i, &b->view, i))
            continue;
        c->rows++;
        rows += !row_equal(&a->view, i, &b->view, i);
    }
    c->prompts++;
    c->tokens += most;
    c->tokens_changed += changed;
    c->rows_changed += rows;
    c->prompts_changed += changed > 0;
    if (!changed && !rows)
        return;
    json_t *o = json_pack("{s:s,s:i,s:i,s:i}", "prompt", prompt, "tokens", most, "tokens_changed", changed,
                          "rows_changed", rows);
    if (changed) {
        json_object_set_new(o, "first", json_integer(first));
        json_object_set_new(o, "a", first < a->n ? json_integer(a->ids[first]) : json_null());
        json_object_set_new(o, "b", first < b->n ? json_integer(b->ids[first]) : json_null());
    }
    json_array_append_new(c->list, o);
}

static int compare_all(struct store *s, struct side *a, struct side *b, struct change *c, struct err *e)
{
    struct battery *battery = NULL;
    int rc = store_battery_get(s, str(a->object, "battery"), &battery, e);
    for (int i = 0; rc == OK && i < battery->prompts; i++) {
        const char *name = battery->prompt[i].name;
        int have_a = 0, have_b = 0;
        if ((rc = store_stream_get(s, a->run, name, PHASE_FREE, &a->stream, &have_a, e)) ||
            (rc = store_stream_get(s, b->run, name, PHASE_FREE, &b->stream, &have_b, e)))
            break;
        if (have_a && have_b)
            compare(name, &a->stream, &b->stream, c);
        else
            c->missing++;
        stream_free(&a->stream);
        stream_free(&b->stream);
    }
    stream_free(&a->stream);
    battery_free(battery);
    return rc;
}

static void print_id(const json_t *id, const struct token_text *tok)
{
    run_text_id(stdout, json_is_integer(id) ? (long)json_integer_value(id) : -1, tok);
}

static void print(const struct tool *t, const struct side *a, const struct side *b, const struct change *c)
{
    size_t i;
    json_t *o;
    if (t->json) {
        json_t *all = json_pack("{s:I,s:I,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:O}", "a", (json_int_t)a->run, "b",
                                (json_int_t)b->run, "prompts", c->prompts, "prompts_changed", c->prompts_changed,
                                "tokens", c->tokens, "tokens_changed", c->tokens_changed, "rows", c->rows,
                                "rows_changed", c->rows_changed, "missing", c->missing, "changes", c->list);
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(all);
        return;
    }
    json_visible(a->object);
    json_visible(b->object);
    json_visible(c->list);
    printf("a  run %-5lld %s, %s, %s\n", (long long)a->run, str(a->object, "model"), str(a->object, "battery"),
           str(a->object, "arm"));
    printf("b  run %-5lld %s, %s, %s\n\n", (long long)b->run, str(b->object, "model"), str(b->object, "battery"),
           str(b->object, "arm"));
    struct token_text *tok = token_text_open(t, str(a->object, "model"));
    json_array_foreach(c->list, i, o)
    {
        long changed = (long)json_integer_value(json_object_get(o, "tokens_changed"));
        printf("%-8s %3ld of %3ld tokens changed, %3ld logits rows", str(o, "prompt"), changed,
               (long)json_integer_value(json_object_get(o, "tokens")),
               (long)json_integer_value(json_object_get(o, "rows_changed")));
        if (changed) {
            printf(", first at %ld: ", (long)json_integer_value(json_object_get(o, "first")));
            print_id(json_object_get(o, "a"), tok);
            fputs(" -> ", stdout);
            print_id(json_object_get(o, "b"), tok);
        }
        putchar('\n');
    }
    token_text_close(tok);
    printf("%d of %d prompts and %d of %d tokens changed; %d of %d comparable logits rows differ\n", c->prompts_changed,
           c->prompts, c->tokens_changed, c->tokens, c->rows_changed, c->rows);
    if (c->missing)
        printf("%d prompts have no answer in one of the runs\n", c->missing);
}

static int run(struct tool *t, int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_diff, argc, argv, NULL, words, &status) : -1;
    struct err e = {0};
    struct store *s = NULL;
    struct side a = {0}, b = {0};
    struct change c = {.list = json_array()};
    if (n < 0)
        goto out;
    if (n == 3 && !strcmp(words[0], "kld")) {
        status = diff_kld(t, words[1], words[2], &e);
        if (e.code)
            status = tool_fail(t, "diff", &e);
        goto out;
    }
    if (n < 2)
        FAIL(&e, E_USAGE, "two runs are needed; `assay list` shows them");
    if (e.code || run_number(n, words, 0, 2, &a.run, &e) || run_number(n, words, 1, 2, &b.run, &e) ||
        store_open(t->store_path, &s, &e) || load(s, &a, &e) || load(s, &b, &e) ||
        (strcmp(str(a.object, "battery"), str(b.object, "battery")) &&
         FAIL(&e, E_USAGE, "run %lld is of battery %s, run %lld of %s: they have no prompts in common",
              (long long)a.run, str(a.object, "battery"), (long long)b.run, str(b.object, "battery"))) ||
        compare_all(s, &a, &b, &c, &e)) {
        status = tool_fail(t, "diff", &e);
        goto out;
    }
    print(t, &a, &b, &c);
    status = c.tokens_changed || c.rows_changed ? 1 : c.missing || !c.prompts ? 4 : 0;
out:
    json_decref(a.object);
    json_decref(b.object);
    json_decref(c.list);
    store_close(s);
    free(words);
    return status;
}
