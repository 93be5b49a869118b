/* SPDX-License-Identifier: Apache-2.0 */
/* How long who waits goes on looking before it sleeps: the session's thread, and a caller. */
#include "base/clock.h"
#include "runtime/progress/state.h"
#include "tests/lib/test.h"
#include "transport/fabric.h"

#define SPIN_NS (20 * WRING_NS_PER_US)

struct rig {
    struct wring_fabric fabric;
    struct wring_engine engine;
    struct wring_progress progress;
};

static struct wring_progress *make(struct rig *rig, uint64_t spin_ns, bool crowded)
{
    *rig = (struct rig){.fabric = {.crowded = crowded}};
    rig->engine.fabric = &rig->fabric;
    rig->progress.engine = &rig->engine;
    rig->progress.spin_ns = spin_ns;
    return &rig->progress;
}

static void a_caller_looks_longer_than_the_thread(void)
{
    struct rig rig;
    struct wring_progress *progress = make(&rig, SPIN_NS, false);
    CHECK(wring_spin(progress, SPIN_NS - 1), "the thread sleeps early");
    CHECK(!wring_spin(progress, SPIN_NS), "the thread goes on");
    CHECK(wring_spin_as_driver(progress, 0), "a caller does not even look");
    CHECK(wring_spin_as_driver(progress, SPIN_NS), "a caller sleeps as soon as the thread");
    CHECK(wring_spin_as_driver(progress, 5 * SPIN_NS - 1), "a caller sleeps early");
    CHECK(!wring_spin_as_driver(progress, 5 * SPIN_NS), "a caller goes on");
}

static void without_a_spin_nobody_looks(void)
{
    struct rig rig;
    struct wring_progress *progress = make(&rig, 0, false);
    CHECK(!wring_spin(progress, 0) && !wring_spin_as_driver(progress, 0), "somebody does");
}

static void where_cores_are_shared_both_look_as_long(void)
{
    struct rig rig;
    struct wring_progress *progress = make(&rig, SPIN_NS, true);
    CHECK(wring_spin(progress, 50 * SPIN_NS - 1), "the thread sleeps early");
    CHECK(wring_spin_as_driver(progress, 50 * SPIN_NS - 1), "a caller sleeps early");
    CHECK(!wring_spin_as_driver(progress, 50 * SPIN_NS), "a caller goes on");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a caller looks longer than the thread", a_caller_looks_longer_than_the_thread},
        {"without a spin nobody looks", without_a_spin_nobody_looks},
        {"where cores are shared both look as long", where_cores_are_shared_both_look_as_long},
        {0},
    };
    return wring_test_main(argc, argv, cases);
}
