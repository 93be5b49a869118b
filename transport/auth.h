/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Both ends of a byte stream prove to each other that they know the job's secret, before a byte
 * of anything else is believed.
 *
 * The object does no I/O: its owner carries bytes between it and a stream, in pieces of any size,
 * and sets the deadline. Messages have fixed sizes and nothing is allocated. transport/WIRE.md,
 * "Handshake", has the bytes.
 *
 *     wring_auth_init(&auth, initiator, WRING_AUTH_TCP, secret, hello, hello_bytes);
 *     until wring_auth_status(&auth) != WRING_ERR_AGAIN:
 *         n = wring_auth_output(&auth, &data);  wring_auth_sent(&auth, write(fd, data, n));
 *         n = read(fd, data, wring_auth_wants(&auth));  wring_auth_input(&auth, data, n);
 *
 * A side that refuses may have a last word for the other: send what wring_auth_output() still has
 * then, so far as the stream takes it at once, before closing.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_TRANSPORT_AUTH_H
#define WRING_TRANSPORT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/provider.h>
#include <wring/status.h>

/* Secrets, proofs of them, and randomness: what of libcrypto and the system is used. */

#define WRING_MAC_BYTES 32

/** HMAC-SHA256. @return false where this process's libcrypto has none */
bool wring_hmac(const uint8_t *key, size_t key_bytes, const void *data, size_t bytes,
                uint8_t out[WRING_MAC_BYTES]);

/** Up to 256 bytes that nobody can guess. @return false where the system gives none */
bool wring_random_bytes(uint8_t *out, size_t bytes);

/**
 * Derive a secret for one use from a key of any length: HKDF-SHA256 (RFC 5869), 32 bytes.
 *
 * @param key    in, [bytes]; a text that a person can guess gives a secret that can be guessed
 * @param label  the use, so that secrets for different uses tell nothing about each other
 * @param salt   in, [salt_bytes]; NULL, 0 where there is none
 * @param out    out, [WRING_SECRET_BYTES]
 *
 * Errors: WRING_ERR_SYSTEM (no HMAC in this process's libcrypto).
 */
enum wring_status wring_secret_derive(const void *key, size_t bytes, const char *label,
                                      const void *salt, size_t salt_bytes,
                                      uint8_t out[WRING_SECRET_BYTES]);

#define WRING_WIRE_VERSION 1
#define WRING_AUTH_NONCE_BYTES 32
#define WRING_AUTH_MAC_BYTES WRING_MAC_BYTES
#define WRING_AUTH_FIRST_BYTES 76  /* initiator: magic, version, purpose, hello, nonce */
#define WRING_AUTH_SECOND_BYTES 72 /* acceptor: magic, version, verdict, nonce, mac */
#define WRING_AUTH_TRANSCRIPT_BYTES \
    (WRING_AUTH_FIRST_BYTES + WRING_AUTH_SECOND_BYTES + WRING_AUTH_MAC_BYTES + 1)

/** The purpose of a stream; a port of one kind refuses the others. Part of the wire format. */
enum wring_auth_purpose {
    WRING_AUTH_RENDEZVOUS = 1,
    WRING_AUTH_TCP = 2,
    WRING_AUTH_SHM = 3,
    WRING_AUTH_VERBS = 4,
    WRING_AUTH_NCCL = 5,
    WRING_AUTH_DOOR = 6,
    WRING_AUTH_TCP_FIRST = 7, /* the first socket of a connection that has several */
    WRING_AUTH_TCP_NEXT = 8,  /* one more of them */
};

/** Fields are private; the owner only provides the memory. */
struct wring_auth {
    uint8_t transcript[WRING_AUTH_TRANSCRIPT_BYTES]; /* all four messages, one after the other */
    uint8_t secret[WRING_SECRET_BYTES];              /* wiped when it is no longer needed */
    size_t start, at, end;                           /* of the message under way, in transcript */
    enum wring_status status;
    unsigned message; /* 0..3 */
    uint16_t purpose, peer_version, peer_purpose;
    uint32_t also; /* a bit for each further purpose that the acceptor serves */
    bool initiator;
};

/**
 * Begin. A random number generator that does not answer makes the status WRING_ERR_SYSTEM.
 *
 * @param hello  in, [hello_bytes], 0..WRING_HELLO_MAX, copied; the acceptor says none (NULL, 0)
 */
void wring_auth_init(struct wring_auth *auth, bool initiator, uint16_t purpose,
                     const uint8_t secret[WRING_SECRET_BYTES], const void *hello,
                     size_t hello_bytes);

/** An acceptor's port serves this purpose too. */
void wring_auth_serve(struct wring_auth *auth, uint16_t purpose);

/** What the stream is for, once its status is WRING_OK. */
uint16_t wring_auth_purpose(const struct wring_auth *auth);

/**
 * What tells this stream from all others of the acceptor, which chose it; once the status is
 * WRING_OK, at both ends.
 * @return [WRING_AUTH_NONCE_BYTES], borrowed
 */
const uint8_t *wring_auth_nonce(const struct wring_auth *auth);

/** Bytes to be sent now; 0 when it is the peer's turn or all is said. @param data out, borrowed */
size_t wring_auth_output(struct wring_auth *auth, const void **data);

/** n of them have been sent. */
void wring_auth_sent(struct wring_auth *auth, size_t n);

/** How many bytes wring_auth_input() would take now at most; bytes that follow are not ours. */
size_t wring_auth_wants(const struct wring_auth *auth);

/** Take bytes from the peer. @return how many it took; the rest follows the proof */
size_t wring_auth_input(struct wring_auth *auth, const void *data, size_t n);

/**
 * WRING_ERR_AGAIN while it goes on; WRING_OK when both sides are proven and all output is sent;
 * else final: WRING_ERR_AUTH the peer has another secret, WRING_ERR_VERSION it speaks another
 * version, WRING_ERR_FRAME it does not speak this protocol or wants another kind of port,
 * WRING_ERR_SYSTEM no random numbers or no HMAC on this side.
 */
enum wring_status wring_auth_status(const struct wring_auth *auth);

/** On the side that connects: has the peer proven that it knows the secret, as far as is seen? */
bool wring_auth_is_proven(const struct wring_auth *auth);

/** Has the peer sent anything yet? */
bool wring_auth_has_heard(const struct wring_auth *auth);

/** The initiator's hello; for an acceptor, after WRING_OK. @param bytes out @return borrowed */
const void *wring_auth_hello(const struct wring_auth *auth, size_t *bytes);

/** One line that says how it stands, for a log. @param text out, [bytes] */
void wring_auth_describe(const struct wring_auth *auth, char *text, size_t bytes);

#endif
