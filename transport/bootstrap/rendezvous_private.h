/* SPDX-License-Identifier: Apache-2.0 */
/** What the parts of the rendezvous share. */
#ifndef WRING_TRANSPORT_RENDEZVOUS_PRIVATE_H
#define WRING_TRANSPORT_RENDEZVOUS_PRIVATE_H

#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/stream.h"

#include <netinet/in.h>

#define WRING_RENDEZVOUS_HELLO_BYTES 8 /* rank, size */
#define WRING_RENDEZVOUS_TEXT 256

enum wring_rendezvous_kind {
    WRING_RENDEZVOUS_BLOB = 1, /* rank to root: its contribution */
    WRING_RENDEZVOUS_RESULT,   /* root to rank: all of them, each after a u64 length */
    WRING_RENDEZVOUS_FAILURE,  /* root to rank: status, rank at fault, text */
};

struct wring_rendezvous_frame {
    enum wring_rendezvous_kind kind;
    uint32_t sequence; /* of the exchange */
    uint32_t status, rank;
    uint64_t bytes;
};

#define WRING_RENDEZVOUS_FRAME_BYTES 28

struct wring_rendezvous {
    struct wring_bootstrap base;
    const struct wring_log *log;
    uint32_t sequence;
    int *fds; /* root: [size], its own -1; others: [1], to the root */
    char local_address[INET6_ADDRSTRLEN];
};

void wring_rendezvous_pack(const struct wring_rendezvous_frame *frame, uint8_t *bytes);
bool wring_rendezvous_parse(const uint8_t *bytes, struct wring_rendezvous_frame *out);

/** Listen (unless params->root_fd) and let everyone in; on failure all who joined are told. */
enum wring_status wring_rendezvous_host(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret);

/** Connect to the root, again and again until it is there, and be let in. */
enum wring_status wring_rendezvous_join(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret);

/** Tell all who joined that it is over. */
void wring_rendezvous_tell_failure(struct wring_rendezvous *rendezvous, enum wring_status status,
                                   uint32_t rank, const char *text);

/** The two sides of an exchange. */
enum wring_status wring_rendezvous_gather(struct wring_rendezvous *rendezvous, const void *blob,
                                          size_t bytes, const struct wring_patience *patience,
                                          struct wring_blobs *out);
enum wring_status wring_rendezvous_contribute(struct wring_rendezvous *rendezvous, const void *blob,
                                              size_t bytes, const struct wring_patience *patience,
                                              struct wring_blobs *out);

/** Resolve "host:port". @param wildcard out, true where the host is a name, not a number */
enum wring_status wring_rendezvous_resolve(const struct wring_log *log, const char *root,
                                           struct sockaddr_storage *address, socklen_t *bytes,
                                           bool *is_name);

bool wring_rendezvous_is_loopback(const struct sockaddr_storage *address);

#endif
