#include "harness/base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 20000 /* some tens of microseconds: between two GEMMs of one token, not between two tokens of a user */

struct team {
    int members, started;
    pthread_t thread[64];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int generation, left, stop;
    int sleepers;
    team_fn *fn;
    void *arg;
};

struct member {
    struct team *team;
    int index;
};

static void wait_for(struct team *t, int seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->generation, memory_order_acquire) != seen)
            return;
        __builtin_ia32_pause();
    }
    pthread_mutex_lock(&t->lock);
    t->sleepers++;
    while (atomic_load(&t->generation) == seen)
        pthread_cond_wait(&t->wake, &t->lock);
    t->sleepers--;
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *arg)
{
    struct member m = *(struct member *)arg;
    struct team *t = m.team;
    free(arg);
    for (int seen = 0;; seen++) {
        wait_for(t, seen);
        if (atomic_load(&t->stop))
            return NULL;
        t->fn(t->arg, m.index, t->members);
        atomic_fetch_sub_explicit(&t->left, 1, memory_order_release);
    }
}

static void announce(struct team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add_explicit(&t->generation, 1, memory_order_release);
    if (t->sleepers)
        pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

int team_start(int members, struct team **out, struct err *e)
{
    if (members < 1 || members > 64)
        return FAIL(e, E_USAGE, "%d threads; 1 to 64 are possible", members);
    struct team *t = calloc(1, sizeof *t);
    if (!t)
        return FAIL(e, E_NOMEM, "out of memory for %d threads", members);
    t->members = members;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (int i = 1; i < members; i++) {
        struct member *m = malloc(sizeof *m);
        if (m)
            *m = (struct member){t, i};
        if (!m || pthread_create(&t->thread[i], NULL, work, m)) {
            free(m);
            team_stop(t);
            return FAIL(e, E_IO, "cannot start thread %d of %d", i, members);
        }
        t->started = i;
    }
    *out = t;
    return OK;
}

void team_stop(struct team *t)
{
    if (!t)
        return;
    atomic_store(&t->stop, 1);
    announce(t);
    for (int i = 1; i <= t->started; i++)
        pthread_join(t->thread[i], NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void team_run(struct team *t, team_fn *fn, void *arg)
{
    if (!t || t->members == 1) {
        fn(arg, 0, 1);
        return;
    }
    t->fn = fn;
    t->arg = arg;
    atomic_store(&t->left, t->members - 1);
    announce(t);
    fn(arg, 0, t->members);
    for (int i = 0; atomic_load_explicit(&t->left, memory_order_acquire); i++)
        if (i > SPINS)
            sched_yield();
        else
            __builtin_ia32_pause();
}

int team_members(const struct team *t)
{
    return t ? t->members : 1;
}

int team_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > 64 ? 64 : n;
}
