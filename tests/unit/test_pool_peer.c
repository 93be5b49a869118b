/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may say of slots for pieces of groups, and what ends the job, naming it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pool_rig.h"
#include "tests/lib/test.h"

#define SMALL WRING_POOL_SMALL
#define LARGE ((size_t)10000)
#define GRANTED(slot) (WRING_POOL_CHANNEL << WRING_SEQUENCE_BITS | (slot))

/** A peer that has told of nothing yet. */
static struct pool_rig *open_early(void)
{
    struct pool_rig *rig = pool_rig_open();
    if (rig == NULL)
        abort();
    return rig;
}

static struct pool_rig *open_rig(void)
{
    struct pool_rig *rig = open_early();
    pool_rig_connect(rig);
    return rig;
}

static bool is_working(const struct pool_rig *rig)
{
    return rig->fabric.state == WRING_FABRIC_WORKING;
}

static void close_working(struct pool_rig *rig, const char *what)
{
    CHECK(is_working(rig), "%s: %s", what, rig->line);
    pool_rig_close(rig);
}

static void close_refused(struct pool_rig *rig, const char *what, const char *why)
{
    CHECK(!is_working(rig) && rig->fabric.failure.status == WRING_ERR_FRAME &&
              strstr(rig->line, "rank 1") != NULL && strstr(rig->line, why) != NULL,
          "%s: '%s' is logged", what, rig->line);
    pool_rig_close(rig);
}

static uint32_t count(const struct pool_rig *rig, enum wring_control_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rig->n_said && i < POOL_RIG_SAID; i++)
        n += rig->said[i].kind == kind;
    return n;
}

static void ask(struct pool_rig *rig, uint32_t sequence, size_t bytes)
{
    uint32_t imm = pool_rig_imm(rig, sequence);
    pool_rig_say(rig, WRING_CONTROL_ASK, rig->channel.name.id, (uint32_t)bytes,
                 imm & ((1u << WRING_SEQUENCE_BITS) - 1));
}

/** The peer asks for a piece, and is granted a slot. @return it */
static uint32_t granted(struct pool_rig *rig, uint32_t sequence)
{
    uint32_t slot = UINT32_MAX;
    uint32_t from = rig->n_said;
    ask(rig, sequence, LARGE);
    wring_pool_poll(rig->engine.pool);
    for (uint32_t i = from; i < rig->n_said; i++)
        if (rig->said[i].kind == WRING_CONTROL_GRANT)
            slot = rig->said[i].b;
    CHECK(slot < POOL_RIG_SLOTS, "nothing was granted: %s", rig->line);
    return slot;
}

static void honest_pieces_come(void)
{
    struct pool_rig *rig = open_rig();
    const struct wring_pool_slots *slots = &rig->engine.pool->slots;

    CHECK(pool_rig_put(rig, pool_rig_imm(rig, 0), SMALL) && pool_rig_take(rig), "a small piece");
    CHECK(pool_rig_put(rig, GRANTED(granted(rig, 1)), LARGE) && pool_rig_take(rig), "asked for");
    CHECK(count(rig, WRING_CONTROL_LEND) == 1 && slots->shared == POOL_RIG_SLOTS - 1, "lent");
    for (uint32_t i = 2; i < 40; i++)
        CHECK(pool_rig_put(rig, pool_rig_imm(rig, i), LARGE) && pool_rig_take(rig), "lent: %u", i);
    CHECK(slots->asked == 1 && slots->n_free == slots->shared, "%u slots are free", slots->n_free);
    close_working(rig, "honest pieces");
}

static void bad_asks(void)
{
    static const struct {
        const char *what;
        uint32_t sequence, bytes;
    } cases[] = {
        {"no bytes", 0, 0},
        {"a piece for the ring", 0, SMALL},
        {"more than a slot", 0, POOL_RIG_CHUNK + 1},
        {"2^32 - 1 bytes", 0, UINT32_MAX},
        {"beyond the window", POOL_RIG_WINDOW, LARGE},
        {"before the window", UINT32_MAX, LARGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pool_rig *rig = open_rig();
        ask(rig, cases[i].sequence, cases[i].bytes);
        close_refused(rig, cases[i].what, "asks for room for a piece that it may not send");
    }

    struct pool_rig *rig = open_rig();
    ask(rig, 0, LARGE);
    CHECK(is_working(rig), "%s", rig->line);
    ask(rig, 0, LARGE);
    close_refused(rig, "asked twice", "asks for room for a piece that it may not send");

    rig = open_rig();
    pool_rig_put(rig, pool_rig_imm(rig, 0), SMALL);
    ask(rig, 0, LARGE);
    close_refused(rig, "of a piece that is here", "asks for room for a piece that it may not send");
}

/** Of groups that were never there, and that are gone. */
static void asks_of_no_group(void)
{
    static const uint32_t ids[] = {0, 5, WRING_POOL_ID + 1, WRING_POOL_CHANNEL, UINT32_MAX};
    struct pool_rig *rig;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        rig = open_rig();
        pool_rig_say(rig, WRING_CONTROL_ASK, ids[i], LARGE, 0);
        close_refused(rig, "a channel that never was", "asks for room for a piece of no group");
    }
    rig = open_rig();
    uint32_t id = rig->channel.name.id;
    pool_rig_drop_channel(rig);
    REQUIRE(pool_rig_make_channel(rig), "no channel");
    pool_rig_connect(rig);
    pool_rig_say(rig, WRING_CONTROL_ASK, id, LARGE, 0);
    CHECK(rig->engine.pool->slots.asks == NULL, "kept for a group that is gone");
    close_working(rig, "a group that is gone");
}

static void bad_grants(void)
{
    static const uint32_t slots[] = {POOL_RIG_SLOTS, 1 << 16, UINT32_MAX};
    struct pool_rig *rig;
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        rig = open_rig();
        REQUIRE(pool_rig_send(rig, 0, LARGE) == WRING_ERR_AGAIN, "not asked");
        pool_rig_say(rig, WRING_CONTROL_GRANT, rig->channel.name.id, slots[i], 0);
        close_refused(rig, "a slot out of range", "granted a slot that it does not have");
    }
    rig = open_early(); /* it has not told of slots */
    pool_rig_say(rig, WRING_CONTROL_GRANT, rig->channel.name.id, 0, 0);
    close_refused(rig, "before it told of slots", "granted a slot that it does not have");

    rig = open_rig();
    pool_rig_say(rig, WRING_CONTROL_GRANT, rig->channel.name.id, 0, 0);
    close_refused(rig, "not asked for", "granted a slot that nobody asked for");

    rig = open_rig();
    pool_rig_say(rig, WRING_CONTROL_GRANT, WRING_POOL_ID + 1, 0, 0);
    close_refused(rig, "of no group", "granted a slot that nobody asked for");

    rig = open_rig();
    REQUIRE(pool_rig_send(rig, 0, LARGE) == WRING_ERR_AGAIN, "not asked");
    pool_rig_say(rig, WRING_CONTROL_GRANT, rig->channel.name.id, 2, 0);
    CHECK(pool_rig_send(rig, 0, LARGE) == WRING_OK && rig->imm == GRANTED(2) &&
              rig->offset == (uint64_t)2 * POOL_RIG_CHUNK,
          "put with %x to %" PRIu64, rig->imm, rig->offset);
    pool_rig_say(rig, WRING_CONTROL_GRANT, rig->channel.name.id, 2, 0);
    close_refused(rig, "a second time", "granted a slot that nobody asked for");
}

static void late_grants_go_back(void)
{
    struct pool_rig *rig = open_rig();
    uint32_t id = rig->channel.name.id;
    REQUIRE(pool_rig_send(rig, 0, LARGE) == WRING_ERR_AGAIN, "not asked");
    pool_rig_abort(rig);
    pool_rig_say(rig, WRING_CONTROL_GRANT, id, 3, 0);
    CHECK(count(rig, WRING_CONTROL_SPARE) == 1, "kept after the abort");
    pool_rig_drop_channel(rig);
    rig->busy = true;
    pool_rig_say(rig, WRING_CONTROL_GRANT, id, 1, 0);
    rig->busy = false;
    wring_pool_poll(rig->engine.pool);
    CHECK(count(rig, WRING_CONTROL_SPARE) == 2, "kept after the group's end");
    close_working(rig, "late grants");
}

static void bad_spares(void)
{
    static const char why[] = "gave back a slot that it was not granted";
    static const uint32_t slots[] = {0, POOL_RIG_SLOTS, UINT32_MAX};
    struct pool_rig *rig;
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        rig = open_rig();
        pool_rig_say(rig, WRING_CONTROL_SPARE, 0, slots[i], 0);
        close_refused(rig, "not granted, or none", why);
    }
    rig = open_rig();
    uint32_t slot = granted(rig, 0);
    pool_rig_say(rig, WRING_CONTROL_SPARE, 0, slot, 0);
    CHECK(is_working(rig), "%s", rig->line);
    pool_rig_say(rig, WRING_CONTROL_SPARE, 0, slot, 0);
    close_refused(rig, "twice", why);

    rig = open_rig();
    slot = granted(rig, 0);
    pool_rig_put(rig, GRANTED(slot), LARGE);
    pool_rig_say(rig, WRING_CONTROL_SPARE, 0, slot, 0);
    close_refused(rig, "full", why);

    rig = open_rig();
    granted(rig, 0);
    REQUIRE(rig->engine.pool->links[1]->large.n == 1, "nothing is lent");
    pool_rig_say(rig, WRING_CONTROL_SPARE, 0, rig->engine.pool->links[1]->lent[0], 0);
    close_refused(rig, "lent", why);
}

static struct wring_control lend(uint32_t n, uint32_t slot)
{
    struct wring_control control = {.kind = WRING_CONTROL_LEND, .a = n, .bytes = 4 * n};
    for (uint32_t i = 0; i < n; i++)
        wring_put_u32(control.body + (size_t)4 * i, slot);
    return control;
}

static void lent_slots(void)
{
    static const char why[] = "lends slots that it does not have";
    const struct wring_control good = lend(2, POOL_RIG_SLOTS - 1);
    struct wring_control bad[] = {lend(0, 0),
                                  lend(WRING_POOL_RING + 1, 0),
                                  lend(1, POOL_RIG_SLOTS),
                                  lend(1, UINT32_MAX),
                                  lend(2, 0),
                                  lend(2, 0)};
    struct pool_rig *rig;
    bad[4].bytes = 4;
    bad[5].bytes = 12;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rig = open_rig();
        pool_rig_hear(rig, &bad[i]);
        CHECK(pool_rig_send(rig, 0, LARGE) == WRING_ERR_AGAIN && rig->puts == 0, "put");
        close_refused(rig, "none, too many, out of range, cut", why);
    }
    rig = open_early();
    pool_rig_hear(rig, &good);
    close_refused(rig, "before it told of slots", why);

    rig = open_rig();
    pool_rig_hear(rig, &good);
    CHECK(pool_rig_send(rig, 0, LARGE) == WRING_OK &&
              rig->offset == (uint64_t)(POOL_RIG_SLOTS - 1) * POOL_RIG_CHUNK,
          "put to %" PRIu64, rig->offset);
    CHECK(pool_rig_send(rig, 1, LARGE) == WRING_OK, "the second one");
    CHECK(pool_rig_send(rig, 2, LARGE) == WRING_ERR_AGAIN && rig->puts == 2 &&
              count(rig, WRING_CONTROL_ASK) == 1,
          "one too many is asked for");
    pool_rig_hear(rig, &good);
    close_refused(rig, "twice", why);
}

static void bad_words_of_memory(void)
{
    static const char why[] = "sent a malformed word of where pieces of groups go";
    struct wring_control bad[8];
    struct pool_rig *rig;
    for (size_t i = 0; i < 8; i++)
        bad[i] = pool_rig_link();
    bad[0].a = 0;
    bad[1].a = WRING_POOL_SLOTS_MAX + 1;
    bad[2].b++; /* slots beyond the memory, */
    bad[3].b = UINT32_MAX;
    wring_put_u64(bad[4].body, 1); /* the ring as well */
    wring_put_u64(bad[5].body, UINT64_MAX);
    bad[6].bytes--;
    bad[7].bytes++;
    for (size_t i = 0; i < 8; i++) {
        rig = open_early();
        pool_rig_hear(rig, &bad[i]);
        CHECK(!rig->engine.pool->links[1]->heard, "believed");
        close_refused(rig, "of no slots, too many, too large, cut, too long", why);
    }
    rig = open_rig();
    bad[0] = pool_rig_link();
    pool_rig_hear(rig, &bad[0]);
    close_refused(rig, "twice", why);
}

static void bad_puts(void)
{
    static const char nowhere[] = "sent a piece of a group that belongs nowhere";
    static const char ungranted[] = "sent a piece of a group into a slot that it was not granted";
    struct pool_rig *rig = open_rig();
    CHECK(!pool_rig_put(rig, GRANTED(0), LARGE), "taken");
    close_refused(rig, "no grant", ungranted);

    rig = open_rig();
    CHECK(!pool_rig_put(rig, GRANTED(POOL_RIG_SLOTS), LARGE), "taken");
    close_refused(rig, "no such slot", ungranted);

    rig = open_rig();
    CHECK(!pool_rig_put(rig, GRANTED(granted(rig, 0)), LARGE + 1), "taken");
    close_refused(rig, "another length", ungranted);

    rig = open_rig();
    CHECK(!pool_rig_put(rig, pool_rig_imm(rig, 0), LARGE), "taken");
    close_refused(rig, "nothing is lent", nowhere);

    rig = open_rig();
    pool_rig_put(rig, GRANTED(granted(rig, 0)), LARGE); /* now one slot is lent */
    CHECK(pool_rig_put(rig, pool_rig_imm(rig, 1), LARGE), "refused");
    CHECK(!pool_rig_put(rig, pool_rig_imm(rig, 2), LARGE), "taken");
    close_refused(rig, "more than is lent", nowhere);

    rig = open_rig();
    CHECK(!pool_rig_put(rig, pool_rig_imm(rig, POOL_RIG_WINDOW), SMALL), "taken");
    close_refused(rig, "beyond the window", "sent a piece of a group that it may not send");

    rig = open_rig();
    ask(rig, 0, LARGE);
    CHECK(!pool_rig_put(rig, pool_rig_imm(rig, 0), SMALL), "taken");
    close_refused(rig, "asked for", "sent a piece of a group that it may not send");

    rig = open_rig();
    CHECK(!pool_rig_put(rig, (WRING_POOL_ID + 1) << WRING_SEQUENCE_BITS, SMALL), "taken");
    close_refused(rig, "a channel that never was", nowhere);
}

/** They are counted and dropped, and their places go back. */
static void pieces_of_groups_that_are_gone(void)
{
    struct pool_rig *rig = open_rig();
    const struct wring_pool_link *link = rig->engine.pool->links[1];
    const struct wring_pool_slots *slots = &rig->engine.pool->slots;
    uint32_t imm = pool_rig_imm(rig, 3), slot = granted(rig, 0);

    pool_rig_put(rig, pool_rig_imm(rig, 1), SMALL); /* nobody takes these any more */
    pool_rig_put(rig, pool_rig_imm(rig, 2), LARGE);
    pool_rig_drop_channel(rig);
    CHECK(!pool_rig_put(rig, GRANTED(slot), LARGE), "taken");
    for (int i = 0; i < 30; i++)
        CHECK(!pool_rig_put(rig, imm, i % 2 == 0 ? SMALL : LARGE), "taken");
    CHECK(link->small.consumed == 16 && link->large.consumed == 16 &&
              slots->n_free == slots->shared && slots->asks == NULL,
          "%u and %u are counted, %u free", link->small.consumed, link->large.consumed,
          slots->n_free);
    CHECK(count(rig, WRING_CONTROL_CREDIT) > 0, "and nobody is told");
    close_working(rig, "groups that are gone");
}

static void bad_credits(void)
{
    struct pool_rig *rig = open_rig();
    struct wring_pool *pool = rig->engine.pool;

    for (uint32_t i = 0; i < 3; i++)
        CHECK(pool_rig_send(rig, i, SMALL) == WRING_OK, "send");
    CHECK(wring_pool_credit(pool, &rig->peers[1], 4) == WRING_ERR_FRAME, "more than was sent");
    CHECK(wring_pool_credit(pool, &rig->peers[1], 1 << 16) == WRING_ERR_FRAME, "of lent ones");
    CHECK(wring_pool_credit(pool, &rig->peers[1], 2) == WRING_OK, "two");
    CHECK(wring_pool_credit(pool, &rig->peers[1], 1) == WRING_ERR_FRAME, "taken back");
    CHECK(wring_pool_credit(pool, &rig->peers[1], 3) == WRING_OK, "all");
    CHECK(wring_pool_credit(pool, &rig->peers[0], 0) == WRING_ERR_FRAME, "of nobody");
    close_working(rig, "credits");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"honest pieces come", honest_pieces_come},
        {"bad asks", bad_asks},
        {"asks of no group", asks_of_no_group},
        {"bad grants", bad_grants},
        {"late grants go back", late_grants_go_back},
        {"bad spares", bad_spares},
        {"lent slots", lent_slots},
        {"bad words of memory", bad_words_of_memory},
        {"bad puts", bad_puts},
        {"pieces of groups that are gone", pieces_of_groups_that_are_gone},
        {"bad credits", bad_credits},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
