/* native - this project's engine on the CPU: flags, slots and exact counters; requests are in harness/native */
#include "harness/native/answer.h"
#include "harness/native/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SLOTS 64

extern const struct engine_ops engine_native;

struct native_engine {
    struct engine base;
    struct native *native;
    struct native_slot slot[MAX_SLOTS];
    struct team *team[MAX_SLOTS];
    int threads, mutated;
    int64_t applied; /* of a mutant, since a slot last counted */
    int64_t slot_applied[MAX_SLOTS];
};

struct settings {
    struct native_options o;
    struct flag_set set;
    struct native_flags flags;
    char gpu[32], mutant[64], warning[256];
    int slots;
};

static int set_number(const struct engine_flag *f, int lo, int hi, int *out, struct err *e)
{
    char *end;
    long v = strtol(f->value, &end, 10);
    if (*end || end == f->value || v < lo || v > hi)
        return FAIL(e, E_USAGE, "%s=%s: a number from %d to %d is expected", f->name, f->value, lo, hi);
    *out = (int)v;
    return OK;
}

static int set_mutant(const struct engine_flag *f, struct settings *s, struct err *e)
{
    const struct mutant *m = mutant_find(f->value);
    if (!m)
        return FAIL(e, E_USAGE, "no mutant \"%s\"; `assay mutants --list` names them", f->value);
    m->apply(&s->o.mutation);
    s->o.mutated = 1;
    snprintf(s->mutant, sizeof s->mutant, "%s", f->value);
    return OK;
}

static int set_flag(const struct engine_flag *f, struct settings *s, struct err *e)
{
    int taken;
    if (native_flags_set(&s->set, "cpu", f->name, f->value, &s->flags, s->warning, (int)sizeof s->warning, &taken, e) ||
        taken)
        return e->code;
    if (!strcmp(f->name, "gpu")) {
        if (strchr(f->value, '/'))
            return FAIL(e, E_USAGE, "gpu=%s: a name is expected, not a path", f->value);
        snprintf(s->gpu, sizeof s->gpu, "%s", f->value);
    } else if (!strcmp(f->name, "weights")) {
        if (strcmp(f->value, "packed") && strcmp(f->value, "decoded"))
            return FAIL(e, E_USAGE, "weights=%s: packed or decoded is expected", f->value);
        s->o.decoded = !strcmp(f->value, "decoded");
    } else if (!strcmp(f->name, "slots")) {
        return set_number(f, 1, MAX_SLOTS, &s->slots, e);
    } else if (!strcmp(f->name, "mutant")) {
        return set_mutant(f, s, e);
    } else {
        return FAIL(e, E_USAGE, "native has no flag \"%s\"; it takes %s", f->name, engine_native.flag_help);
    }
    return OK;
}

static void describe(struct native_engine *g, const struct settings *s)
{
    static const char *const evidence[] = {"measured", "compiled", "documented"};
    const struct gpu_profile *p = &g->native->gpu;
    const char *path, *rotary = g->native->rope_measured ? "measured" : "computed";
    panel_chain_best(&path);
    snprintf(g->base.arm, sizeof g->base.arm, "native:cpu gpu=%s reduce=%s route=%s%s%s", s->gpu,
             reduce_name(s->o.reduce), route_name(s->o.route), *s->mutant ? " mutant=" : "", s->mutant);
    g->base.build = json_pack(
        "{s:s,s:s,s:{s:s,s:i,s:i,s:s,s:s,s:s},s:s,s:i,s:I,s:s,s:s}", "engine", "assay native", "compiler", __VERSION__,
        "gpu_profile", "name", p->name, "sms", p->sms, "sm", p->sm, "evidence", evidence[p->evidence], "source",
        p->source, "sha256", g->native->profile_sha256, "cpu_path", path, "threads", g->threads, "weight_bytes",
        (json_int_t)g->native->weight_bytes, "rotary_table", rotary, "tables_sha256", g->native->tables_sha256);
    if (p->evidence != EVIDENCE_MEASURED)
        snprintf(g->base.forecast, sizeof g->base.forecast, "GPU profile %s is %s, not measured", p->name,
                 evidence[p->evidence]);
    else if (!g->native->rope_measured)
        snprintf(g->base.forecast, sizeof g->base.forecast, "no measured rotary table for base %.0f",
                 g->native->model->config.rope_theta);
}

static void close_engine(struct engine *base)
{
    struct native_engine *g = (struct native_engine *)base;
    if (!g)
        return;
    for (int i = 0; i < MAX_SLOTS; i++) {
        native_slot_close(&g->slot[i]);
        team_stop(g->team[i]);
    }
    native_close(g->native);
    json_decref(g->base.build);
    free(g);
}

/* Threads that no slot uses work inside the GEMMs of the slots. */
static int start_slots(struct native_engine *g, struct err *e)
{
    int members = g->threads / g->base.slots;
    for (int i = 0; i < g->base.slots; i++) {
        if (members > 1 && team_start(members, &g->team[i], e))
            return e->code;
        g->slot[i].native = g->native;
        g->slot[i].team = g->team[i];
    }
    return OK;
}

/* Defaults first, then the command line. */
static int read_flags(const struct engine_open *o, struct settings *s, struct err *e)
{
    if (flags_read(o->data_dir, &s->set, e))
        return e->code;
    int rc = native_flags_default(&s->set, &s->flags, e);
    for (int i = 0; i < o->flags && !rc; i++)
        rc = set_flag(&o->flag[i], s, e);
    flags_free(&s->set);
    s->o.route = native_flags_route(&s->flags);
    s->o.reduce = s->flags.fp32_reduce ? REDUCE_F32 : REDUCE_F16;
    return rc;
}

static int open_engine(const struct engine_open *o, struct engine **out, struct err *e)
{
    struct settings s = {.gpu = "h200", .o = {.decoded = 0}};
    if (*o->spec && strcmp(o->spec, "cpu"))
        return FAIL(e, E_USAGE, "native:%s is not in this build; there is native:cpu", o->spec);
    if (read_flags(o, &s, e))
        return e->code;
    struct native_engine *g = calloc(1, sizeof *g);
    if (!g)
        return FAIL(e, E_NOMEM, "out of memory");
    s.o.mutation.applied = &g->applied;
    g->mutated = s.o.mutated;
    g->threads = o->threads > 0 ? o->threads : team_cpus();
    g->base.ops = &engine_native;
    g->base.slots = s.slots ? s.slots : g->threads;
    g->base.has_logits = 1;
    g->base.bf16_rows = 1;
    if (native_open(o->model, o->data_dir, s.gpu, &s.o, &g->native, e) || start_slots(g, e)) {
        close_engine(&g->base);
        return e->code;
    }
    describe(g, &s);
    snprintf(g->base.warning, sizeof g->base.warning, "%s", s.warning);
    *out = &g->base;
    return OK;
}

static int answer(struct engine *base, int slot, const struct engine_request *q, struct stream *a, struct err *e)
{
    struct native_engine *g = (struct native_engine *)base;
    if (slot < 0 || slot >= base->slots)
        return FAIL(e, E_INTERNAL, "slot %d of %d", slot, base->slots);
    return native_answer(&g->slot[slot], q, a, e);
}

/* All slots share what counts a mutant: the one that looks first has it. */
static int slot_counters(struct engine *base, int slot, struct counter *out, int max)
{
    struct native_engine *g = (struct native_engine *)base;
    struct native_counts ran = native_slot_counts(&g->slot[slot]);
    struct native_counts expected = native_expected(g->native, g->slot[slot].steps);
    g->slot_applied[slot] += __atomic_exchange_n(&g->applied, 0, __ATOMIC_RELAXED);
    struct counter all[] = {{"dense_gemms", ran.dense_gemms, expected.dense_gemms},
                            {"grouped_gemms", ran.grouped_gemms, expected.grouped_gemms},
                            {"par1_gemms", ran.par1_gemms, expected.par1_gemms},
                            {"plain_gemms", ran.plain_gemms, expected.plain_gemms},
                            {"steps", ran.steps, expected.steps},
                            {"mutant_applied", g->slot_applied[slot], -1}};
    int n = (int)(sizeof all / sizeof *all) - !g->mutated;
    for (int i = 0; i < n && i < max; i++)
        out[i] = all[i];
    return n < max ? n : max;
}

static int counters(struct engine *base, struct counter *out, int max)
{
    struct counter one[COUNTERS_MAX];
    int n = 0;
    for (int i = 0; i < base->slots; i++)
        n = counters_add(out, n, max, one, slot_counters(base, i, one, COUNTERS_MAX));
    return n;
}

static int tap(struct engine *base, engine_tap *show, void *arg, struct err *e)
{
    struct native_slot *s = &((struct native_engine *)base)->slot[0];
    (void)e;
    s->tap = show;
    s->tap_arg = arg;
    if (s->session)
        native_session_tap(s->session, show, arg);
    return OK;
}

ENGINE(native) = {
    .name = "native",
    .summary = "this project's own engine on the CPU, bit for bit what a GPU would give",
    .needs_model = 1,
    .flag_help = "FLAG=on|off (`assay flags` lists them) route=dense|grouped|par1 reduce=f32|f16 gpu=h200|gb10|... "
                 "weights=decoded|packed slots=N mutant=NAME",
    .open = open_engine,
    .close = close_engine,
    .answer = answer,
    .tap = tap,
    .tap_feeds = 1,
    .counters = counters,
    .slot_counters = slot_counters,
};
