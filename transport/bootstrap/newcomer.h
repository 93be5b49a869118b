/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a newcomer comes into a job that runs: it knocks at the door of a rank, proves the job's key,
 * and waits to be told which rank it is and where all of the new session meet. WIRE.md "Newcomers"
 * has the bytes.
 */
#ifndef WRING_TRANSPORT_BOOTSTRAP_NEWCOMER_H
#define WRING_TRANSPORT_BOOTSTRAP_NEWCOMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "transport/interface.h"

/** What a newcomer is told. */
struct wring_newcomer_place {
    uint32_t rank, size;
    uint64_t nonce, seed; /* of the meeting, of the job's random numbers */
    char address[WRING_INTERFACE_ADDRESS];
    uint16_t port;
};

/**
 * Listen for newcomers. @param text  "address" or "address:port", "[v6]:port"
 * @param has_key  whether the job has one; without, only this host may come in
 * Errors, logged: WRING_ERR_ADDRESS, WRING_ERR_AUTH.
 */
enum wring_status wring_newcomer_listen(const struct wring_log *log, const char *text, bool has_key,
                                        int *fd);

/** Let one in that knocks now. @return its connection, the caller's; -1: nobody does */
int wring_newcomer_admit(const struct wring_log *log, int listening, const char *key);

/** @return false: it has gone away */
bool wring_newcomer_tell(int fd, const struct wring_newcomer_place *place);

/**
 * Knock at doors, "host:port,…", one after the other until one lets us in, and wait there.
 * Errors, logged: WRING_ERR_PEER (none did in time), WRING_ERR_AUTH, WRING_ERR_INVALID.
 */
enum wring_status wring_newcomer_knock(const struct wring_log *log, const char *doors,
                                       const char *key, uint64_t deadline_ns,
                                       struct wring_newcomer_place *out);

#endif
