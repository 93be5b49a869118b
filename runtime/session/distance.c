/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/distance.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/session/session.h"
#include "transport/channel.h"
#include "transport/fabric.h"
#include "transport/sites.h"

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

/* ---- sites ---- */

#define ANSWER_NS (2 * WRING_NS_PER_S) /* for a host that is asked */

/** Hosts that are asked one after the other. */
struct search {
    struct wring_sites sites;
    uint32_t *host_of;               /* [ranks] */
    uint32_t *leaders, *first, *has; /* [hosts] the first rank there, its site's, and ranks there */
    uint64_t *round_trips, *sorted;  /* [hosts] */
};

static void search_finish(struct search *search)
{
    free(search->host_of);
    free(search->leaders);
    free(search->first);
    free(search->has);
    free(search->round_trips);
    free(search->sorted);
}

static void list_hosts(struct search *search, const struct wring_session *session)
{
    const uint32_t *nodes = session->fabric->roster.nodes;

    for (uint32_t rank = 0, next = 0; rank < session->size; rank++) {
        if (nodes[rank] == rank)
            search->leaders[next++] = rank;
        search->host_of[rank] = nodes[rank] == rank ? next - 1 : search->host_of[nodes[rank]];
        search->has[search->host_of[rank]]++;
    }
}

/** Zeroed memory; to be finished in any case. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status search_init(struct search *search, const struct wring_session *session)
{
    uint32_t hosts = 0;

    for (uint32_t rank = 0; rank < session->size; rank++)
        hosts += wring_roster_node(&session->fabric->roster, rank) == rank;
    search->host_of = calloc(session->size, sizeof(uint32_t));
    search->leaders = calloc(hosts, sizeof(uint32_t));
    search->first = calloc(hosts, sizeof(uint32_t));
    search->has = calloc(hosts, sizeof(uint32_t));
    search->round_trips = calloc(hosts, sizeof(uint64_t));
    search->sorted = calloc(hosts, sizeof(uint64_t));
    if (search->host_of == NULL || search->leaders == NULL || search->first == NULL ||
        search->has == NULL || search->round_trips == NULL || search->sorted == NULL)
        return WRING_ERR_NO_MEMORY;
    list_hosts(search, session);
    wring_sites_init(&search->sites, hosts, search->first);
    return WRING_OK;
}

/** How far all hosts are from the next one: the first rank of each measures. */
static enum wring_status ask_next_host(struct wring_session *session, struct search *search)
{
    uint32_t asked = search->leaders[wring_sites_next(&search->sites)];
    uint64_t way_ns = 0;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    if (search->leaders[search->host_of[session->rank]] == session->rank && session->rank != asked)
        way_ns = wring_fabric_measure_way(session->fabric, asked, wring_deadline_in(ANSWER_NS));
    wring_write_u64(&writer, way_ns);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < search->sites.hosts && status == WRING_OK; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, search->leaders[i]);
        search->round_trips[i] = wring_read_u64(&in);
        status = in.failed || in.bytes > 0 ? WRING_ERR_FRAME : WRING_OK;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/** Have all sites as many ranks, as hierarchical sums need them? */
static bool are_equal(const struct search *search)
{
    uint32_t hosts = search->sites.hosts, each = 0;

    for (uint32_t site = 0; site < hosts; site++) {
        uint32_t ranks = 0;
        for (uint32_t i = 0; i < hosts; i++)
            ranks += search->first[i] == site ? search->has[i] : 0;
        if (ranks > 0 && each > 0 && ranks != each)
            return false;
        each = ranks > 0 ? ranks : each;
    }
    return true;
}

static enum wring_status take_sites(struct wring_session *session, const struct search *search)
{
    uint32_t *sites = calloc(session->size, sizeof(*sites));
    if (sites == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t rank = 0; rank < session->size; rank++)
        sites[rank] = search->leaders[search->first[search->host_of[rank]]];
    session->fabric->roster.sites = sites;
    return WRING_OK;
}

static uint32_t site_of(const struct search *search, uint32_t rank)
{
    uint32_t first = search->first[search->host_of[rank]], site = 0;
    while (search->sites.asked[site] != first)
        site++;
    return site;
}

/** "0, 4, 2": the first ranks of sites as a ring passes them. */
static void list_around(const struct search *search, const uint32_t *places, char *text,
                        size_t bytes)
{
    size_t at = 0;

    for (uint32_t place = 0; place < search->sites.n && at < bytes; place++) {
        uint32_t site = 0;
        while (places[site] != place)
            site++;
        at += (size_t)snprintf(text + at, bytes - at, "%s%" PRIu32, place > 0 ? ", " : "",
                               search->leaders[search->sites.asked[site]]);
    }
}

/** Rings go by sites of unequal numbers of ranks, too. Rank 0 says so where they do not stand in
 *  the ranks' order. */
static enum wring_status take_places(struct wring_session *session, const struct search *search)
{
    uint32_t places[WRING_SITES_MAX], *of_ranks = calloc(session->size, sizeof(*of_ranks));
    bool turned = false;
    char text[WRING_TEXT_MAX];

    if (of_ranks == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_sites_around(&search->sites, places);
    for (uint32_t rank = 0; rank < session->size; rank++)
        of_ranks[rank] = places[site_of(search, rank)];
    for (uint32_t site = 0; site < search->sites.n; site++)
        turned |= places[site] != site;
    session->fabric->roster.places = of_ranks;
    if (session->rank == 0 && turned) {
        list_around(search, places, text, sizeof(text));
        wring_info(&session->log,
                   "a ring passes the sites of ranks %s in this order, as was measured: "
                   "WRING_SITE names them",
                   text);
    }
    return WRING_OK;
}

/** What was found counts where it tells hosts apart, and hierarchical sums can go by it. Rank 0
 *  says what became of it. */
static enum wring_status judge_sites(struct wring_session *session, const struct search *search,
                                     bool found)
{
    const struct wring_log *log = &session->log;
    bool several = search->sites.n > 1 && search->sites.n < search->sites.hosts;
    bool taken = found && several && are_equal(search), says = session->rank == 0;

    if (says && taken)
        wring_info(log, "ranks are at %" PRIu32 " sites, as was measured: WRING_SITE names them",
                   search->sites.n);
    else if (says && !found)
        wring_info(log,
                   "no sites were found: the ways to hosts show no clear gap, or more than %d "
                   "sites: WRING_SITE names them",
                   WRING_SITES_MAX);
    else if (says && several)
        wring_info(log,
                   "%" PRIu32 " sites were found, of unequal numbers of ranks: hierarchical sums "
                   "go by hosts",
                   search->sites.n);
    return taken ? take_sites(session, search) : WRING_OK;
}

/** Collective. Hosts are far from each other, and no rank names its site. */
static enum wring_status find_sites(struct wring_session *session)
{
    struct search search = {0};
    enum wring_status status = search_init(&search, session);
    bool found = true, goes_on = search.sites.hosts > 2; /* else hosts are sites */

    while (status == WRING_OK && goes_on) {
        status = ask_next_host(session, &search);
        found = status == WRING_OK &&
                wring_sites_place(&search.sites, search.round_trips, search.sorted);
        goes_on = found && wring_sites_next(&search.sites) < search.sites.hosts;
    }
    if (status == WRING_OK && found && search.sites.n > 1)
        status = take_places(session, &search);
    if (status == WRING_OK)
        status = judge_sites(session, &search, found);
    search_finish(&search);
    return status;
}

static uint32_t count_sites(const struct wring_session *session)
{
    const uint32_t *sites = session->fabric->roster.sites;
    uint32_t n = 0;

    for (uint32_t rank = 0; sites != NULL && rank < session->size; rank++)
        n += sites[rank] == rank;
    return n;
}

/** Ranks are on several hosts. */
static enum wring_status measure(struct wring_session *session)
{
    struct way all = {0};
    enum wring_status status = measure_ways(session, &all);

    if (status != WRING_OK || all.round_trip_ns == 0)
        return status;
    choose_pieces(session, &all);
    return session->fabric->roster.sites == NULL ? find_sites(session) : WRING_OK;
}

enum wring_status wring_session_measure(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    session->distance = (struct wring_distance){.piece_bytes = (size_t)session->config.chunk_bytes};
    if (session->fabric->roster.nodes != NULL)
        status = measure(session);
    session->distance.sites = count_sites(session);
    return status;
}
