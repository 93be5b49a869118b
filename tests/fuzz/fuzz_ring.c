/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A peer that writes what it likes into the ring of messages that it has with us, while we send,
 * receive and put: what breaks a rule ends the job; until then no byte goes outside of the memory
 * of a receive, and what is kept stays within its bounds.
 *
 * Input: how the peer is reached (1 byte, bits: mapped, puts copy, memory may be registered), then
 * a row of steps of 1 byte and what they need (see run_step()).
 */
#include "tests/fuzz/fuzz.h"
#include "transport/message/inside.h"

#define RECEIVES 16
#define ROOM 10000

struct rig {
    struct wring_config config;
    struct wring_log log;
    struct wring_fabric fabric;
    struct wring_peer peers[2];
    struct wring_conn conn;
    struct wring_engine engine;
    struct wring_messenger *messenger;
    struct wring_message_context *context;
    struct wring_message_peer *peer;
    struct wring_ring_head *theirs; /* the peer's ring, in which we write */
    uint64_t written;               /* lines of ours that it wrote */
    struct wring_message messages[RECEIVES];
    bool begun[RECEIVES];
    uint8_t *memory[RECEIVES];
};

static void no_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static enum wring_status region_create(struct wring_provider *provider,
                                       const struct wring_memory *memory, struct wring_region **out)
{
    *out = malloc(sizeof(**out));
    FUZZ_CHECK(*out != NULL, "out of memory");
    **out =
        (struct wring_region){.provider = provider, .base = memory->base, .bytes = memory->bytes};
    return WRING_OK;
}

static void region_destroy(struct wring_region *region)
{
    free(region);
}

static void memory_gone(struct wring_provider *provider, const void *base, size_t bytes)
{
    (void)provider, (void)base, (void)bytes;
}

static size_t region_export(struct wring_region *region, void *key)
{
    memcpy(key, &region->bytes, sizeof(region->bytes));
    return sizeof(region->bytes);
}

static enum wring_status remote_import(struct wring_conn *conn, const void *key, size_t key_bytes,
                                       struct wring_remote **out)
{
    uint64_t bytes = 1 << 16;
    if (key_bytes != sizeof(bytes) || *(const uint8_t *)key % 8 == 1)
        return *(const uint8_t *)key % 2 == 0 ? WRING_ERR_AGAIN : WRING_ERR_FRAME;
    *out = malloc(sizeof(**out));
    FUZZ_CHECK(*out != NULL, "out of memory");
    **out = (struct wring_remote){conn, bytes};
    return WRING_OK;
}

static void remote_release(struct wring_remote *remote)
{
    free(remote);
}

static enum wring_status take_put(struct wring_conn *conn, struct wring_region *region,
                                  const void *local, struct wring_remote *remote, uint64_t offset,
                                  size_t bytes, uint32_t imm, uint64_t cookie)
{
    uint8_t sum = 0;
    (void)conn, (void)region, (void)imm, (void)cookie;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return WRING_ERR_INVALID;
    for (size_t i = 0; i < bytes; i++) /* a sanitizer sees what is not ours */
        sum = (uint8_t)(sum + ((const uint8_t *)local)[i]);
    return sum == 1 ? WRING_ERR_AGAIN : WRING_OK;
}

static enum wring_status take_send(struct wring_conn *conn, const void *data, size_t bytes)
{
    (void)conn, (void)data;
    FUZZ_CHECK(bytes <= WRING_SEND_MAX, "%zu bytes", bytes);
    return WRING_OK;
}

static const struct wring_provider_ops ops = {.name = "none",
                                              .region_create = region_create,
                                              .region_destroy = region_destroy,
                                              .region_revoke = wring_unsupported_region_revoke,
                                              .memory_gone = memory_gone,
                                              .region_export = region_export,
                                              .remote_import = remote_import,
                                              .remote_release = remote_release,
                                              .put = take_put,
                                              .copy_sources = wring_unsupported_copy_sources,
                                              .send = take_send};

static void open_rig(struct rig *rig, struct wring_provider *provider, uint32_t how)
{
    static const uint32_t ranks[] = {0, 1};

    *rig = (struct rig){.log = {no_line, NULL, WRING_LOG_ERROR}, .conn = {.provider = provider}};
    rig->config.eager_bytes = WRING_MESSAGE_EAGER_MAX;
    rig->config.unexpected_bytes = 256 << 10;
    rig->config.chunk_bytes = 4096;
    memcpy(rig->config.cma, "off", 4);
    rig->fabric = (struct wring_fabric){.config = &rig->config,
                                        .log = &rig->log,
                                        .size = 2,
                                        .n_devices = 1,
                                        .peers = rig->peers,
                                        .state = WRING_FABRIC_WORKING};
    rig->fabric.devices[0] = (struct wring_device){
        .provider = provider,
        .name = "none",
        .caps = {.local_any = true, .remote_map = how & 1, .host_regions = (how & 4) != 0}};
    rig->peers[1] = (struct wring_peer){.rank = 1,
                                        .fabric = &rig->fabric,
                                        .state = WRING_PEER_READY,
                                        .conn = &rig->conn,
                                        .put_copies = (how & 2) != 0,
                                        .window = {.limit = 1 << 20, .most = 1 << 20}};
    rig->engine =
        (struct wring_engine){.fabric = &rig->fabric, .log = &rig->log, .config = &rig->config};
    FUZZ_CHECK(wring_messenger_create(&rig->engine, &rig->messenger) == WRING_OK &&
                   wring_message_context_create(rig->messenger, 1, ranks, 2, 0, &rig->context) ==
                       WRING_OK,
               "no messenger");
    rig->peer = wring_message_peer_find(rig->messenger, 1);
    rig->theirs = aligned_alloc(128, (WRING_RING_BYTES + 127) / 128 * 128);
    FUZZ_CHECK(rig->peer != NULL && rig->theirs != NULL, "out of memory");
    memset(rig->theirs, 0, WRING_RING_BYTES);
    rig->theirs->eager_limit = WRING_PEER_UNEXPECTED;
    rig->theirs->offer_limit = WRING_PEER_OFFERS;
    rig->peer->told = rig->peer->heard = rig->peer->in_mapped = true;
    rig->peer->out = rig->theirs;
    rig->peer->out_lines = (uint8_t *)(rig->theirs + 1);
}

static void close_rig(struct rig *rig)
{
    wring_messenger_end(rig->messenger, WRING_ERR_CLOSED);
    for (int i = 0; i < RECEIVES; i++) {
        FUZZ_CHECK(!rig->begun[i] || rig->messages[i].status != WRING_ERR_AGAIN, "not ended");
        free(rig->memory[i]);
    }
    wring_messenger_destroy(rig->messenger);
    free(rig->theirs);
}

/** The peer writes a record: most of it by the rules. */
static void write_record(struct rig *rig, struct fuzz_input *input)
{
    uint32_t kind = fuzz_take(input, 1), small = fuzz_take(input, 2), id = fuzz_take(input, 1);
    uint32_t context = fuzz_take(input, 1), tag = fuzz_take(input, 1);
    uint8_t head[24] = {(uint8_t)(kind % 10)}, behind[sizeof(struct wring_record_grant)] = {0};
    uint8_t *lines = (uint8_t *)(rig->peer->in + 1);
    uint64_t at = rig->written % WRING_RING_LINES * WRING_RING_LINE, left = WRING_RING_LINES * 64;

    memcpy(head + 2, &small, 2);
    memcpy(head + 4, &id, 4);
    head[8] = context % 8 == 0 ? (uint8_t)(context / 8) : 1;
    head[16] = (uint8_t)tag;
    for (size_t i = 0; i < sizeof(behind); i += 4) { /* numbers are small, mostly */
        uint32_t value = fuzz_take(input, 1);
        value = value == 255 ? UINT32_MAX : value;
        memcpy(behind + i, &value, 4);
    }
    left -= at;
    memcpy(lines + at + 8, head, sizeof(head));
    memcpy(lines + at + 32, behind,
           sizeof(behind) < left - 32 ? sizeof(behind) : (size_t)left - 32);
    atomic_store(&((struct wring_record *)(lines + at))->mark,
                 wring_record_mark(rig->peer->secret, rig->written));
}

static void begin(struct rig *rig, struct fuzz_input *input, bool is_send)
{
    uint32_t n = fuzz_take(input, 1) % RECEIVES, bytes = fuzz_take(input, 2) % ROOM;
    uint32_t member = fuzz_take(input, 1), tag = fuzz_take(input, 1);
    struct wring_message *message = &rig->messages[n];

    if (rig->begun[n] && message->status == WRING_ERR_AGAIN)
        return;
    free(rig->memory[n]);
    rig->memory[n] = malloc(bytes + (bytes == 0)); /* sanitizers see what is past its end */
    FUZZ_CHECK(rig->memory[n] != NULL, "out of memory");
    memset(rig->memory[n], 0, bytes);
    wring_message_init(message, rig->memory[n], bytes, member % 2, tag);
    if (!is_send && member % 4 == 3)
        message->member = WRING_MATCH_ANY_SOURCE;
    if (!is_send && tag % 16 == 15)
        message->tag = WRING_MATCH_ANY_TAG;
    message->is_send = is_send;
    message->context = rig->context;
    rig->begun[n] = true;
    wring_message_begin(rig->messenger, message);
}

static void run_step(struct rig *rig, struct fuzz_input *input)
{
    uint32_t step = fuzz_take(input, 1);
    uint32_t bytes;

    switch (step % 6) {
    case 0:
    case 1:
        write_record(rig, input);
        break;
    case 2:
        begin(rig, input, false);
        break;
    case 3:
        begin(rig, input, true);
        break;
    case 4: /* a put of it, or of a record that it should have written */
        bytes = fuzz_take(input, 2);
        wring_messenger_arrived(rig->messenger, &rig->peers[1],
                                WRING_MESSAGE_CHANNEL << WRING_SEQUENCE_BITS | step / 6, bytes);
        break;
    default: /* it has read all that we wrote, or says so */
        rig->theirs->taken = rig->peer->out_at - (step > 250 ? step : 0);
        rig->theirs->eager_limit += step > 200 ? 1024 : 0;
        rig->theirs->stopped = step % 4 == 0;
    }
    if (rig->fabric.state == WRING_FABRIC_WORKING)
        wring_messenger_poll(rig->messenger);
    rig->written = rig->peer->in_at;
}

/** What the messenger promises after every step. */
static void check(const struct rig *rig)
{
    const struct wring_message_peer *peer = rig->peer;
    FUZZ_CHECK(peer->held <= WRING_PEER_UNEXPECTED + rig->config.unexpected_bytes, "%llu is kept",
               (unsigned long long)peer->held);
    FUZZ_CHECK(peer->offers_come - peer->offers_gone <= WRING_PEER_OFFERS + 1, "offers");
    FUZZ_CHECK(rig->messenger->extra <= rig->messenger->extra_most, "more than there is");
    FUZZ_CHECK(peer->out_at - peer->out_taken <= WRING_RING_LINES, "the peer's ring overflows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wring_provider provider = {&ops};
    struct fuzz_input input = {data, size};
    struct rig *rig = malloc(sizeof(*rig));

    FUZZ_CHECK(rig != NULL, "out of memory");
    open_rig(rig, &provider, fuzz_take(&input, 1));
    while (input.left > 0 && rig->fabric.state == WRING_FABRIC_WORKING) {
        run_step(rig, &input);
        check(rig);
    }
    close_rig(rig);
    free(rig);
    return 0;
}
