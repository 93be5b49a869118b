/* SPDX-License-Identifier: Apache-2.0 */
/** The ports that a session may listen on: WRING_PORTS. */
#ifndef WRING_TRANSPORT_PORTS_H
#define WRING_TRANSPORT_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <wring/status.h>

struct wring_log;

struct wring_ports {
    uint16_t first, last; /* 0, 0: any that is free */
};

/** "first-last", one port, or nothing. Errors, logged: WRING_ERR_INVALID. */
enum wring_status wring_ports_read(const struct wring_log *log, const char *text,
                                   struct wring_ports *out);

/**
 * Make the addresses of a rendezvous whole: spaces around commas go, and a "host" or "[v6]" without
 * a port gets the first of the range, if there is one. All ranks that are told the same range meet
 * there.
 * @param root in and out, [bytes]; one for whose port there is no room is left as it is
 */
void wring_ports_complete(const struct wring_ports *ports, char *root, size_t bytes);

/**
 * Listen, without blocking, on the first port of the range that is free.
 *
 * @param address in, where; its port is set to what was tried last
 * @param why out, [bytes], for a message, where it fails
 * @return the socket, or -1
 */
int wring_ports_listen(const struct wring_ports *ports, struct sockaddr_storage *address,
                       socklen_t address_bytes, int backlog, char *why, size_t bytes);

#endif
