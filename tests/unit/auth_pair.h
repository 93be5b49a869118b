/* SPDX-License-Identifier: Apache-2.0 */
/** Both ends of a handshake, without a network between them. */
#ifndef WRING_TESTS_AUTH_PAIR_H
#define WRING_TESTS_AUTH_PAIR_H

#include "transport/auth.h"

#define AUTH_HELLO "rank 3 of 7" /* what the initiator says, with its NUL */

extern const uint8_t auth_key[WRING_SECRET_BYTES], auth_other_key[WRING_SECRET_BYTES];

struct auth_pair {
    struct wring_auth initiator, acceptor;
};

void auth_pair_init(struct auth_pair *pair, const uint8_t *initiator_key,
                    const uint8_t *acceptor_key);

/** Carry at most `piece` bytes from one to the other. @return how many the other took */
size_t auth_pair_carry(struct wring_auth *from, struct wring_auth *to, size_t piece);

/** Until nothing moves. */
void auth_pair_run(struct auth_pair *pair, size_t piece);

/** How both ended. */
void auth_pair_check(const struct auth_pair *pair, enum wring_status want);

#endif
