/* assay jitter - why a batch changes tokens: every prompt alone and all at once, against the oracle's own batch passes
 */
#include "harness/batch_effect.h"
#include "harness/razor.h"
#include "tools/session.h"
#include "tools/token_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: assay jitter [flag=value ...] [--model M] [--battery B] [--golden ARM]\n"
                            "\n"
                            "Runs the native engine on each prompt of B alone and on all of them submitted at once, "
                            "and holds both against what\n"
                            "the oracle gave: its lone ids and its batch pass. A row's arithmetic does not know its "
                            "companions; the number of rows\n"
                            "decides the plans and tiles by which sums are split, and so the last bits. For each "
                            "prompt that companions change:\n"
                            "the token, the oracle's gap between the two, and the first op whose rows differ.\n"
                            "\n"
                            "  --model M     tiny-dense-int4g128     --battery B   strict, up to 64 prompts\n"
                            "\n"
                            "Exit status: 0 when every recorded answer was foretold, 1 when one was not, 2 usage, 3 "
                            "error, 4 when the golden has\n"
                            "no batch pass.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(jitter) = {.name = "jitter",
                   .summary = "why a batch changes tokens, and whether that is foretold",
                   .usage = usage,
                   .order = 45,
                   .run = run};

struct tally {
    int prompts, changed, alone, batch, recorded;
};

static void progress(void *arg, int done, int total)
{
    tool_progress(arg, "prompts", done, total);
}

static void where(const struct batch_effect *j, char *out, size_t size)
{
    if (j->step < 0)
        snprintf(out, size, "no op differs");
    else if (j->layer < 0)
        snprintf(out, size, "step %d, %s", j->step, j->op);
    else
        snprintf(out, size, "step %d, layer %d %s", j->step, j->layer, j->op);
}

static const char *yes(int v)
{
    return v < 0 ? "not recorded" : v ? "foretold" : "NOT foretold";
}

static struct gap gap_at(const struct golden *o, const struct batch_effect *j)
{
    const struct golden_prompt *p = &o->prompt[j->prompt];
    struct gap none = {0};
    if (j->position >= p->decode.rows || j->batch < 0)
        return none;
    return gap_of(&p->decode, j->position, j->batch, golden_significand_bits(o));
}

static void print_change(const struct golden *o, const struct token_text *text, const struct batch_effect *j)
{
    char place[96], a[96], b[96];
    struct gap g = gap_at(o, j);
    where(j, place, sizeof place);
    printf("  %-6s token %-3d %d %s -> %d %s, gap %s%.4g nat (%.3g ULP); %s\n", o->prompt[j->prompt].name, j->position,
           j->alone, token_text_quote(text, j->alone, a, sizeof a), j->batch,
           token_text_quote(text, j->batch, b, sizeof b), g.stored ? "" : ">= ", g.bound_nats, g.bound_nats / g.ulp,
           yes(j->batch_as_oracle));
    if (j->step >= 0)
        printf("         first at %s: %d of %d rows differ; %d rows in the call alone, %d at once (from row %d)\n",
               place, j->differ, j->rows, j->rows_alone, j->rows_batch, j->place);
}

static json_t *change_json(const struct golden *o, const struct batch_effect *j)
{
    struct gap g = gap_at(o, j);
    return json_pack("{s:s,s:i,s:i,s:i,s:f,s:f,s:i,s:i,s:s,s:i,s:i,s:i,s:i,s:i,s:b,s:i}", "prompt",
                     o->prompt[j->prompt].name, "position", j->position, "alone_id", j->alone, "batch_id", j->batch,
                     "gap_nats", g.bound_nats, "gap_ulp", g.bound_nats / g.ulp, "step", j->step, "layer", j->layer,
                     "op", j->op, "rows", j->rows, "rows_differ", j->differ, "rows_alone", j->rows_alone, "rows_batch",
                     j->rows_batch, "place", j->place, "alone_foretold", j->alone_as_oracle, "batch_foretold",
                     j->batch_as_oracle);
}

static struct tally count(const struct golden *o, const struct batch_effect *j)
{
    struct tally c = {.prompts = o->prompts};
    for (int i = 0; i < o->prompts; i++) {
        c.changed += j[i].position >= 0;
        c.alone += j[i].alone_as_oracle;
        c.batch += j[i].batch_as_oracle == 1;
        c.recorded += j[i].batch_as_oracle >= 0;
    }
    return c;
}

static void print_text(const struct session *s, const struct token_text *text, const struct batch_effect *j,
                       const struct tally *c)
{
    printf("arm       %s\nmodel     %s\nbattery   %s, %d prompts alone and at once\n\n", s->engine->arm,
           s->golden->model, s->battery->name, c->prompts);
    for (int i = 0; i < c->prompts; i++)
        if (j[i].position >= 0)
            print_change(s->golden, text, &j[i]);
    for (int i = 0; i < c->prompts; i++)
        if (j[i].position < 0 && (!j[i].alone_as_oracle || !j[i].batch_as_oracle))
            printf("  %-6s unchanged by companions; alone %s, at once %s\n", s->golden->prompt[j[i].prompt].name,
                   yes(j[i].alone_as_oracle), yes(j[i].batch_as_oracle));
    printf(
        "%scompanions change %d of %d prompts; foretold: %d of %d lone answers, %d of %d of the oracle's batch pass\n",
        c->changed ? "\n" : "", c->changed, c->prompts, c->alone, c->prompts, c->batch, c->recorded);
}

static void print_json(const struct session *s, const struct batch_effect *j, const struct tally *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->prompts; i++)
        if (j[i].position >= 0)
            json_array_append_new(list, change_json(s->golden, &j[i]));
    json_t *o = json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:o}", "arm", s->engine->arm, "model", s->golden->model,
                          "battery", s->battery->name, "prompts", c->prompts, "changed", c->changed, "alone_foretold",
                          c->alone, "batch_foretold", c->batch, "batch_recorded", c->recorded, "changes", list);
    json_dumpf(o, stdout, JSON_COMPACT);
    json_decref(o);
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *model = "tiny-dense-int4g128", *battery = "strict", *golden = NULL;
    const struct option_spec spec[] = {
        {"model", "M", &model}, {"battery", "B", &battery}, {"golden", "ARM", &golden}, {0}};
    char *words[64];
    int status, n = argc <= 60 ? tool_options(t, &command_jitter, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *store = NULL;
    struct session s = {0};
    struct batch_effect found[BATCH_PROMPTS];
    struct tally c = {0};
    if (n < 0)
        return argc <= 60 ? status : 2;
    words[n] = (char *)"slots=1";
    struct session_spec what = {
        .engine = "native", .model = model, .battery = battery, .golden = golden, .flag = words, .flags = n + 1};
    if (!tool_store(t, &store, &e) && !session_open(t, store, &what, &s, &e) &&
        !batch_effect_measure(s.engine, s.golden, found, progress, t, &e)) {
        struct token_text *text = token_text_open(t, model);
        c = count(s.golden, found);
        if (t->json)
            print_json(&s, found, &c);
        else
            print_text(&s, text, found, &c);
        token_text_close(text);
    }
    session_close(&s);
    store_close(store);
    if (e.code)
        return tool_fail(t, "jitter", &e);
    return !c.recorded ? 4 : c.batch < c.recorded || c.alone < c.prompts;
}
