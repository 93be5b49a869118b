/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/verbs_losses.h"

#include "base/config.h"
#include "transport/providers/providers.h"

#define SLOTS 16
#define SLOT_BYTES 50000 /* no multiple of anything */

static struct wring_config configs[2]; /* one per end */
static unsigned opened, wrong;

/** Every other instance at the other end. */
static enum wring_status open_alternating(const struct wring_provider_params *params,
                                          struct wring_provider **out)
{
    struct wring_provider_params mine = *params;
    mine.config = &configs[opened++ % 2];
    return wring_provider_verbs.open(&mine, out);
}

static bool set(struct wring_config *config, const char *name, const char *value)
{
    return value == NULL || wring_config_set(config, NULL, name, value) == WRING_OK;
}

static bool load_configs(const struct losses *losses)
{
    for (int i = 0; i < 2; i++)
        if (wring_config_load(&configs[i], NULL) != WRING_OK ||
            !set(&configs[i], "WRING_VERBS_DEVICES", losses->devices[i]) ||
            !set(&configs[i], "WRING_VERBS_STRIPE_BYTES", "4k") ||
            !set(&configs[i], "WRING_VERBS_QPS", losses->qps) ||
            !set(&configs[i], "WRING_VERBS_TIMEOUT", losses->timeout) ||
            !set(&configs[i], "WRING_VERBS_RECOVER", losses->recover) ||
            !set(&configs[i], "WRING_VERBS_REVIVE", losses->revive))
            return false;
    return true;
}

static void look(struct end *end, const struct wring_event *event)
{
    const uint8_t *slot = end->base + (size_t)(event->imm % SLOTS) * SLOT_BYTES;
    wrong += event->bytes != SLOT_BYTES || !has_pattern(slot, SLOT_BYTES, event->imm);
}

/** Put the next one where there is room; its source lies behind the slots of the other side. */
static unsigned put_next(const struct losses *losses, struct end *from, const struct end *to,
                         unsigned posted)
{
    size_t at = (size_t)(posted % SLOTS) * SLOT_BYTES;
    uint8_t *source = from->base + (size_t)SLOTS * SLOT_BYTES + at;
    if (posted == losses->puts || posted - to->arrived >= SLOTS || posted - from->done >= SLOTS)
        return posted;
    fill_pattern(source, SLOT_BYTES, posted);
    enum wring_status status = end_put(from, source, at, SLOT_BYTES, posted, posted);
    CHECK(status == WRING_OK || status == WRING_ERR_AGAIN || status == WRING_ERR_CLOSED, "%s",
          wring_status_text(status));
    if (status == WRING_OK && posted % 5 == 0)
        from->provider->ops->send(from->conn, "between", 7);
    return posted + (status == WRING_OK);
}

static bool is_complete(const struct losses *losses, const struct end *end)
{
    return end->arrived >= losses->puts && end->done >= losses->puts;
}

static bool use_configs(const struct losses *losses)
{
    static const struct wring_provider_driver pair = {"verbs", open_alternating};
    ends_use(&pair);
    return load_configs(losses);
}

bool losses_open(struct losses *losses, size_t bytes)
{
    return use_configs(losses) && end_open(&losses->a, 1, bytes, 16) &&
           end_open(&losses->b, 1, bytes, 16);
}

bool losses_pair(struct losses *losses, size_t bytes)
{
    return use_configs(losses) && ends_open(&losses->a, &losses->b, bytes, 16);
}

bool losses_run(struct losses *losses)
{
    struct end *a = &losses->a, *b = &losses->b;
    unsigned posted[2] = {0, 0};
    if (!losses_pair(losses, (size_t)2 * SLOTS * SLOT_BYTES))
        return false;
    a->on_arrival = b->on_arrival = look;
    wrong = 0;
    uint64_t limit = wring_deadline_in(2 * WAIT_NS);
    while ((!is_complete(losses, a) || !is_complete(losses, b)) &&
           (a->closed == 0 || b->closed == 0) && wring_now_ns() < limit) {
        posted[0] = put_next(losses, a, b, posted[0]);
        posted[1] = put_next(losses, b, a, posted[1]);
        if (losses->rests == NULL || !losses->rests(losses->arg, 0))
            end_turn(a);
        if (losses->rests == NULL || !losses->rests(losses->arg, 1))
            end_turn(b);
        losses->happen(losses->arg, a->arrived < b->arrived ? a->arrived : b->arrived);
    }
    losses->wrong = wrong;
    return true;
}

void losses_expect_survival(struct losses *losses, bool noticed)
{
    struct end *a = &losses->a, *b = &losses->b;
    struct wring_verbs_counters counters;
    CHECK(is_complete(losses, a) && is_complete(losses, b),
          "%u and %u arrived, %u and %u done of %u: '%s', '%s'", a->arrived, b->arrived, a->done,
          b->done, losses->puts, a->text, b->text);
    CHECK(losses->wrong == 0, "%u arrivals are not what was put", losses->wrong);
    CHECK(wring_verbs_counters_of(a->provider, &counters) &&
              (!noticed || (counters.paths_lost > 0 && counters.resyncs > 0)),
          "nothing failed: %llu paths, %llu times", (unsigned long long)counters.paths_lost,
          (unsigned long long)counters.resyncs);
    ends_close(a, b);
}

void losses_expect_end(struct losses *losses)
{
    struct end *a = &losses->a, *b = &losses->b;
    CHECK(a->closed == 1 && b->closed == 1, "not told of the end: '%s', '%s'", a->text, b->text);
    CHECK(losses->wrong == 0, "%u arrivals are not what was put", losses->wrong);
    ends_close(a, b);
}
