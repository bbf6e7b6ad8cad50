#include "harness/test/help_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_K 4

static void fill_view(struct view *v, const int32_t *ids, int n)
{
    static const float values[TOP_K] = {16, 15.75f, 14.5f, 14.25f};
    struct err e = {0};
    if (view_alloc(v, n, TOP_K, 0, &e))
        abort();
    for (int i = 0; i < n * TOP_K; i++) {
        v->top_ids[i] = ids[i / TOP_K] + i % TOP_K;
        v->top_values[i] = values[i % TOP_K];
    }
    for (int i = 0; i < n; i++)
        v->logsumexp[i] = 17.25;
}

static int32_t *some_ids(int n, int32_t first)
{
    int32_t *ids = calloc((size_t)n + 1, sizeof *ids);
    if (!ids)
        abort();
    for (int i = 0; i < n; i++)
        ids[i] = first + i;
    return ids;
}

struct golden *toy_golden(int prompts, int n)
{
    struct golden *g = calloc(1, sizeof *g);
    if (!g || !(g->prompt = calloc((size_t)prompts + 1, sizeof *g->prompt)))
        abort();
    strcpy(g->model, "toy");
    strcpy(g->battery, "toys");
    strcpy(g->arm, "eager");
    g->top_k = TOP_K;
    g->prompts = prompts;
    g->header = json_pack("{s:s,s:s,s:s,s:s,s:i,s:{s:s},s:{s:s}}", "schema", "assay-golden/1", "model", "toy",
                          "battery", "toys", "arm", "eager", "top_k", TOP_K, "model_files", "config.json", "c0ffee",
                          "oracle", "dtype", "bfloat16");
    for (int i = 0; i < prompts; i++) {
        struct golden_prompt *p = &g->prompt[i];
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        *p = (struct golden_prompt){
            .name = strdup(name), .prompts = 3, .n = n, .finish = FINISH_LENGTH, .rows_equal = n};
        p->prompt_ids = some_ids(3, 1);
        p->ids = some_ids(n, 100 + 10 * i);
        fill_view(&p->decode, p->ids, n);
        fill_view(&p->prefill, p->ids, n);
    }
    return g;
}

struct battery *toy_battery(const struct golden *g)
{
    struct battery *b = calloc(1, sizeof *b);
    if (!b || !(b->prompt = calloc((size_t)g->prompts + 1, sizeof *b->prompt)))
        abort();
    strcpy(b->name, "toys");
    b->max_new_tokens = g->prompts ? g->prompt[0].n : 0;
    b->stop_at_eos = 1;
    b->razor_ulp = 2;
    b->razor_cap_nats = 0.5;
    b->prompts = g->prompts;
    for (int i = 0; i < g->prompts; i++) {
        b->prompt[i].name = strdup(g->prompt[i].name);
        b->prompt[i].ids = some_ids(3, 1);
        b->prompt[i].n = 3;
    }
    return b;
}

float *toy_value(struct view *v, int row, int slot)
{
    return &v->top_values[row * v->top_k + slot];
}

struct stream toy_stream(const struct golden_prompt *p, const struct view *v)
{
    struct stream s = {.ids = some_ids(p->n, 0), .n = p->n, .finish = p->finish};
    struct err e = {0};
    memcpy(s.ids, p->ids, (size_t)p->n * sizeof *s.ids);
    if (!v)
        return s;
    if (view_alloc(&s.view, v->rows, v->top_k, 0, &e))
        abort();
    memcpy(s.view.top_ids, v->top_ids, (size_t)(v->rows * v->top_k) * sizeof *v->top_ids);
    memcpy(s.view.top_values, v->top_values, (size_t)(v->rows * v->top_k) * sizeof *v->top_values);
    memcpy(s.view.logsumexp, v->logsumexp, (size_t)v->rows * sizeof *v->logsumexp);
    return s;
}
