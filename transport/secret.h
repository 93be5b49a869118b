/* SPDX-License-Identifier: Apache-2.0 */
/** Secrets, proofs of them, and randomness: what of libcrypto and the system is used. */
#ifndef WRING_TRANSPORT_SECRET_H
#define WRING_TRANSPORT_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/provider.h>
#include <wring/status.h>

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

#endif
