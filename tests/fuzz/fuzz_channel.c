/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A channel of three whose other members announce pieces and return credits as they like: what is
 * refused ends the job; until then every piece that shows lies whole in its slot, none shows twice,
 * and nobody is sent more than it has room for.
 *
 * Input: log2 of the window (1 byte; from 128 on the channel is tagged), bytes of a slot (2), where
 * sequences begin (4), then a row of steps of 1 byte and what they need (see run_step()).
 */
#include "tests/fuzz/fuzz.h"
#include "transport/channel.h"

#define MEMBERS 3
#define WINDOW_MAX 8
#define SEQUENCES (1u << WRING_SEQUENCE_BITS)
#define TAG (1u << (WRING_SEQUENCE_BITS - WRING_TAG_BITS)) /* of call 1 */

static const uint32_t ranks[MEMBERS] = {0, 1, 2};

struct rig {
    struct wring_config config;
    struct wring_fabric fabric;
    struct wring_peer peers[MEMBERS];
    struct wring_conn conn;
    struct wring_remote remote;
    struct wring_channel channel;
    bool full[MEMBERS][WINDOW_MAX];  /* slots: announced, not released */
    bool shown[MEMBERS][WINDOW_MAX]; /* of these, taken */
    uint32_t limit[MEMBERS];         /* of what we may send, so far */
    bool failed;                     /* something was refused */
};

static enum wring_status take_put(struct wring_conn *conn, struct wring_region *region,
                                  const void *local, struct wring_remote *remote, uint64_t offset,
                                  size_t bytes, uint32_t imm, uint64_t cookie)
{
    (void)conn, (void)region, (void)local, (void)imm, (void)cookie;
    FUZZ_CHECK(offset <= remote->bytes && bytes <= remote->bytes - offset,
               "%zu bytes at %llu of a peer's slots", bytes, (unsigned long long)offset);
    return WRING_OK;
}

static enum wring_status take_send(struct wring_conn *conn, const void *data, size_t bytes)
{
    static uint32_t n;
    (void)conn, (void)data;
    FUZZ_CHECK(bytes <= WRING_SEND_MAX, "%zu bytes", bytes);
    return n++ % 4 == 0 ? WRING_ERR_AGAIN : WRING_OK; /* there is no room at times */
}

static const struct wring_provider_ops ops = {.name = "none", .put = take_put, .send = take_send};

static void open_rig(struct rig *rig, struct wring_provider *provider, struct fuzz_input *input)
{
    uint32_t first = fuzz_take(input, 1), window = 1u << first % 4;
    size_t slot_bytes = fuzz_take(input, 2) % 5000;
    uint32_t start = fuzz_take(input, 4);
    size_t bytes = wring_channel_memory(MEMBERS, window, slot_bytes);
    uint8_t *memory = calloc(1, bytes + (bytes == 0));

    *rig = (struct rig){.conn = {.provider = provider}};
    rig->config.chunk_bytes = 1 << 20;
    rig->fabric.config = &rig->config;
    rig->fabric.peers = rig->peers;
    rig->remote = (struct wring_remote){&rig->conn, bytes};
    FUZZ_CHECK(memory != NULL &&
                   wring_channel_init(&rig->channel, &rig->fabric,
                                      (struct wring_members){.n = MEMBERS, .ranks = ranks}, window,
                                      slot_bytes, memory) == WRING_OK,
               "no channel");
    rig->channel.tagged = first >= 128;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct wring_channel_in *in = &rig->channel.in[i];
        struct wring_channel_out *out = wring_channel_out(&rig->channel, i);
        rig->peers[i].fabric = &rig->fabric;
        rig->peers[i].state = WRING_PEER_READY;
        rig->peers[i].conn = &rig->conn;
        rig->peers[i].window.limit = 2 << 20;
        out->remote = &rig->remote;
        out->reserved = in->taken = in->consumed = in->credited = start; /* after a long run */
        out->limit = rig->limit[i] = start + window;
    }
}

static void close_rig(struct rig *rig)
{
    free(rig->channel.memory);
    wring_channel_finish(&rig->channel);
}

static enum wring_status announce(struct rig *rig, uint32_t member, uint32_t imm, size_t bytes)
{
    bool *full = &rig->full[member][imm % rig->channel.window];
    enum wring_status status = wring_channel_arrived(&rig->channel, member, imm, bytes);
    FUZZ_CHECK(status != WRING_OK || !*full, "a slot of member %u is filled twice", member);
    *full |= status == WRING_OK;
    return status;
}

/** The next piece of a member, if there is one. */
static void take(struct rig *rig, uint32_t member)
{
    struct wring_channel *channel = &rig->channel;
    size_t bytes, all = wring_channel_memory(MEMBERS, channel->window, channel->slot_bytes);
    const uint8_t *at = wring_channel_peek(channel, member, &bytes);
    uint32_t sum = 0;

    if (at == NULL)
        return;
    FUZZ_CHECK(!wring_channel_is_foreign(channel, member), "a piece of another call shows");
    FUZZ_CHECK(at >= channel->memory && bytes <= channel->slot_bytes &&
                   bytes <= all - (size_t)(at - channel->memory),
               "a piece of %zu bytes", bytes);
    for (size_t i = 0; i < bytes; i++)
        sum += at[i];
    uint32_t slot = wring_channel_take(channel, member) % channel->window;
    FUZZ_CHECK(!rig->shown[member][slot], "slot %u of member %u shows twice (%u)", slot, member,
               sum);
    rig->shown[member][slot] = true;
}

static void release(struct rig *rig, uint32_t member, uint32_t number)
{
    const struct wring_channel_in *in = &rig->channel.in[member];
    uint32_t out = in->taken - in->consumed; /* of these, some are released */
    uint32_t sequence = in->consumed + (out > 0 ? number % out : 0);
    bool *shown = &rig->shown[member][sequence % rig->channel.window];

    if (!*shown)
        return;
    *shown = rig->full[member][sequence % rig->channel.window] = false;
    wring_channel_release(&rig->channel, member, sequence);
}

static void send_piece(struct rig *rig, uint32_t member)
{
    static uint8_t piece[5000];
    struct wring_channel *channel = &rig->channel;
    if (!wring_channel_has_credit(channel, member))
        return;
    uint32_t sequence = wring_channel_reserve(channel, member);
    size_t bytes = channel->slot_bytes;
    FUZZ_CHECK(wring_channel_put(channel, member, sequence, NULL, piece, bytes, 0) == WRING_OK,
               "no put");
    wring_put_window_done(&rig->peers[member].window, bytes);
}

static void run_step(struct rig *rig, struct fuzz_input *input)
{
    struct wring_channel *channel = &rig->channel;
    uint32_t step = fuzz_take(input, 1), member = 1 + step / 8 % 2, number;
    enum wring_status status = WRING_OK;

    switch (step % 8) {
    case 0: /* a plausible piece: within the window, or a little off */
        number = (channel->in[member].consumed + fuzz_take(input, 1)) % SEQUENCES;
        if (channel->tagged) /* of this call, or of the next */
            number = number % TAG | (step & 16 ? TAG : 0);
        status = announce(rig, member, number, fuzz_take(input, 2));
        break;
    case 1:
        number = fuzz_take(input, 4);
        status = announce(rig, member, number, fuzz_take(input, 4));
        break;
    case 2: /* plausible credits */
        status = wring_channel_credit(channel, member,
                                      channel->out[member].reserved - fuzz_take(input, 1));
        break;
    case 3:
        status = wring_channel_credit(channel, member, fuzz_take(input, 4));
        break;
    case 4:
        take(rig, member);
        break;
    case 5:
        release(rig, member, fuzz_take(input, 1));
        break;
    case 6:
        send_piece(rig, member);
        break;
    default:
        wring_channel_return_credits(channel);
        channel->tag ^= channel->tagged; /* the next call */
    }
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_FRAME, "status %d", status);
    rig->failed = status != WRING_OK;
}

/** What the channel promises after every step. */
static void check_counts(struct rig *rig)
{
    const struct wring_channel *channel = &rig->channel;
    for (uint32_t i = 1; i < MEMBERS; i++) {
        const struct wring_channel_in *in = &channel->in[i];
        const struct wring_channel_out *out = &channel->out[i];
        FUZZ_CHECK(in->taken - in->consumed <= channel->window, "too much taken");
        FUZZ_CHECK(out->limit - out->reserved <= channel->window,
                   "more credit than there are slots");
        FUZZ_CHECK(out->limit - rig->limit[i] <= channel->window, "credit is taken back");
        rig->limit[i] = out->limit;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wring_provider provider = {&ops};
    struct fuzz_input input = {data, size};
    struct rig rig;

    open_rig(&rig, &provider, &input);
    while (input.left > 0 && !rig.failed) {
        run_step(&rig, &input);
        check_counts(&rig);
    }
    close_rig(&rig);
    return 0;
}
