/* assay ratify - a person's signed yes: shows what changes, asks, writes anchor, golden, ledger and mirror */
#include "harness/ratify/plan.h"
#include "tools/run_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGES_SHOWN 40

static const char usage[] =
    "usage: assay ratify RUN --reason CLASS --by WHO [--note TEXT] [--ab RUN] [--yes] [--mirror DIR]\n"
    "       assay ratify --all --yes --reason CLASS --by WHO\n"
    "\n"
    "Says yes to the ids of a finished run whose every difference is a tie or a near tie. It shows each token that\n"
    "changes and asks; then the run's ids become the anchor of its arm on its device, a pending golden becomes active "
    "and\n"
    "supersedes the old one, the ledger gets a row, and the anchor's text is mirrored beside the store.\n"
    "\n"
    "Ids that are not all the golden's need evidence: `assay capture --oracle O --force RUN` (an oracle fed the arm's "
    "own\n"
    "ids), or --ab RUN, a run of the same build, model, battery and golden by another route that passed.\n"
    "\n"
    "  --reason CLASS  first, reduction-order, kernel, device, oracle, dtype, model, battery, fix\n"
    "  --by WHO        the reviewer\n"
    "  --note TEXT     why, in words\n"
    "  --yes           do not ask\n"
    "  --all           the newest run of every arm that passed by razor or against a pending golden; needs --yes too\n"
    "  --mirror DIR    writes the texts there as well, for a pull request\n"
    "Options: --store FILE, --json.\n"
    "\n"
    "Exit status: 0 ratified, 1 refused or not wanted, 4 evidence is missing, 5 the evidence changed.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(ratify) = {.name = "ratify",
                   .summary = "a signed yes to a run's ids: anchor, golden, ledger",
                   .usage = usage,
                   .order = 45,
                   .run = run};

struct options {
    const char *reason, *by, *note, *ab, *yes, *all, *mirror;
};

static const char *say(void *arg, int32_t id, char *buf, size_t size)
{
    return token_text_quote(arg, id, buf, size);
}

static void print_change(FILE *f, const json_t *c, const struct token_text *tok)
{
    const json_t *gap = json_object_get(c, "gap_nats");
    fprintf(f, "  %s token %lld: ", json_string_value(json_object_get(c, "prompt")),
            (long long)json_integer_value(json_object_get(c, "position")));
    run_text_id(f, (long)json_integer_value(json_object_get(c, "old_id")), tok);
    fputs(" -> ", f);
    run_text_id(f, (long)json_integer_value(json_object_get(c, "new_id")), tok);
    if (json_is_number(gap))
        fprintf(f, ", gap %.6g nat", json_number_value(gap));
    long long after = json_integer_value(json_object_get(c, "after"));
    if (after)
        fprintf(f, ", and %lld tokens after it", after);
    fprintf(f, " (%s)\n", json_string_value(json_object_get(c, "against")));
}

static void print_plan(FILE *f, const struct ratify_plan *p, const struct token_text *tok)
{
    const struct anchor *a = p->anchor;
    size_t i, n = json_array_size(p->changes);
    json_t *c;
    fprintf(f,
            "run       %lld, %s\narm       %s\ndevice    %s\nmodel     %s, battery %s, golden %.12s%s\nevidence  %s\n",
            (long long)a->run, json_string_value(json_object_get(p->run, "verdict")), a->arm,
            *a->device ? a->device : "not told", a->model, a->battery, a->golden_sha256,
            p->activates ? " (pending, becomes active)" : "", a->evidence);
    json_array_foreach(p->outdated, i, c) fprintf(f, "supersedes golden %.12s\n", json_string_value(c));
    if (*p->replaces)
        fprintf(f, "replaces  anchor %.12s\n", p->replaces);
    fprintf(f, "changes   %zu\n", n);
    json_array_foreach(p->changes, i, c)
    {
        if (i < CHANGES_SHOWN)
            print_change(f, c, tok);
    }
    if (n > CHANGES_SHOWN)
        fprintf(f, "  and %zu more\n", n - CHANGES_SHOWN);
}

static int wanted(const struct options *o)
{
    char answer[16] = "";
    if (o->yes)
        return 1;
    fputs("ratify? [y/N] ", stderr);
    fflush(stderr);
    if (!fgets(answer, sizeof answer, stdin))
        fputc('\n', stderr);
    return !strcmp(answer, "y\n") || !strcmp(answer, "yes\n");
}

static int write_down(const struct tool *t, struct store *s, const struct ratify_plan *p, const struct options *o,
                      struct err *e)
{
    int64_t seq;
    int files;
    json_t *more = json_pack("{s:O,s:s}", "changes", p->changes, "run_verdict",
                             json_string_value(json_object_get(p->run, "verdict")));
    struct ratification r = {.anchor = p->anchor,
                             .text = p->text,
                             .bytes = p->bytes,
                             .replaces = p->replaces,
                             .activates = p->activates,
                             .outdated = p->outdated,
                             .more = more,
                             .mirror = o->mirror};
    int rc = store_ratify(s, &r, &seq, &files, e);
    json_decref(more);
    if (rc)
        return rc;
    if (t->json) {
        json_t *out = json_pack("{s:I,s:I,s:s,s:s,s:s,s:O,s:O,s:b,s:s}", "ratification", (json_int_t)seq, "run",
                                (json_int_t)p->anchor->run, "arm", p->anchor->arm, "device", p->anchor->device,
                                "golden", p->anchor->golden_sha256, "changes", p->changes, "supersedes", p->outdated,
                                "activates", p->activates, "evidence", p->anchor->evidence);
        json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(out);
    } else {
        printf("ratified  ledger row %lld; %d anchors in force are mirrored\nundo      assay unratify %lld --by WHO\n",
               (long long)seq, files, (long long)seq);
    }
    return OK;
}

/* Prints "refused" as a text or an object; returns the exit status. */
static int say_no(const struct tool *t, int64_t number, const char *why, int status)
{
    if (t->json) {
        json_t *out = json_pack("{s:I,s:s,s:i}", "run", (json_int_t)number, "refused", why, "exit", status);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(out);
    }
    fprintf(stderr, "assay ratify: run %lld is not ratified: %s\n", (long long)number, why);
    return status;
}

static int one(const struct tool *t, struct store *s, int64_t number, int64_t ab, const struct options *o,
               struct err *e)
{
    struct ratify_plan p;
    struct ratify_ask ask = {s, number, ab, o->reason, o->by, o->note, NULL, NULL};
    json_t *object = NULL;
    int status = 3, rc = store_run_get(s, number, &object, e);
    if (rc)
        return err_exit_status(rc);
    const char *model = json_string_value(json_object_get(object, "model"));
    struct token_text *tok = token_text_open(t, model ? model : "");
    ask.say = say;
    ask.say_arg = tok;
    if (!(rc = ratify_plan(&ask, &p, e)) && *p.refusal) {
        status = say_no(t, number, p.refusal, p.status);
    } else if (!rc) {
        print_plan(t->json ? stderr : stdout, &p, tok);
        status = 0;
        if (!wanted(o))
            status = say_no(t, number, "nobody said yes; nothing was written", 1);
        else if (write_down(t, s, &p, o, e))
            status = err_exit_status(e->code);
    }
    ratify_plan_free(&p);
    token_text_close(tok);
    json_decref(object);
    return status;
}

static const char *str(const json_t *o, const char *key)
{
    const char *v = json_string_value(json_object_get(o, key));
    return v ? v : "";
}

/* Newest first: is there a newer run of the same arm on the same material? */
static int is_newest(const json_t *list, size_t at)
{
    const json_t *o = json_array_get(list, at);
    for (size_t i = 0; i < at; i++) {
        const json_t *p = json_array_get(list, i);
        if (!strcmp(str(o, "model"), str(p, "model")) && !strcmp(str(o, "battery"), str(p, "battery")) &&
            !strcmp(str(o, "arm"), str(p, "arm")))
            return 0;
    }
    return 1;
}

static int needs_a_yes(struct store *s, const json_t *o)
{
    char status[16];
    struct err none = {0};
    if (!strcmp(str(o, "verdict"), "PASS_BY_RAZOR"))
        return 1;
    return !strcmp(str(o, "verdict"), "PASS") && !store_golden_status_of(s, str(o, "golden_sha256"), status, &none) &&
           !strcmp(status, "pending");
}

/* Each by itself: a refusal does not stop the others, and shows in the exit status. */
static int all_of_them(const struct tool *t, struct store *s, const struct options *o, struct err *e)
{
    json_t *list = NULL;
    int status = 0, done = 0;
    if (store_run_list(s, &(struct run_filter){.limit = 1 << 30}, &list, e))
        return 3;
    for (size_t i = 0; i < json_array_size(list) && !e->code; i++) {
        const json_t *r = json_array_get(list, i);
        if (!is_newest(list, i) || !needs_a_yes(s, r))
            continue;
        int rc = one(t, s, json_integer_value(json_object_get(r, "run")), 0, o, e);
        status = status ? status : rc;
        done++;
    }
    json_decref(list);
    if (!done && !e->code)
        FAIL(e, E_MISSING, "no run waits for a yes");
    return status;
}

static int check(const struct options *o, int n, char **words, int64_t *number, int64_t *ab, struct err *e)
{
    char names[200];
    char *ab_word[] = {(char *)(size_t)o->ab};
    if (!o->reason || !*o->reason || !o->by || !*o->by)
        return FAIL(e, E_USAGE, "--reason and --by are needed: a yes has a reason and a name");
    if (*reason_check(o->reason, names, sizeof names))
        return FAIL(e, E_USAGE, "--reason \"%s\"; there are %s", o->reason, names);
    if (o->all && (n || o->ab))
        return FAIL(e, E_USAGE, "--all takes no run and no --ab");
    if (o->all && !o->yes)
        return FAIL(e, E_USAGE, "--all says yes to everything at once: say --yes too");
    if (!o->all && !n)
        return FAIL(e, E_USAGE, "the number of a run is expected; `assay list` shows them");
    return run_number(n, words, 0, 1, number, e) || (o->ab && run_number(1, ab_word, 0, 1, ab, e)) ? e->code : OK;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {0};
    const struct option_spec spec[] = {
        {"reason", "CLASS", &o.reason}, {"by", "WHO", &o.by},  {"note", "TEXT", &o.note},    {"ab", "RUN", &o.ab},
        {"yes", NULL, &o.yes},          {"all", NULL, &o.all}, {"mirror", "DIR", &o.mirror}, {0}};
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_ratify, argc, argv, spec, words, &status) : -1;
    int64_t number = 0, ab = 0;
    struct err e = {0};
    struct store *s = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (!check(&o, n, words, &number, &ab, &e) && !tool_store(t, &s, &e))
        status = o.all ? all_of_them(t, s, &o, &e) : one(t, s, number, ab, &o, &e);
    store_close(s);
    return e.code ? tool_fail(t, "ratify", &e) : status;
}
