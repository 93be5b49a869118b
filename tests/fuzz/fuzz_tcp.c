/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a tcp peer may send: frame headers by themselves, then a stream of frames into a connection
 * with two regions, read whole and again in pieces. Bytes land in regions only, and the events are
 * those of the stream, however it is cut. Then its halves come over the two sockets of a
 * connection: whole, one after the other, and in pieces, by turns.
 *
 * Input: size of the pieces (1 byte), then the stream. Regions 0 and 1 have generation 1.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "transport/providers/tcp/tcp.h"

#define REGIONS 2
#define STREAM_MAX 32768 /* fits into the socket at once */

static const size_t region_bytes[REGIONS] = {64, 20000};

struct rig {
    struct tcp_provider *provider;
    struct tcp_conn *conn;
    struct tcp_conn *next; /* NULL, or its second socket */
    unsigned arrived;
    void *memory[REGIONS];
    int peer;
    uint32_t digest; /* of all events */
};

static const struct wring_crc32c *checksum(void)
{
    static struct wring_crc32c crc; /* made once: tests have one thread here */
    if (crc.run == NULL)
        wring_crc32c_init(&crc, WRING_CPU_SCALAR);
    return &crc;
}

/** @param header in, [TCP_HEADER_MAX] */
static void check_header(const uint8_t *header)
{
    struct tcp_frame frame;
    uint8_t packed[TCP_HEADER_MAX];

    if (wring_tcp_frame_unpack(header, checksum(), false, &frame) != NULL)
        return;
    size_t bytes = wring_tcp_frame_pack(&frame, checksum(), packed);
    FUZZ_CHECK(bytes == wring_tcp_frame_header_bytes(header, TCP_HEADER_MAX), "%zu bytes", bytes);
    FUZZ_CHECK(memcmp(packed, header, bytes) == 0, "a header that has two forms");
}

static void open_rig(struct rig *rig)
{
    int ends[2];

    *rig = (struct rig){.provider = calloc(1, sizeof(*rig->provider)),
                        .conn = calloc(1, sizeof(*rig->conn))};
    FUZZ_CHECK(rig->provider != NULL && rig->conn != NULL &&
                   socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0,
               "no rig");
    rig->provider->crc = *checksum();
    rig->peer = ends[0];
    rig->conn->fd = ends[1];
    rig->conn->base.provider = &rig->provider->base;
    rig->conn->state = TCP_OPEN;
    rig->provider->conns = rig->conn;
    for (int i = 0; i < REGIONS; i++) {
        struct wring_region *region;
        struct wring_memory memory = {.bytes = region_bytes[i]};
        memory.base = rig->memory[i] = calloc(1, region_bytes[i]);
        FUZZ_CHECK(wring_tcp_region_create(&rig->provider->base, &memory, &region) == WRING_OK,
                   "no region");
        ((struct tcp_region *)region)->generation = 1; /* it began anywhere */
        rig->provider->slots[i].generation = 1;
    }
}

static void close_rig(struct rig *rig)
{
    wring_tcp_regions_drop(rig->provider);
    for (int i = 0; i < REGIONS; i++)
        free(rig->memory[i]);
    if (rig->conn->state == TCP_OPEN)
        close(rig->conn->fd);
    close(rig->peer);
    free(rig->conn);
    free(rig->provider);
}

static void digest(struct rig *rig, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        rig->digest = (rig->digest ^ ((const uint8_t *)data)[i]) * 16777619u;
}

static void take_events(struct rig *rig, const struct tcp_events *events)
{
    for (size_t i = 0; i < events->n; i++) {
        const struct wring_event *event = &events->events[i];
        uint32_t facts[] = {event->kind, event->imm, (uint32_t)event->bytes};
        FUZZ_CHECK(event->kind == WRING_EVENT_ARRIVED || event->kind == WRING_EVENT_MESSAGE,
                   "an event of kind %d", event->kind);
        digest(rig, facts, sizeof(facts));
        rig->arrived += event->kind == WRING_EVENT_ARRIVED;
        if (event->kind == WRING_EVENT_MESSAGE) {
            FUZZ_CHECK(event->bytes >= 1 && event->bytes <= WRING_SEND_MAX, "%zu bytes",
                       (size_t)event->bytes);
            digest(rig, event->data, event->bytes);
        }
    }
}

/** Receive until all that is there has been read, three events at a time. */
static void receive(struct rig *rig)
{
    struct wring_event events[3];
    struct tcp_events list;

    rig->conn->readable = true;
    do {
        list = (struct tcp_events){.events = events, .max = 3};
        wring_tcp_receive(rig->conn, &list);
        take_events(rig, &list);
    } while (rig->conn->state == TCP_OPEN &&
             (rig->conn->readable || rig->conn->receiver.blocked || list.n > 0));
}

static void feed(struct rig *rig, const uint8_t *stream, size_t bytes, size_t piece)
{
    open_rig(rig);
    for (size_t at = 0; at < bytes && rig->conn->state == TCP_OPEN; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        ssize_t sent = send(rig->peer, stream + at, n, MSG_NOSIGNAL);
        FUZZ_CHECK(sent == (ssize_t)n, "%zd of %zu bytes go in", sent, n);
        receive(rig);
    }
    shutdown(rig->peer, SHUT_WR);
    receive(rig);
    FUZZ_CHECK(rig->conn->state == TCP_FAILED && rig->conn->text[0] != '\0' &&
                   (rig->conn->status == WRING_ERR_FRAME || rig->conn->status == WRING_ERR_PEER),
               "state %d, status %d at the end", rig->conn->state, rig->conn->status);
}

static void check_stream(const uint8_t *stream, size_t bytes, size_t piece)
{
    struct rig whole, cut;

    feed(&whole, stream, bytes, bytes + 1);
    feed(&cut, stream, bytes, piece);
    FUZZ_CHECK(whole.digest == cut.digest && whole.conn->status == cut.conn->status,
               "pieces of %zu bytes make other events", piece);
    for (int i = 0; i < REGIONS; i++)
        FUZZ_CHECK(memcmp(whole.memory[i], cut.memory[i], region_bytes[i]) == 0,
                   "pieces of %zu bytes leave other data in region %d", piece, i);
    close_rig(&whole);
    close_rig(&cut);
}

/* ---- two sockets ---- */

#define SOCKETS 2

static void open_sockets(struct rig *rig, int peers[SOCKETS])
{
    struct tcp_bundle *bundle = calloc(1, sizeof(*bundle));
    int ends[2];

    open_rig(rig);
    rig->next = calloc(1, sizeof(*rig->next));
    FUZZ_CHECK(bundle != NULL && rig->next != NULL &&
                   socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0,
               "no second socket");
    rig->next->fd = ends[1];
    rig->next->base.provider = &rig->provider->base;
    rig->next->state = TCP_OPEN;
    rig->conn->bundle = rig->next->bundle = bundle;
    bundle->n = bundle->standing = SOCKETS;
    bundle->sockets[0] = rig->conn;
    bundle->sockets[1] = rig->next;
    peers[0] = rig->peer;
    peers[1] = ends[0];
}

static bool may_read(const struct tcp_conn *conn)
{
    return conn->state == TCP_OPEN && !conn->receiver.waits &&
           (conn->readable || conn->receiver.blocked);
}

/** As the provider's poll does: until neither socket has anything that it may read. */
static void receive_both(struct rig *rig)
{
    struct tcp_bundle *bundle = rig->conn->bundle;
    struct wring_event events[3];
    struct tcp_events list;

    rig->conn->readable = rig->conn->fd >= 0;
    rig->next->readable = rig->next->fd >= 0;
    do {
        for (int i = 0; i < SOCKETS; i++) {
            list = (struct tcp_events){.events = events, .max = 3};
            if (may_read(bundle->sockets[i]))
                wring_tcp_receive(bundle->sockets[i], &list);
            if (rig->conn->state == TCP_OPEN)
                wring_tcp_release_parts(bundle, &list);
            take_events(rig, &list);
        }
    } while (may_read(rig->conn) || may_read(rig->next) ||
             (rig->conn->state == TCP_OPEN && wring_tcp_bundle_owes(bundle)));
    if (rig->conn->state == TCP_OPEN)
        wring_tcp_finish_sockets(bundle);
}

static void feed_sockets(struct rig *rig, const uint8_t *stream, size_t bytes, size_t piece)
{
    size_t half = bytes / SOCKETS / TCP_FRAME_UNIT * TCP_FRAME_UNIT;
    const size_t ends[SOCKETS] = {half, bytes};
    size_t at[SOCKETS] = {0, half};
    int peers[SOCKETS];

    open_sockets(rig, peers);
    for (bool more = true; more && rig->conn->state == TCP_OPEN;) {
        more = false;
        for (int i = 0; i < SOCKETS; i++) {
            size_t n = ends[i] - at[i] < piece ? ends[i] - at[i] : piece;
            if (n == 0 || rig->conn->state != TCP_OPEN)
                continue;
            FUZZ_CHECK(send(peers[i], stream + at[i], n, MSG_NOSIGNAL) == (ssize_t)n,
                       "%zu bytes do not go in", n);
            at[i] += n;
            more = true;
            receive_both(rig);
        }
    }
    shutdown(peers[0], SHUT_WR);
    shutdown(peers[1], SHUT_WR);
    receive_both(rig);
    wring_tcp_expire(rig->provider, UINT64_MAX); /* one waits for a part that does not come */
    FUZZ_CHECK(rig->conn->state == TCP_FAILED && rig->next->state == TCP_CLOSED &&
                   (rig->conn->status == WRING_ERR_FRAME || rig->conn->status == WRING_ERR_PEER),
               "states %d and %d, status %d at the end", rig->conn->state, rig->next->state,
               rig->conn->status);
    close(peers[1]);
}

static void check_sockets(const uint8_t *stream, size_t bytes, size_t piece)
{
    struct rig whole, cut;

    feed_sockets(&whole, stream, bytes, bytes + 1);
    feed_sockets(&cut, stream, bytes, piece);
    bool sound = whole.conn->status == WRING_ERR_PEER && cut.conn->status == WRING_ERR_PEER;
    FUZZ_CHECK(!sound || whole.arrived == cut.arrived, "%u puts arrive, or %u", whole.arrived,
               cut.arrived);
    for (struct rig *rig = &whole; rig != NULL; rig = rig == &whole ? &cut : NULL) {
        free(rig->conn->bundle);
        free(rig->next);
        close_rig(rig);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t piece = 1 + fuzz_take(&input, 1) * 7;
    size_t bytes = input.left < STREAM_MAX ? input.left : STREAM_MAX;
    struct sockaddr_storage address;
    socklen_t address_bytes;
    char text[64];

    for (size_t at = 0; at + TCP_HEADER_MAX <= bytes && at < 4 * TCP_FRAME_BYTES;
         at += TCP_FRAME_BYTES)
        check_header(input.data + at);
    if (wring_tcp_address_unpack(input.data, bytes < 32 ? bytes : 32, &address, &address_bytes) ==
        WRING_OK)
        wring_tcp_address_text(&address, text, sizeof(text));
    piece = bytes / piece > 200 ? bytes / 200 + 1 : piece;
    check_stream(input.data, bytes, piece);
    check_sockets(input.data, bytes, piece);
    return 0;
}
