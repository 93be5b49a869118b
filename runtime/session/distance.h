/* SPDX-License-Identifier: Apache-2.0 */
/** How far the ranks of a job are from each other: measured as the session opens, agreed by all. */
#ifndef WRING_RUNTIME_SESSION_DISTANCE_H
#define WRING_RUNTIME_SESSION_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

#include <wring/status.h>

struct wring_session;

struct wring_distance {
    uint64_t round_trip_ns; /* the longest between neighbours in the tree; 0: all are near */
    uint64_t bytes_per_s;   /* of the slowest interface there; 0: none says */
    size_t piece_bytes;     /* of immediate calls whose members may be far from each other */
    uint32_t sites;         /* as WRING_SITE says, or as was measured; 0: nobody says */
};

/**
 * Bytes of a piece, so that as many as an immediate call may have under way fill the way twice;
 * within what every provider puts at once. @param chunk_bytes  of a piece on a short way
 * @param bytes_per_s  of the way; 0: not known
 */
size_t wring_distance_piece_bytes(size_t chunk_bytes, uint64_t round_trip_ns, uint64_t bytes_per_s);

/**
 * Collective, as the session opens: fill in session->distance, and the roster's sites if ranks are
 * far from each other and name none. Ranks on one host exchange nothing. Errors: those of
 * wring_session_exchange(), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_session_measure(struct wring_session *session);

#endif
