/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that enter just as a session is closed are seen, or turned away. */
#include "runtime/session/callers.h"

#include <pthread.h>
#include <sched.h>

#include "tests/lib/test.h"

#define THREADS 4
#define ROUNDS 30

/** What is closed, and who is inside. */
struct place {
    struct wring_callers callers;
    struct wring_caller_mark marks[THREADS];
    atomic_bool gone; /* nobody may be inside */
    atomic_uint turned_away, wrong;
};

struct caller {
    struct place *place;
    unsigned index;
    pthread_t thread;
};

static void look_around(struct place *place)
{
    if (atomic_load_explicit(&place->gone, memory_order_relaxed))
        atomic_fetch_add(&place->wrong, 1);
}

/** @return false: turned away */
static bool call(struct place *place, struct wring_caller_mark *mark)
{
    if (wring_caller_mark(mark)) {
        look_around(place);
        wring_caller_unmark(mark);
        return true;
    }
    if (!wring_callers_enter(&place->callers))
        return false;
    look_around(place);
    wring_callers_leave(&place->callers);
    return true;
}

static void *call_again(void *arg)
{
    struct caller *caller = arg;
    while (call(caller->place, &caller->place->marks[caller->index]))
        ;
    atomic_fetch_add(&caller->place->turned_away, 1);
    return NULL;
}

static bool any_marked(struct place *place)
{
    for (unsigned i = 0; i < THREADS; i++)
        if (atomic_load_explicit(&place->marks[i].inside, memory_order_acquire))
            return true;
    return false;
}

static void close_place(struct place *place)
{
    wring_callers_close(&place->callers);
    while (atomic_load_explicit(&place->callers.n, memory_order_acquire) > 0)
        sched_yield();
    for (unsigned i = 0; i < THREADS; i++)
        atomic_store_explicit(&place->marks[i].plain, false, memory_order_relaxed);
    if (place->callers.may_mark)
        wring_fence_heavy();
    while (any_marked(place))
        sched_yield();
    atomic_store_explicit(&place->gone, true, memory_order_relaxed);
}

static void run(bool by_marks)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct place place = {0};
        struct caller callers[THREADS];

        wring_callers_init(&place.callers);
        for (unsigned i = 0; i < THREADS; i++) {
            atomic_store(&place.marks[i].plain, by_marks && place.callers.may_mark);
            callers[i] = (struct caller){&place, i, 0};
            pthread_create(&callers[i].thread, NULL, call_again, &callers[i]);
        }
        for (unsigned i = 0; i < round % 7; i++)
            sched_yield();
        close_place(&place);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(callers[i].thread, NULL);
        CHECK(atomic_load(&place.wrong) == 0, "round %u: inside what is gone", round);
        CHECK(atomic_load(&place.turned_away) == THREADS, "round %u", round);
    }
}

static void by_marks(void)
{
    run(true);
}

static void by_count(void)
{
    run(false);
}

static const struct wring_test_case cases[] = {
    {"by_marks", by_marks},
    {"by_count", by_count},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
