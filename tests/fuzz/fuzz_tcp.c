/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a tcp peer may send: frame headers by themselves, then a stream of frames into a connection
 * with two regions, read whole and again in pieces. Bytes land in regions only, and the events are
 * those of the stream, however it is cut.
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
    check_stream(input.data, bytes, bytes / piece > 200 ? bytes / 200 + 1 : piece);
    return 0;
}
