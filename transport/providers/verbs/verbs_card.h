/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The bytes of the verbs provider: what two sides tell each other of a queue pair, and the key of a
 * region. Pure, and built where there is no libibverbs too; WIRE.md, "verbs", has the tables.
 */
#ifndef WRING_VERBS_CARD_H
#define WRING_VERBS_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_CARD_BYTES 48
#define VERBS_GID_BYTES 16
#define VERBS_KEY_BYTES 20
#define VERBS_READY_BYTE 'R' /* after the cards: my queue pair can take your first packet */

/** What a side tells of its queue pair. */
struct verbs_card {
    uint32_t qpn, psn; /* below 2^24 */
    uint16_t lid;
    uint8_t mtu; /* enum ibv_mtu: 1 to 5 for 256 to 4096 bytes */
    uint8_t gid[VERBS_GID_BYTES];
    uint64_t credit_address; /* where to write how many receives were taken */
    uint32_t credit_rkey;
};

/** What a side tells of a region that others write to. */
struct verbs_key {
    uint64_t bytes, address;
    uint32_t rkey;
};

void wring_verbs_card_pack(const struct verbs_card *card, uint8_t to[VERBS_CARD_BYTES]);

/** @param from in, hostile @return false, and nothing written, where this is no card */
bool wring_verbs_card_unpack(const uint8_t from[VERBS_CARD_BYTES], struct verbs_card *out);

void wring_verbs_key_pack(const struct verbs_key *key, uint8_t to[VERBS_KEY_BYTES]);

/**
 * @param from  in, [bytes], hostile
 * @return false, and nothing written, where this is no key: another length, no memory at all, or
 *         memory that wraps
 */
bool wring_verbs_key_unpack(const uint8_t *from, size_t bytes, struct verbs_key *out);

#endif
