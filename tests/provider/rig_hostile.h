/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A tcp instance that is attacked while an honest peer works with it, and what attackers need:
 * plain sockets, and the handshake for those who have the key.
 */
#ifndef WRING_TESTS_PROVIDER_RIG_HOSTILE_H
#define WRING_TESTS_PROVIDER_RIG_HOSTILE_H

#include "tests/provider/ends.h"
#include "transport/providers/tcp/tcp.h"

#define RIG_BYTES 8192

struct rig {
    struct end victim, friend;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t address_bytes;
    struct wring_conn *honest, *evil; /* the victim's */
    unsigned greeted;                 /* honest arrivals */
    uint32_t evil_imm;                /* of the last that arrived */
    size_t evil_bytes;                /* likewise */
    unsigned evil_accepted, evil_arrived, evil_messages, evil_closed;
    enum wring_status evil_why;
    char evil_text[256];
    char logged[256]; /* the victim's last line */
};

/** The victim listens and its friend is connected. */
bool rig_open(struct rig *rig);
void rig_close(struct rig *rig);

/** Poll the victim once, and its friend. */
void rig_turn(struct rig *rig);

/** The friend's puts still arrive; a failed check where they do not. */
void rig_check_friend(struct rig *rig, const char *after);

/** A stream to the victim's port, not blocking. @return -1 on failure */
int rig_dial(const struct rig *rig);

/** Dial, and prove to know the secret. */
int rig_dial_proven(struct rig *rig, uint8_t secret);

/** The same for any purpose. @param nonce out, what the stream is known by; may be NULL */
int rig_dial_for(struct rig *rig, uint8_t secret, uint16_t purpose, const void *hello, size_t bytes,
                 uint8_t nonce[WRING_AUTH_NONCE_BYTES]);

/** Send all, while the victim is polled. @return false when the stream broke */
bool rig_send(struct rig *rig, int fd, const void *data, size_t bytes);

/** Wait until the victim closes the stream; what it sends before is thrown away. */
bool rig_wait_closed(struct rig *rig, int fd);

/** Poll until the condition holds; a failed check after WAIT_NS. */
#define RIG_UNTIL(rig, condition)                                                      \
    do {                                                                               \
        uint64_t until_limit = wring_deadline_in(WAIT_NS);                             \
        while (!(condition) && wring_now_ns() < until_limit)                           \
            rig_turn(rig);                                                             \
        CHECK(condition, "did not come: '%s', '%s'", (rig)->evil_text, (rig)->logged); \
    } while (0)

#endif
