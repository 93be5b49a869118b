/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/distance.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/session/session.h"
#include "transport/channel.h"
#include "transport/fabric.h"

#define WRING_MODULE "session"

#define FAR_NS (1 * WRING_NS_PER_MS)
#define UNKNOWN_BYTES_PER_S 1250000000 /* 10 Gbit/s */
#define PIECE_MOST ((size_t)1 << 20)   /* which every provider puts at once */

/* ---- pieces of immediate calls ---- */

size_t wring_distance_piece_bytes(size_t chunk_bytes, uint64_t round_trip_ns, uint64_t bytes_per_s)
{
    double rate = (double)(bytes_per_s > 0 ? bytes_per_s : UNKNOWN_BYTES_PER_S);
    double wanted = 2 * rate * (double)round_trip_ns / WRING_NS_PER_S / WRING_TAGGED_WINDOW_MAX;
    size_t bytes = chunk_bytes;

    while ((double)bytes < wanted && 2 * bytes <= PIECE_MOST)
        bytes *= 2;
    return bytes;
}

/* ---- what each rank knows of its way up ---- */

struct way {
    uint64_t round_trip_ns, bytes_per_s;
    bool given; /* the size of pieces was */
};

static enum wring_status exchange_ways(struct wring_session *session, struct wring_blobs *out)
{
    const struct wring_path path = wring_fabric_way_up(session->fabric);
    struct wring_writer writer = {0};

    wring_write_u64(&writer, path.round_trip_ns);
    wring_write_u64(&writer, path.bytes_per_s);
    wring_write_u32(&writer, wring_config_given(&session->config, "WRING_CHUNK_BYTES"));
    return wring_session_exchange_writer(session, &writer, out);
}

static bool read_way(const struct wring_blobs *blobs, uint32_t rank, struct way *out)
{
    struct wring_reader in = wring_blobs_reader(blobs, rank);

    out->round_trip_ns = wring_read_u64(&in);
    out->bytes_per_s = wring_read_u64(&in);
    out->given = wring_read_u32(&in) != 0;
    return !in.failed && in.bytes == 0;
}

/** The longest way, and the least rate of those that are long. */
static void add_way(struct way *all, const struct way *one)
{
    all->given |= one->given;
    if (one->round_trip_ns <= FAR_NS)
        return;
    if (one->round_trip_ns > all->round_trip_ns)
        all->round_trip_ns = one->round_trip_ns;
    if (one->bytes_per_s > 0 && (all->bytes_per_s == 0 || one->bytes_per_s < all->bytes_per_s))
        all->bytes_per_s = one->bytes_per_s;
}

static enum wring_status measure_ways(struct wring_session *session, struct way *all)
{
    struct wring_blobs blobs;
    enum wring_status status = exchange_ways(session, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t rank = 0; rank < session->size && status == WRING_OK; rank++) {
        struct way one;
        if (read_way(&blobs, rank, &one))
            add_way(all, &one);
        else
            status = WRING_ERR_FRAME;
    }
    wring_blobs_finish(&blobs);
    return status;
}

static void choose_pieces(struct wring_session *session, const struct way *way)
{
    struct wring_distance *distance = &session->distance;

    distance->round_trip_ns = way->round_trip_ns;
    distance->bytes_per_s = way->bytes_per_s;
    if (!way->given)
        distance->piece_bytes =
            wring_distance_piece_bytes(distance->piece_bytes, way->round_trip_ns, way->bytes_per_s);
    if (session->rank == 0)
        wring_info(&session->log,
                   "ranks are up to %.1f ms away and back, so pieces of immediate calls have up to "
                   "%zu bytes%s",
                   (double)way->round_trip_ns / 1e6, distance->piece_bytes,
                   way->given ? ", as WRING_CHUNK_BYTES says" : "");
}

enum wring_status wring_session_measure(struct wring_session *session)
{
    struct way all = {0};

    session->distance = (struct wring_distance){.piece_bytes = (size_t)session->config.chunk_bytes};
    if (session->fabric->roster.nodes == NULL) /* all are on one host */
        return WRING_OK;
    enum wring_status status = measure_ways(session, &all);
    if (status == WRING_OK && all.round_trip_ns > 0)
        choose_pieces(session, &all);
    return status;
}
