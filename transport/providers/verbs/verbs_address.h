/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a side tells its peers before they connect: where its stream listens, and what kinds of
 * rails it has, so that ranks find out whether they can pair while they still may choose another
 * provider. Pure; WIRE.md, "verbs", has the table.
 */
#ifndef WRING_VERBS_ADDRESS_H
#define WRING_VERBS_ADDRESS_H

#include <sys/socket.h>

#include <wring/provider.h>

#include "transport/providers/verbs/verbs_pair.h"

#define VERBS_KIND_BYTES 12

struct verbs_address {
    struct sockaddr_storage socket;
    socklen_t socket_bytes;
    unsigned n_kinds; /* 1..VERBS_RAILS_MAX */
    /* rails, less those that differ in nothing that pairing asks for. Of a GID there is what makes
     * the network: the address if it is IPv4, else the upper 64 bits. No MTU. */
    struct verbs_end kinds[VERBS_RAILS_MAX];
};

/**
 * @param rails  in, [n], 1..VERBS_RAILS_MAX
 * @param blob   out, [WRING_ADDRESS_MAX]
 * @return bytes
 */
size_t wring_verbs_address_pack(const struct sockaddr_storage *socket,
                                const struct verbs_end *rails, size_t n, uint8_t *blob);

/** @param blob in, [bytes], hostile @return WRING_OK; WRING_ERR_FRAME where this is no address */
enum wring_status wring_verbs_address_unpack(const uint8_t *blob, size_t bytes,
                                             struct verbs_address *out);

/** As wring_provider_ops.reaches. */
enum wring_status wring_verbs_reaches(struct wring_provider *provider, const void *one,
                                      size_t one_bytes, const void *other, size_t other_bytes,
                                      char *reason, size_t bytes);

#endif
