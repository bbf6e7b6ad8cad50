#include "harness/models/weights.h"

#include <stdlib.h>
#include <string.h>

struct place {
    struct owner *w;
    const struct model_config *c;
    const struct arch *a;
    char prefix[256]; /* of the layer or the expert */
};

static int norm(const struct place *p, const char *name, int64_t size, struct tensor *out, struct err *e)
{
    char full[384];
    snprintf(full, sizeof full, "%s.%s.weight", p->prefix, name);
    return take_plain(p->w, full, size, 0, out, e);
}

static int linear(const struct place *p, const char *name, int n, int k, struct linear *out, struct err *e)
{
    char full[384];
    snprintf(full, sizeof full, "%s.%s", p->prefix, name);
    return take_linear(p->w, full, n, k, out, e);
}

static int take_attention(const struct place *p, struct layer *l, struct err *e)
{
    const struct model_config *c = p->c;
    const struct arch *a = p->a;
    int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, rc;
    if ((rc = norm(p, a->input_norm, c->hidden, &l->input_norm, e)) ||
        (rc = norm(p, a->post_norm, c->hidden, &l->post_norm, e)) || (rc = linear(p, a->q, q, c->hidden, &l->q, e)) ||
        (rc = linear(p, a->k, kv, c->hidden, &l->k, e)) || (rc = linear(p, a->v, kv, c->hidden, &l->v, e)) ||
        (rc = linear(p, a->o, c->hidden, q, &l->o, e)) || !c->qk_norm)
        return rc;
    if ((rc = norm(p, a->q_norm, c->head_dim, &l->q_norm, e)))
        return rc;
    return norm(p, a->k_norm, c->head_dim, &l->k_norm, e);
}

static int take_experts(const struct place *p, struct layer *l, struct err *e)
{
    const struct model_config *c = p->c;
    int rc = linear(p, p->a->router, c->experts, c->hidden, &l->router, e);
    if (rc)
        return rc;
    if (l->router.format != WF_PLAIN)
        return FAIL(e, E_UNSUPPORTED, "%s: \"%s.%s\": a quantised router is not built in", p->w->checkpoint.folder,
                    p->prefix, p->a->router);
    l->experts = calloc((size_t)c->experts, sizeof *l->experts);
    if (!l->experts)
        return FAIL(e, E_NOMEM, "%s: out of memory", p->w->checkpoint.folder);
    for (int i = 0; i < c->experts; i++) {
        struct place q = *p;
        struct expert *x = &l->experts[i];
        snprintf(q.prefix, sizeof q.prefix, "%.200s.%s.%d", p->prefix, p->a->experts, i);
        if ((rc = linear(&q, p->a->expert_gate, c->expert_intermediate, c->hidden, &x->gate, e)) ||
            (rc = linear(&q, p->a->expert_up, c->expert_intermediate, c->hidden, &x->up, e)) ||
            (rc = linear(&q, p->a->expert_down, c->hidden, c->expert_intermediate, &x->down, e)))
            return rc;
    }
    return OK;
}

static int take_layer(const struct place *p, int is_moe, struct layer *l, struct err *e)
{
    const struct model_config *c = p->c;
    int rc = take_attention(p, l, e);
    if (rc)
        return rc;
    if (is_moe)
        return take_experts(p, l, e);
    if ((rc = linear(p, p->a->gate, c->intermediate, c->hidden, &l->gate, e)) ||
        (rc = linear(p, p->a->up, c->intermediate, c->hidden, &l->up, e)))
        return rc;
    return linear(p, p->a->down, c->hidden, c->intermediate, &l->down, e);
}

static int take_head(struct owner *w, const struct arch *a, struct model *m, struct err *e)
{
    const struct model_config *c = &m->config;
    char name[256];
    if (c->tied) {
        m->head = (struct linear){.n = c->vocab, .k = c->hidden, .global_scale = 1, .weight = m->embed};
        snprintf(name, sizeof name, "%s.weight", a->head);
        checkpoint_take(&w->checkpoint, name); /* a copy that a tied model does not read */
        return OK;
    }
    int rc = take_linear(w, a->head, c->vocab, c->hidden, &m->head, e);
    if (rc == OK && m->head.format != WF_PLAIN)
        rc = FAIL(e, E_UNSUPPORTED, "%s: \"%s\": a quantised head is not built in", w->checkpoint.folder, a->head);
    return rc;
}

/* A tensor that nobody reads belongs to a model that this loader does not understand. */
static int check_all_used(const struct owner *w, struct err *e)
{
    static const char table[] = ".rotary_emb.inv_freq"; /* old writers stored it; it follows from rope_theta */
    for (int i = 0; i < w->checkpoint.entries; i++) {
        const struct tensor *t = w->checkpoint.entry[i].tensor;
        size_t n = strlen(t->name);
        if (!w->checkpoint.entry[i].used && (n < sizeof table || strcmp(t->name + n - (sizeof table - 1), table)))
            return FAIL(e, E_UNSUPPORTED, "%s: tensor \"%.300s\" has no place in architecture %s", w->checkpoint.folder,
                        t->name, w->config.arch->name);
    }
    return OK;
}

int take_weights(struct owner *w, struct model *m, struct err *e)
{
    const struct arch *a = w->config.arch;
    const struct model_config *c = &m->config;
    char name[256];
    snprintf(name, sizeof name, "%s.weight", a->embed);
    int rc = take_plain(w, name, c->vocab, c->hidden, &m->embed, e);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s.weight", a->final_norm);
    if ((rc = take_plain(w, name, c->hidden, 0, &m->final_norm, e)) || (rc = take_head(w, a, m, e)))
        return rc;
    m->layer = calloc((size_t)c->layers, sizeof *m->layer);
    if (!m->layer)
        return FAIL(e, E_NOMEM, "%s: out of memory", w->checkpoint.folder);
    for (int i = 0; i < c->layers; i++) {
        struct place p = {w, c, a, ""};
        snprintf(p.prefix, sizeof p.prefix, "%s.%d", a->layers, i);
        if ((rc = take_layer(&p, w->config.is_moe[i], &m->layer[i], e)))
            return rc;
    }
    return check_all_used(w, e);
}
