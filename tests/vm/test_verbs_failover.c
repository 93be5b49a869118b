/* SPDX-License-Identifier: Apache-2.0 */
/** Two rails between two ends in one machine, of which one fails while puts and messages travel:
 *  all of them arrive, once, in order and whole, and the end is told when none is left. */
#include <stdlib.h>

#include "base/config.h"
#include "tests/provider/ends.h"
#include "transport/providers/providers.h"
#include "transport/providers/verbs/verbs_counters.h"

#define SLOTS 16
#define SLOT_BYTES 50000 /* no multiple of anything */
#define PUTS 400

static struct wring_config configs[2]; /* one per end */
static unsigned opened, wrong;

/** Every other instance at the other end of the cables. */
static enum wring_status open_alternating(const struct wring_provider_params *params,
                                          struct wring_provider **out)
{
    struct wring_provider_params mine = *params;
    mine.config = &configs[opened++ % 2];
    return wring_provider_verbs.open(&mine, out);
}

static bool load_configs(void)
{
    static const char *const devices[] = {"=rxa,rxc", "=rxb,rxd"};
    for (int i = 0; i < 2; i++)
        if (wring_config_load(&configs[i], NULL) != WRING_OK ||
            wring_config_set(&configs[i], NULL, "WRING_VERBS_DEVICES", devices[i]) != WRING_OK ||
            wring_config_set(&configs[i], NULL, "WRING_VERBS_STRIPE_BYTES", "4k") != WRING_OK)
            return false;
    return true;
}

static void look(struct end *end, const struct wring_event *event)
{
    const uint8_t *slot = end->base + (size_t)(event->imm % SLOTS) * SLOT_BYTES;
    wrong += event->bytes != SLOT_BYTES || !has_pattern(slot, SLOT_BYTES, event->imm);
}

/** Put the next one where there is room; its source lies behind the slots of the other side. */
static unsigned put_next(struct end *from, const struct end *to, unsigned posted)
{
    size_t at = (size_t)(posted % SLOTS) * SLOT_BYTES;
    uint8_t *source = from->base + (size_t)SLOTS * SLOT_BYTES + at;
    if (posted == PUTS || posted - to->arrived >= SLOTS || posted - from->done >= SLOTS)
        return posted;
    fill_pattern(source, SLOT_BYTES, posted);
    enum wring_status status = end_put(from, source, at, SLOT_BYTES, posted, posted);
    CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
    if (status == WRING_OK && posted % 5 == 0)
        from->provider->ops->send(from->conn, "between", 7);
    return posted + (status == WRING_OK);
}

/** Both ways at once; after a quarter of it something happens. */
static void exchange(struct end *a, struct end *b, const char *command)
{
    unsigned posted[2] = {0, 0};
    bool happened = false;
    uint64_t limit = wring_deadline_in(3 * WAIT_NS);
    while ((a->arrived < PUTS || b->arrived < PUTS || a->done < PUTS || b->done < PUTS) &&
           a->closed + b->closed == 0 && wring_now_ns() < limit) {
        posted[0] = put_next(a, b, posted[0]);
        posted[1] = put_next(b, a, posted[1]);
        end_turn(a);
        end_turn(b);
        if (!happened && a->arrived > PUTS / 4) {
            CHECK(system(command) == 0, "%s", command);
            happened = true;
        }
    }
    CHECK(a->arrived == PUTS && b->arrived == PUTS && a->done == PUTS && b->done == PUTS,
          "%u and %u arrived, %u and %u done of %u: '%s', '%s'", a->arrived, b->arrived, a->done,
          b->done, PUTS, a->text, b->text);
    CHECK(wrong == 0, "%u arrivals are not what was put", wrong);
}

/** @param command what happens to the second rail */
static void survive(const char *qps, const char *command, const char *repair)
{
    struct end a, b;
    struct wring_verbs_counters counters;
    for (int i = 0; i < 2; i++)
        REQUIRE(wring_config_set(&configs[i], NULL, "WRING_VERBS_QPS", qps) == WRING_OK, "%s", qps);
    wrong = 0;
    REQUIRE(ends_open(&a, &b, (size_t)2 * SLOTS * SLOT_BYTES, 16), "no pair");
    a.on_arrival = b.on_arrival = look;
    exchange(&a, &b, command);
    CHECK(wring_verbs_counters_of(a.provider, &counters), "no counters");
    CHECK(counters.paths_lost > 0 && counters.resyncs > 0, "nothing failed: %llu paths, %llu times",
          (unsigned long long)counters.paths_lost, (unsigned long long)counters.resyncs);
    CHECK(system(repair) == 0, "%s", repair);
    ends_close(&a, &b);
}

static void a_link_goes_down(void)
{
    survive("1", "ip link set cable2 down", "ip link set cable2 up && sleep 1");
}

static void a_link_of_many_queue_pairs_goes_down(void)
{
    survive("4", "ip link set cable3 down", "ip link set cable3 up && sleep 1");
}

static void a_link_loses_everything(void)
{
    survive("1", "tc qdisc add dev cable2 root netem loss 100%", "tc qdisc del dev cable2 root");
}

int main(int argc, char **argv)
{
    static const struct wring_provider_driver pair = {"verbs", open_alternating};
    static const struct wring_test_case cases[] = {
        {"a_link_goes_down", a_link_goes_down},
        {"a_link_of_many_queue_pairs_goes_down", a_link_of_many_queue_pairs_goes_down},
        {"a_link_loses_everything", a_link_loses_everything},
        {NULL, NULL},
    };
    if (system("test -e /sys/class/infiniband/rxd") != 0)
        wring_test_skip("verbs: needs the devices rxa to rxd, two rails");
    if (!load_configs())
        return 2;
    ends_use(&pair);
    return wring_test_main(argc, argv, cases);
}
