/* SPDX-License-Identifier: Apache-2.0 */
/** Connections and providers that come and go over the mock: nothing of them stays. */
#include "tests/lib/test.h"
#include "tests/provider/ends.h"
#include "tests/provider/mock/held.h"

#define CYCLES 1000
#define WARM_CYCLES 30
#define OPENINGS 50
#define BYTES 4096

static void drop(struct end *end)
{
    end->provider->ops->remote_release(end->remote);
    end->provider->ops->disconnect(end->conn);
    end->remote = NULL;
    end->conn = NULL;
}

/** Meet, put something both ways, leave: one first, and the other when it is told. */
static bool cycle(struct end *a, struct end *b, const uint8_t *address, size_t n, bool b_first)
{
    struct end *first = b_first ? b : a, *second = b_first ? a : b;
    a->accepted = b->connected = a->closed = b->closed = 0;
    if (!end_connect(b, address, n, "me"))
        return false;
    UNTIL(a, b, (a->accepted && b->connected) || b->closed);
    if (a->accepted != 1 || b->connected != 1)
        return false;
    end_import(a, b);
    end_import(b, a);
    unsigned done[2] = {a->done, b->done}, arrived[2] = {a->arrived, b->arrived};
    CHECK(end_put(a, a->base, 0, 100, b->arrived, a->done) == WRING_OK &&
              end_put(b, b->base, 0, BYTES, a->arrived, b->done) == WRING_OK,
          "put");
    UNTIL(a, b,
          a->arrived > arrived[0] && b->arrived > arrived[1] && a->done > done[0] &&
              b->done > done[1]);
    drop(first);
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (second->closed == 0 && wring_now_ns() < limit)
        end_turn(second);
    CHECK(second->closed == 1, "the end is not noticed");
    drop(second);
    return second->closed == 1;
}

static void connections_leave_nothing(void)
{
    struct end a, b;
    struct held before;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    REQUIRE(end_open(&a, 1, BYTES, 16) && end_open(&b, 1, BYTES, 16), "open");
    REQUIRE(end_listen(&a, address, &n), "listen");
    for (int i = 0; i < WARM_CYCLES + CYCLES; i++) {
        if (i == WARM_CYCLES)
            before = held_now();
        if (!cycle(&a, &b, address, n, i % 2))
            break;
    }
    struct held after = held_now();
    CHECK(a.arrived == WARM_CYCLES + CYCLES, "%u cycles", a.arrived);
    held_compare(&before, &after);
    ends_close(&a, &b);
}

static void providers_leave_nothing(void)
{
    struct held before = held_now();
    for (int i = 0; i < OPENINGS; i++) {
        struct end a, b;
        REQUIRE(ends_open(&a, &b, BYTES, 16), "no pair");
        ends_close(&a, &b);
        if (i == 4)
            before = held_now();
    }
    struct held after = held_now();
    held_compare(&before, &after);
    CHECK(after.counts.contexts + after.counts.qps + after.counts.mrs == 0, "something stays");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"connections_leave_nothing", connections_leave_nothing},
        {"providers_leave_nothing", providers_leave_nothing},
        {NULL, NULL},
    };
    const struct wring_provider_driver driver = {"verbs", wring_provider_find("verbs")->open};
    ends_use(&driver);
    return wring_test_main(argc, argv, cases);
}
