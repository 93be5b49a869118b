/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What `wring bench p2p` sends: bytes that tell the sender and their own position, and an end that
 * tells which put it was.
 */
#ifndef WRING_TOOLS_BENCH_PAYLOAD_H
#define WRING_TOOLS_BENCH_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Write the bytes of a sender's payload. */
void wring_payload_fill(uint8_t *data, size_t bytes, uint32_t sender);

/** Write bytes of which each is wrong for that sender's payload. */
void wring_payload_spoil(uint8_t *data, size_t bytes, uint32_t sender);

/** Mark the last 8 bytes, or as many as there are, as put `number`. */
void wring_payload_stamp(uint8_t *data, size_t bytes, uint64_t number);

bool wring_payload_has_stamp(const uint8_t *data, size_t bytes, uint64_t number);

/** Is every byte before the stamp the sender's? */
bool wring_payload_is_right(const uint8_t *data, size_t bytes, uint32_t sender);

#endif
