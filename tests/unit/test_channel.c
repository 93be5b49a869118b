/* SPDX-License-Identifier: Apache-2.0 */
/** Channels over a network of the test's own, which delivers when it likes. */
#include "transport/channel.h"

#include <stdlib.h>

#include "tests/lib/test.h"
#include "transport/control.h"

#define MEMBERS 3
#define RANKS 5
#define GENERATION 9
#define TAG 0x2C5
#define WAITING_MAX 4096

static const uint32_t ranks[MEMBERS] = {1, 3, 4};

/** Something on its way. */
struct parcel {
    bool is_put;
    uint32_t from, to; /* members */
    uint32_t imm;
    uint64_t offset;
    size_t bytes;
    uint8_t data[WRING_SEND_MAX];
};

struct side;

struct wire {
    struct wring_conn conn;
    struct wring_remote remote;
    uint32_t from, to;
};

/** One member. */
struct side {
    struct wring_fabric fabric;
    struct wring_peer peers[RANKS];
    struct wire wires[MEMBERS];
    struct wring_channel channel;
    uint8_t *memory;
    uint32_t sent[MEMBERS];     /* pieces put */
    uint32_t reserved[MEMBERS]; /* a piece that could not be put yet, */
    bool holds[MEMBERS];        /* if there is one */
    struct held {
        uint32_t member, sequence;
        const uint8_t *at;
    } held[MEMBERS * 64]; /* taken, not released */
    unsigned n_held;
    uint32_t got[MEMBERS];
};

static struct side sides[MEMBERS];
static struct wring_config config;
static struct parcel parcels[WAITING_MAX];
static unsigned n_parcels;
static uint32_t chance;
static size_t slot_bytes;
static uint32_t window, start;
static bool tagged;

static bool one_in(uint32_t n)
{
    return wring_test_random(&chance) % n == 0;
}

/** Bytes of the piece with that number. */
static size_t piece(uint8_t *to, uint32_t from, uint32_t target, uint32_t number)
{
    size_t bytes = (number * 7919 + from) % (slot_bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number * 31 + from * 7 + target * 3 + i);
    return bytes;
}

static enum wring_status post(const struct parcel *parcel, const void *data)
{
    if (n_parcels == WAITING_MAX || one_in(5))
        return WRING_ERR_AGAIN;
    parcels[n_parcels] = *parcel;
    if (parcel->bytes > 0)
        memcpy(parcels[n_parcels].data, data, parcel->bytes);
    n_parcels++;
    return WRING_OK;
}

static enum wring_status take_put(struct wring_conn *conn, struct wring_region *region,
                                  const void *local, struct wring_remote *remote, uint64_t offset,
                                  size_t bytes, uint32_t imm, uint64_t cookie)
{
    const struct wire *wire = (const struct wire *)conn;
    struct parcel parcel = {true, wire->from, wire->to, imm, offset, bytes, {0}};
    (void)region, (void)cookie;
    CHECK(remote == &wire->remote, "put elsewhere");
    return post(&parcel, local);
}

static enum wring_status take_send(struct wring_conn *conn, const void *data, size_t bytes)
{
    const struct wire *wire = (const struct wire *)conn;
    struct parcel parcel = {false, wire->from, wire->to, 0, 0, bytes, {0}};
    return post(&parcel, data);
}

static const struct wring_provider_ops net_ops = {
    .name = "net", .put = take_put, .send = take_send};
static struct wring_provider net = {&net_ops};

static void side_open(struct side *side, uint32_t me)
{
    *side = (struct side){.fabric = {.config = &config, .peers = side->peers}};
    side->memory = wring_test_guarded(wring_channel_memory(MEMBERS, window, slot_bytes));
    REQUIRE(wring_channel_init(&side->channel, &side->fabric,
                               (struct wring_members){.n = MEMBERS, .me = me, .ranks = ranks},
                               window, slot_bytes, side->memory) == WRING_OK,
            "init");
    side->channel.name = (struct wring_channel_name){me + 10, GENERATION};
    side->channel.tagged = tagged;
    side->channel.tag = TAG;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct wire *wire = &side->wires[i];
        *wire = (struct wire){{.provider = &net}, {&wire->conn, 1 << 20}, me, i};
        side->peers[ranks[i]].state = WRING_PEER_READY;
        side->peers[ranks[i]].conn = &wire->conn;
        side->peers[ranks[i]].window.limit = 2 << 20;
        struct wring_channel_out *out = wring_channel_out(&side->channel, i);
        CHECK(out->peer == &side->peers[ranks[i]] && out->limit == window, "member %u", i);
        out->remote = &wire->remote;
        out->offset = (uint64_t)me * window * side->channel.stride;
        out->name = (struct wring_channel_name){i + 10, GENERATION};
        /* as after a long run */
        out->reserved = start;
        out->limit = start + window;
        struct wring_channel_in *in = &side->channel.in[i];
        in->taken = in->consumed = in->credited = start;
    }
}

static void open_all(uint32_t slots, size_t bytes, uint32_t first, uint32_t seed)
{
    config.chunk_bytes = 1 << 20;
    window = slots;
    slot_bytes = bytes;
    start = first;
    chance = seed;
    n_parcels = 0;
    for (uint32_t i = 0; i < MEMBERS; i++)
        side_open(&sides[i], i);
}

static void close_all(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        wring_channel_finish(&sides[i].channel);
        wring_channel_finish(&sides[i].channel); /* zeroed memory is fine */
    }
    wring_test_free_guarded();
}

/** Send the next piece, if there is credit; a piece that found no room keeps its sequence. */
static void step_send(struct side *side, uint32_t me, uint32_t to, uint32_t total)
{
    uint8_t data[WRING_SEND_MAX];
    if (side->sent[to] == total)
        return;
    if (!side->holds[to]) {
        if (!wring_channel_has_credit(&side->channel, to))
            return;
        side->reserved[to] = wring_channel_reserve(&side->channel, to);
        side->holds[to] = true;
        CHECK(side->reserved[to] == start + side->sent[to], "sequence %u", side->reserved[to]);
    }
    size_t bytes = piece(data, me, to, side->sent[to]);
    enum wring_status status =
        wring_channel_put(&side->channel, to, side->reserved[to], NULL, data, bytes, 0);
    CHECK(status == WRING_OK || status == WRING_ERR_AGAIN, "%s", wring_status_text(status));
    if (status != WRING_OK)
        return;
    side->holds[to] = false;
    side->sent[to]++;
}

static void deliver_put(struct side *to, const struct parcel *parcel)
{
    size_t all = wring_channel_memory(MEMBERS, window, slot_bytes);
    CHECK(wring_imm_channel(parcel->imm) == parcel->to + 10, "channel of 0x%x", parcel->imm);
    REQUIRE(parcel->offset + parcel->bytes <= all, "beyond the slots");
    memcpy(to->memory + parcel->offset, parcel->data, parcel->bytes);
    CHECK(wring_channel_arrived(&to->channel, parcel->from, parcel->imm, parcel->bytes) == WRING_OK,
          "refused");
    wring_put_window_done(&sides[parcel->from].peers[ranks[parcel->to]].window, parcel->bytes);
}

static void deliver_credit(struct side *to, const struct parcel *parcel)
{
    struct wring_control control;
    REQUIRE(wring_control_parse(parcel->data, parcel->bytes, &control), "malformed");
    CHECK(control.kind == WRING_CONTROL_CREDIT && control.a == parcel->to + 10 &&
              control.b == GENERATION,
          "kind %d, channel %u, generation %u", control.kind, control.a, control.b);
    CHECK(wring_channel_credit(&to->channel, parcel->from, control.c) == WRING_OK, "credit %u",
          control.c);
}

/** Deliver any parcel that no other of its kind on its way must precede. */
static void step_deliver(void)
{
    if (n_parcels == 0)
        return;
    unsigned index = wring_test_random(&chance) % n_parcels;
    for (unsigned i = 0; i < index; i++)
        if (parcels[i].from == parcels[index].from && parcels[i].to == parcels[index].to &&
            parcels[i].is_put == parcels[index].is_put) {
            index = i;
            break;
        }
    struct parcel parcel = parcels[index];
    memmove(parcels + index, parcels + index + 1, (--n_parcels - index) * sizeof(parcels[0]));
    if (parcel.is_put)
        deliver_put(&sides[parcel.to], &parcel);
    else
        deliver_credit(&sides[parcel.to], &parcel);
}

static void check_piece(const uint8_t *at, size_t bytes, uint32_t from, uint32_t me,
                        uint32_t number)
{
    uint8_t want[WRING_SEND_MAX];
    size_t want_bytes = piece(want, from, me, number);
    CHECK((bytes == SIZE_MAX || bytes == want_bytes) && memcmp(at, want, want_bytes) == 0,
          "piece %u from %u", number, from);
}

static void step_take(struct side *side, uint32_t me, uint32_t from)
{
    size_t bytes = SIZE_MAX;
    const uint8_t *at = wring_channel_peek(&side->channel, from, &bytes);
    if (at == NULL)
        return;
    check_piece(at, bytes, from, me, side->got[from]);
    uint32_t sequence = wring_channel_take(&side->channel, from);
    CHECK(sequence == start + side->got[from], "sequence %u", sequence);
    side->got[from]++;
    side->held[side->n_held++] = (struct held){from, sequence, at};
}

/** Release any; until then nobody may have written there. */
static void step_release(struct side *side, uint32_t me)
{
    if (side->n_held == 0)
        return;
    unsigned index = wring_test_random(&chance) % side->n_held;
    struct held held = side->held[index];
    side->held[index] = side->held[--side->n_held];
    check_piece(held.at, SIZE_MAX, held.member, me, held.sequence - start);
    wring_channel_release(&side->channel, held.member, held.sequence);
}

static bool all_through(uint32_t total)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t j = 0; j < MEMBERS; j++)
            if (i != j &&
                (sides[i].got[j] < total || sides[i].channel.in[j].consumed - start < total))
                return false;
    return true;
}

/** All send to all, and everything happens in any order. */
static void run(uint32_t slots, size_t bytes, uint32_t first, uint32_t total)
{
    open_all(slots, bytes, first, first + slots + 1);
    for (unsigned long step = 0; step < 3000000 && !all_through(total); step++) {
        uint32_t me = wring_test_random(&chance) % MEMBERS;
        uint32_t other = (me + 1 + wring_test_random(&chance) % (MEMBERS - 1)) % MEMBERS;
        struct side *side = &sides[me];
        switch (wring_test_random(&chance) % 5) {
        case 0:
            step_send(side, me, other, total);
            break;
        case 1:
            step_take(side, me, other);
            break;
        case 2:
            step_release(side, me);
            break;
        case 3:
            if (side->fabric.owes_credits)
                wring_channel_return_credits(&side->channel);
            break;
        default:
            step_deliver();
        }
    }
    CHECK(all_through(total), "stuck: window %u, %zu bytes, from %u", slots, bytes, first);
    close_all();
}

static void pieces_come_in_sequence_and_stay_until_released(void)
{
    run(1, 1, 0, 300);
    run(2, 64, 0, 300);
    run(8, 100, 0, 600);
    run(16, 0, 0, 300);
}

static void sequences_wrap(void)
{
    run(4, 33, (1u << WRING_SEQUENCE_BITS) - 7, 100);
    run(1, 33, UINT32_MAX - 20, 100);
    run(8, 33, UINT32_MAX - 20, 100);
    run(64, 33, UINT32_MAX - 20, 400);
}

static void memory_is_whole_lines(void)
{
    CHECK(wring_channel_memory(3, 4, 1) == 3 * 4 * 64, "1");
    CHECK(wring_channel_memory(3, 4, 64) == 3 * 4 * 64, "64");
    CHECK(wring_channel_memory(3, 4, 65) == 3 * 4 * 128, "65");
    CHECK(wring_channel_memory(3, 0, 65) == 0, "placed");
    CHECK(wring_channel_memory(1024, 16, 1 << 20) == 1ull << 34, "large");
}

static void credit_runs_out(void)
{
    open_all(4, 64, 0, 1);
    struct wring_channel *channel = &sides[0].channel;
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(wring_channel_has_credits(channel), "%u", i);
        CHECK(wring_channel_reserve(channel, 1) == i, "%u", i);
    }
    CHECK(!wring_channel_has_credit(channel, 1) && wring_channel_has_credit(channel, 2), "of one");
    CHECK(!wring_channel_has_credits(channel), "of all");
    CHECK(wring_channel_credit(channel, 1, 2) == WRING_OK, "credit");
    CHECK(wring_channel_has_credit(channel, 1) && wring_channel_has_credits(channel), "again");
    close_all();
}

/** Immediates and sizes that no honest peer sends. */
static void bad_arrivals_are_refused(void)
{
    open_all(4, 100, 5, 1);
    struct wring_channel *channel = &sides[0].channel;
    const uint32_t id = 10u << WRING_SEQUENCE_BITS;
    size_t bytes;
    CHECK(wring_channel_arrived(channel, 1, id | 5, 101) == WRING_ERR_FRAME, "too large");
    CHECK(wring_channel_arrived(channel, 1, id | 5, SIZE_MAX) == WRING_ERR_FRAME, "much too large");
    CHECK(wring_channel_arrived(channel, 1, id | 9, 1) == WRING_ERR_FRAME, "beyond the window");
    CHECK(wring_channel_arrived(channel, 1, id | 4, 1) == WRING_ERR_FRAME, "the one before");
    CHECK(wring_channel_arrived(channel, 1, id | 0x3FFF, 1) == WRING_ERR_FRAME, "the last number");
    CHECK(wring_channel_peek(channel, 1, &bytes) == NULL, "there is something");
    CHECK(wring_channel_arrived(channel, 1, id | 5, 100) == WRING_OK, "a good one");
    CHECK(wring_channel_arrived(channel, 1, id | 5, 100) == WRING_ERR_FRAME, "twice");
    CHECK(wring_channel_peek(channel, 1, &bytes) != NULL && bytes == 100, "it is not there");
    wring_channel_take(channel, 1);
    CHECK(wring_channel_arrived(channel, 1, id | 5, 100) == WRING_ERR_FRAME, "not yet released");
    CHECK(wring_channel_peek(channel, 2, &bytes) == NULL, "another's");
    close_all();
}

/** Credits for what was never sent, and credits taken back. */
static void bad_credits_are_refused(void)
{
    open_all(4, 100, 0, 1);
    struct wring_channel *channel = &sides[0].channel;
    for (uint32_t i = 0; i < 3; i++)
        wring_channel_reserve(channel, 1);
    CHECK(wring_channel_credit(channel, 1, 4) == WRING_ERR_FRAME, "more than sent");
    CHECK(wring_channel_credit(channel, 1, UINT32_MAX) == WRING_ERR_FRAME, "-1");
    CHECK(wring_channel_credit(channel, 1, 1u << 31) == WRING_ERR_FRAME, "2^31");
    CHECK(wring_channel_credit(channel, 1, 2) == WRING_OK, "a good one");
    CHECK(wring_channel_credit(channel, 1, 1) == WRING_ERR_FRAME, "taken back");
    CHECK(wring_channel_credit(channel, 1, 2) == WRING_OK, "the same again");
    CHECK(channel->out[1].limit == 6, "limit %u", channel->out[1].limit);
    close_all();
}

/** A placed channel counts, whatever arrives. */
static void placed_channels_only_count(void)
{
    open_all(0, 0, 0, 1);
    struct wring_channel *channel = &sides[0].channel;
    CHECK(channel->placed, "not placed");
    for (uint32_t i = 0; i < 5; i++)
        CHECK(wring_channel_arrived(channel, 2, 10u << WRING_SEQUENCE_BITS, 1 << 20) == WRING_OK,
              "%u", i);
    CHECK(channel->in[2].arrivals == 5 && channel->in[1].arrivals == 0, "count");
    close_all();
}

static void tagged_channels_have_room_for_both(void)
{
    tagged = true;
    run(WRING_TAGGED_WINDOW_MAX, 100, 0, 600);
    run(2, 33, UINT32_MAX - 20, 200);
    tagged = false;
}

/** A piece of another tag waits until that one's turn has come. */
static void pieces_of_another_tag_do_not_show(void)
{
    const uint32_t id = 10u << WRING_SEQUENCE_BITS, shift = WRING_SEQUENCE_BITS - WRING_TAG_BITS;
    size_t bytes;

    tagged = true;
    open_all(8, 100, 5, 1);
    struct wring_channel *channel = &sides[0].channel;
    CHECK(!wring_channel_is_foreign(channel, 1), "nothing is there");
    CHECK(wring_channel_arrived(channel, 1, id | TAG << shift | 6, 7) == WRING_OK, "the second");
    CHECK(!wring_channel_is_foreign(channel, 1), "it is not its turn");
    CHECK(wring_channel_arrived(channel, 1, id | (TAG ^ 1) << shift | 5, 9) == WRING_OK, "another");
    CHECK(wring_channel_is_foreign(channel, 1), "it has another tag");
    CHECK(wring_channel_peek(channel, 1, &bytes) == NULL, "it shows");
    CHECK(wring_channel_arrived(channel, 1, id | TAG << shift | 5, 9) == WRING_ERR_FRAME, "twice");
    CHECK(wring_channel_arrived(channel, 1, id | TAG << shift | 13, 9) == WRING_ERR_FRAME,
          "beyond the window");
    channel->tag = TAG ^ 1;
    CHECK(!wring_channel_is_foreign(channel, 1), "its turn has come");
    CHECK(wring_channel_peek(channel, 1, &bytes) != NULL && bytes == 9, "it does not show");
    wring_channel_take(channel, 1);
    CHECK(wring_channel_is_foreign(channel, 1), "the second is of the first tag");
    close_all();
    tagged = false;
}

static void members_are_found(void)
{
    const struct wring_members members = {.n = MEMBERS, .ranks = ranks};
    CHECK(wring_members_find(&members, 1) == 0 && wring_members_find(&members, 4) == 2, "wrong");
    CHECK(wring_members_find(&members, 0) == MEMBERS, "a stranger");
    CHECK(wring_members_find(&members, UINT32_MAX) == MEMBERS, "nobody");
}

/** Members are found by a table: a look or two each, however many there are. */
static void members_are_found_at_once(void)
{
    static uint32_t many[1000];
    bool ok;
    for (uint32_t step = 1; step < 9; step++) {
        struct wring_members members = {.n = 1000, .ranks = many};
        for (uint32_t i = 0; i < members.n; i++)
            many[i] = (members.n - i) * step;
        uint32_t *table = wring_members_index(&members, &ok), looks = 0, most = 0;
        REQUIRE(ok && table != NULL, "no table");
        for (uint32_t i = 0; i < members.n; i++) {
            uint32_t at = wring_members_slot(&members, many[i]), here = 1;
            for (; table[at] != i + 1; at = (at + 1) & members.mask)
                here++;
            looks += here;
            most = here > most ? here : most;
            CHECK(wring_members_find(&members, many[i]) == i, "rank %u", many[i]);
        }
        CHECK(looks <= 3 * members.n && most <= 16, "step %u: %u looks, %u at most", step, looks,
              most);
        CHECK(wring_members_find(&members, 0) == members.n &&
                  wring_members_find(&members, 9000) == members.n,
              "ranks that are none");
        free(table);
    }
    struct wring_members world = {.n = 1000, .ranks = many};
    for (uint32_t i = 0; i < world.n; i++)
        many[i] = i;
    CHECK(wring_members_index(&world, &ok) == NULL && ok, "all ranks need a table");
    CHECK(wring_members_find(&world, 999) == 999 && wring_members_find(&world, 1000) == 1000,
          "ranks are their own numbers");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"members_are_found_at_once", members_are_found_at_once},
        {"pieces_come_in_sequence_and_stay_until_released",
         pieces_come_in_sequence_and_stay_until_released},
        {"sequences_wrap", sequences_wrap},
        {"memory_is_whole_lines", memory_is_whole_lines},
        {"credit_runs_out", credit_runs_out},
        {"bad_arrivals_are_refused", bad_arrivals_are_refused},
        {"bad_credits_are_refused", bad_credits_are_refused},
        {"placed_channels_only_count", placed_channels_only_count},
        {"tagged_channels_have_room_for_both", tagged_channels_have_room_for_both},
        {"pieces_of_another_tag_do_not_show", pieces_of_another_tag_do_not_show},
        {"members_are_found", members_are_found},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
