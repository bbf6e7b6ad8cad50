/* engine - the engines that can be put under test, and the self-test of an adapter */
#include "goldens/exchange.h"
#include "harness/engines/conform.h"
#include "harness/engines/dialect.h"
#include "harness/engines/profile_engine.h"
#include "harness/models/load.h"
#include "tools/command.h"
#include "tools/run_text.h"
#include "tools/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_engine;

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static json_t *list_object(const struct tool *t, struct err *e)
{
    json_t *profiles = engine_profile_list(t->data_dir, e), *engines = json_array(), *dialects = json_array();
    if (!profiles) {
        json_decref(engines);
        json_decref(dialects);
        return NULL;
    }
    for (int i = 0; engine_all[i]; i++)
        json_array_append_new(engines, json_pack("{s:s,s:s,s:s}", "name", engine_all[i]->name, "summary",
                                                 engine_all[i]->summary, "flags", engine_all[i]->flag_help));
    for (int i = 0; dialect_all[i]; i++)
        json_array_append_new(dialects, json_pack("{s:s,s:s,s:s}", "name", dialect_all[i]->name, "summary",
                                                  dialect_all[i]->summary, "evidence", dialect_all[i]->evidence));
    return json_pack("{s:o,s:o,s:o}", "engines", engines, "dialects", dialects, "profiles", profiles);
}

static int list(const struct tool *t, struct err *e)
{
    json_t *all = list_object(t, e), *o;
    size_t i;
    if (!all)
        return e->code;
    if (t->json) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        puts("engines");
        json_array_foreach(json_object_get(all, "engines"), i, o)
            printf("  %-14s %s\n", str(o, "name"), str(o, "summary"));
        puts("\ndialects of http, as http:DIALECT@URL");
        json_array_foreach(json_object_get(all, "dialects"), i, o)
            printf("  %-14s %s; its answers are %s\n", str(o, "name"), str(o, "summary"), str(o, "evidence"));
        puts("\nprofiles, as --engine NAME (batteries/engines)");
        json_array_foreach(json_object_get(all, "profiles"), i, o)
            printf("  %-14s %s: %s\n", str(o, "file"), str(o, "adapter"), str(o, "note"));
    }
    json_decref(all);
    return OK;
}

static int show(const struct tool *t, const char *name, struct err *e)
{
    json_t *all = engine_profile_list(t->data_dir, e), *o;
    size_t i;
    int found = 0;
    json_array_foreach(all, i, o)
    {
        if (strcmp(str(o, "file"), name))
            continue;
        json_object_del(o, "file");
        json_dumpf(o, stdout, t->json ? JSON_COMPACT : JSON_INDENT(2));
        putchar('\n');
        found = 1;
    }
    json_decref(all);
    return all && !found ? FAIL(e, E_MISSING, "no profile \"%s\"; `assay engine list` names them", name) : e->code;
}

struct options {
    const char *model, *battery;
};

static void print(const struct tool *t, const struct engine *g, const struct conform *c)
{
    json_t *rows = json_array();
    for (int i = 0; i < c->rows; i++)
        json_array_append_new(rows, json_pack("{s:s,s:s,s:s,s:s}", "check", c->row[i].name, "about", c->row[i].about,
                                              "verdict", run_verdict_name(c->row[i].verdict), "seen", c->row[i].text));
    if (t->json) {
        json_t *o = json_pack("{s:s,s:O,s:o,s:s,s:i}", "arm", g->arm, "build", g->build, "checks", rows, "verdict",
                              run_verdict_name(c->verdict), "exit", run_verdict_exit_status(c->verdict, 1));
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
        return;
    }
    printf("arm       %s\n", g->arm);
    for (int i = 0; i < c->rows; i++) {
        const struct conform_row *r = &c->row[i];
        const char *name = run_verdict_name(r->verdict);
        printf("  ");
        run_text_verdict(stdout, t, name);
        printf("%*s %-18s %s\n%*s%s\n", (int)(12 - strlen(name)), "", r->name, r->about, 34, "", r->text);
    }
    printf("verdict   ");
    run_text_verdict(stdout, t, run_verdict_name(c->verdict));
    puts(c->verdict == RV_PASS ? ": the adapter answers as it must; `assay run` judges its numbers" : "");
    json_decref(rows);
}

static int check(struct tool *t, const struct options *o, const char *spec, char *const *flag, int flags, int *status,
                 struct err *e)
{
    struct store *s = NULL;
    struct model *m = NULL;
    struct battery *b = NULL;
    struct engine *g = NULL;
    char full[600];
    if (session_engine(t, spec, full, sizeof full, e) || (o->model && tool_model(t, o->model, &m, e)) ||
        tool_store(t, &s, e) || session_battery(s, o->battery, &b, e))
        goto out;
    if (b->prompts < 2) {
        FAIL(e, E_USAGE, "battery %s has one prompt; two different ones are needed", b->name);
        goto out;
    }
    if (engine_open_spec(full, flag, flags, m, t->data_dir, 0, &g, e))
        goto out;
    tool_warn("engine", g->warning);
    struct conform c;
    struct sequence q[2];
    for (int i = 0; i < 2; i++)
        q[i] = (struct sequence){.name = b->prompt[i].name, .prompt = b->prompt[i].ids, .prompts = b->prompt[i].n};
    conform_check(g, &q[0], &q[1], g->vocab ? g->vocab : m ? m->config.vocab : 0, m ? m->config.max_positions : 0, &c);
    print(t, g, &c);
    *status = run_verdict_exit_status(c.verdict, 1);
out:
    if (g)
        g->ops->close(g);
    battery_free(b);
    model_close(m);
    store_close(s);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {.battery = "smoke"};
    const struct option_spec spec[] = {{"model", "M", &o.model}, {"battery", "B", &o.battery}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    struct err e = {0};
    int status = 3, n = words ? tool_options(t, &command_engine, argc, argv, spec, words, &status) : -1;
    if (n < 0)
        goto out;
    status = 0;
    if (n == 1 && !strcmp(words[0], "list"))
        list(t, &e);
    else if (n == 2 && !strcmp(words[0], "show"))
        show(t, words[1], &e);
    else if (n >= 2 && !strcmp(words[0], "check"))
        check(t, &o, words[1], words + 2, n - 2, &status, &e);
    else
        FAIL(&e, E_USAGE, "list, show NAME or check ENGINE is expected; `assay engine --help` explains them");
    if (e.code)
        status = tool_fail(t, "engine", &e);
out:
    free(words);
    return status;
}

COMMAND(engine) = {
    .name = "engine",
    .summary = "engines under test: list, show, check an adapter",
    .usage =
        "usage: assay engine list\n"
        "       assay engine show NAME\n"
        "       assay engine check ENGINE [flag=value ...] [--model M] [--battery B]\n"
        "\n"
        "list    adapters, dialects of servers, profiles\n"
        "show    a profile\n"
        "check   talks to an engine and says whether it answers as an adapter must: greedy ids, top lists, the same\n"
        "        answer twice, forcing in both shapes, an answer that fails costs itself alone. Two prompts of the\n"
        "        battery (smoke) are used; its numbers are not judged, `assay run` does that.\n"
        "\n"
        "ENGINE is a profile's name, exec:'COMMAND ARGS', http:DIALECT@URL, FILE.json, or native.\n"
        "Flags of exec and http: timeout=SECONDS (an answer), ready=SECONDS (the start), slots=N, model=NAME (at the\n"
        "server), vocab=N (where assay has no files of the model), values=logit|logprob.\n"
        "\n"
        "Exit status: 0 all pass, 1 one fails, 4 one cannot be told.\n",
    .order = 48,
    .run = run,
};
