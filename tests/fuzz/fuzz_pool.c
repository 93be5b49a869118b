/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A peer that says and puts what it likes of pieces of groups, while we send and take some, and
 * groups end: what breaks a rule ends the job; until then every slot is free, granted, full or
 * lent, no ring holds more than it has places, and nothing is put outside of what the peer said it
 * has.
 *
 * Input: a row of steps of 1 byte and what they need (see run_step()).
 */
#include "tests/fuzz/fuzz.h"
#include "tests/lib/pool_rig.h"

#define STEPS 10

/** Numbers are small, mostly. */
static uint32_t number(struct fuzz_input *input)
{
    uint32_t value = fuzz_take(input, 1);
    return value < 200 ? value : value == 255 ? UINT32_MAX : 8000 + (value - 200) * 200;
}

/** The id of our channel, mostly. */
static uint32_t channel(const struct pool_rig *rig, struct fuzz_input *input)
{
    uint32_t value = fuzz_take(input, 1);
    return value < 200 ? rig->channel.name.id : value == 255 ? value : WRING_POOL_ID + value - 200;
}

static void say(struct pool_rig *rig, struct fuzz_input *input)
{
    static const enum wring_control_kind kinds[] = {WRING_CONTROL_ASK, WRING_CONTROL_GRANT,
                                                    WRING_CONTROL_SPARE, WRING_CONTROL_LEND,
                                                    WRING_CONTROL_LINK};
    struct wring_control control = {.kind = kinds[fuzz_take(input, 1) % 5]};

    if (control.kind == WRING_CONTROL_LINK)
        control = pool_rig_link();
    else
        control.a = control.kind == WRING_CONTROL_LEND ? number(input) : channel(rig, input);
    control.b += number(input);
    control.c = number(input);
    if (!wring_control_has_body(control.kind)) {
        pool_rig_hear(rig, &control);
        return;
    }
    for (uint32_t n = fuzz_take(input, 1) % 40; n > 0; n--)
        control.body[fuzz_take(input, 1) % sizeof(control.body)] ^= (uint8_t)fuzz_take(input, 1);
    control.bytes += fuzz_take(input, 1) % 100;
    pool_rig_hear(rig, &control);
}

static void put(struct pool_rig *rig, struct fuzz_input *input)
{
    uint32_t id = channel(rig, input), at = number(input), bytes = number(input);
    uint32_t in = at & ((1u << WRING_SEQUENCE_BITS) - 1);

    if (id == 255)
        pool_rig_put(rig, WRING_POOL_CHANNEL << WRING_SEQUENCE_BITS | in, bytes);
    else
        pool_rig_put(rig, id << WRING_SEQUENCE_BITS | in, bytes);
}

static void send_piece(struct pool_rig *rig, struct fuzz_input *input)
{
    struct wring_channel_out *out = wring_channel_out(&rig->channel, 1);
    uint32_t bytes = number(input) % (POOL_RIG_CHUNK + 1), sequence = out->reserved;

    if (out->link == NULL || pool_rig_is_aborted(rig))
        return; /* groups find each other first, and those that have ended send nothing */
    if (fuzz_take(input, 1) % 2 == 0 && wring_channel_has_credit(&rig->channel, 1))
        wring_channel_reserve(&rig->channel, 1);
    else
        sequence--; /* that of before, again */
    if (out->reserved > 0 && sequence < out->reserved)
        pool_rig_send(rig, sequence, bytes);
}

static void end_group(struct pool_rig *rig, bool whole)
{
    pool_rig_abort(rig);
    if (!whole)
        return;
    pool_rig_drop_channel(rig);
    FUZZ_CHECK(pool_rig_make_channel(rig), "out of memory");
    if (rig->engine.pool->links[1]->heard)
        pool_rig_connect(rig);
}

static void run_step(struct pool_rig *rig, struct fuzz_input *input)
{
    uint32_t step = fuzz_take(input, 1);

    switch (step % STEPS) {
    case 0:
    case 1:
        say(rig, input);
        break;
    case 2:
    case 3:
        put(rig, input);
        break;
    case 4:
        send_piece(rig, input);
        break;
    case 5:
        while (!pool_rig_is_aborted(rig) && pool_rig_take(rig))
            ;
        break;
    case 6:
        end_group(rig, step > 100);
        break;
    case 7:
        rig->busy = step > 100;
        break;
    case 8:
        if (wring_pool_credit(rig->engine.pool, &rig->peers[1], number(input)) == WRING_OK)
            rig->owner.running = step < 200;
        break;
    default:
        if (!pool_rig_is_aborted(rig) && !rig->engine.pool->links[1]->heard)
            pool_rig_connect(rig);
    }
    if (rig->fabric.state == WRING_FABRIC_WORKING) {
        wring_pool_poll(rig->engine.pool);
        wring_pool_make_room(rig->engine.pool);
    }
}

/** What the pool promises after every step. */
static void check(const struct pool_rig *rig)
{
    const struct wring_pool_link *link = rig->engine.pool->links[1];
    const struct wring_pool_slots *slots = &rig->engine.pool->slots;
    uint32_t free_ones = 0, lent = 0, owed = 0;

    for (uint32_t i = 0; i < slots->n; i++) {
        free_ones += slots->slot[i].state == WRING_POOL_FREE;
        lent += slots->slot[i].state == WRING_POOL_LENT;
        owed += slots->slot[i].state == WRING_POOL_OWED;
    }
    FUZZ_CHECK(free_ones == slots->n_free && owed == slots->n_owed, "%u free, %u owed", free_ones,
               owed);
    FUZZ_CHECK(lent == link->large.n && slots->shared == slots->n - lent && slots->shared > 0,
               "%u of %u are lent", lent, slots->n);
    FUZZ_CHECK(link->small.come - link->small.consumed <= link->small.n &&
                   link->large.come - link->large.consumed <= link->large.n,
               "a ring overflows");
    FUZZ_CHECK(link->small_room.sent - link->small_room.freed <= link->small_room.n &&
                   link->large_room.sent - link->large_room.freed <= link->large_room.n,
               "the peer's ring overflows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct pool_rig *rig = pool_rig_open();

    FUZZ_CHECK(rig != NULL, "out of memory");
    while (input.left > 0 && rig->fabric.state == WRING_FABRIC_WORKING) {
        run_step(rig, &input);
        check(rig);
    }
    pool_rig_close(rig);
    return 0;
}
