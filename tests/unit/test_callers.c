/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that enter just as a session is closed are seen, or turned away. */
#include "runtime/session/callers.h"

#include <pthread.h>
#include <sched.h>

#include "tests/lib/test.h"

#define THREADS 4
#define TURNS 30

/** What is closed, and who is inside. */
struct house {
    struct wring_callers callers;
    struct wring_caller_mark marks[THREADS];
    atomic_bool gone; /* nobody may be inside */
    atomic_uint turned_away, wrong;
};

struct caller {
    struct house *house;
    unsigned index;
    pthread_t thread;
};

static void look_around(struct house *house)
{
    if (atomic_load_explicit(&house->gone, memory_order_relaxed))
        atomic_fetch_add(&house->wrong, 1);
}

/** @return false: turned away */
static bool call(struct house *house, struct wring_caller_mark *mark)
{
    if (wring_caller_mark(mark)) {
        look_around(house);
        wring_caller_unmark(mark);
        return true;
    }
    if (!wring_callers_enter(&house->callers))
        return false;
    look_around(house);
    wring_callers_leave(&house->callers);
    return true;
}

static void *call_again(void *arg)
{
    struct caller *caller = arg;
    while (call(caller->house, &caller->house->marks[caller->index]))
        ;
    atomic_fetch_add(&caller->house->turned_away, 1);
    return NULL;
}

static bool any_marked(struct house *house)
{
    for (unsigned i = 0; i < THREADS; i++)
        if (atomic_load_explicit(&house->marks[i].inside, memory_order_acquire))
            return true;
    return false;
}

static void close_house(struct house *house)
{
    wring_callers_close(&house->callers);
    while (atomic_load_explicit(&house->callers.n, memory_order_acquire) > 0)
        sched_yield();
    for (unsigned i = 0; i < THREADS; i++)
        atomic_store_explicit(&house->marks[i].plain, false, memory_order_relaxed);
    if (house->callers.may_mark)
        wring_fence_heavy();
    while (any_marked(house))
        sched_yield();
    atomic_store_explicit(&house->gone, true, memory_order_relaxed);
}

static void run(bool by_marks)
{
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct house house = {0};
        struct caller callers[THREADS];

        wring_callers_init(&house.callers);
        for (unsigned i = 0; i < THREADS; i++) {
            atomic_store(&house.marks[i].plain, by_marks && house.callers.may_mark);
            callers[i] = (struct caller){&house, i, 0};
            pthread_create(&callers[i].thread, NULL, call_again, &callers[i]);
        }
        for (unsigned i = 0; i < turn % 7; i++)
            sched_yield();
        close_house(&house);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(callers[i].thread, NULL);
        CHECK(atomic_load(&house.wrong) == 0, "turn %u: inside what is gone", turn);
        CHECK(atomic_load(&house.turned_away) == THREADS, "turn %u", turn);
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
