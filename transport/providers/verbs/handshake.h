/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The bytes that two sides of a verbs connection exchange on its stream: words, each a header and
 * what it is about. Pure, and built where there is no libibverbs too; WIRE.md, "verbs", has the
 * tables.
 */
#ifndef WRING_VERBS_HANDSHAKE_H
#define WRING_VERBS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "transport/providers/verbs/select.h"
#include "transport/providers/verbs/stripe.h"
#include <wring/provider.h>

#define VERBS_CARD_BYTES 48
#define VERBS_GID_BYTES 16
#define VERBS_OFFER_HEAD 16
#define VERBS_OFFER_RAIL 24
#define VERBS_OFFER_MAX (VERBS_OFFER_HEAD + VERBS_OFFER_RAIL * VERBS_RAILS_MAX)
#define VERBS_RESYNC_BYTES (12 + 4 * VERBS_PATHS_MAX)
#define VERBS_RESUME_BYTES 20 /* and a card for each new queue pair */
#define VERBS_TRY_BYTES (8 + VERBS_CARD_BYTES)
#define VERBS_QPS_MAX 8
#define VERBS_STRIPE_BYTES_MAX (UINT64_C(1) << 30)
#define VERBS_WORD_HEADER 4
#define VERBS_WORD_MAX (VERBS_RESUME_BYTES + VERBS_CARD_BYTES * VERBS_PATHS_MAX) /* after it */

enum verbs_word {
    VERBS_WORD_OFFER = 1, /* what rails I have */
    VERBS_WORD_CARDS = 2, /* my queue pairs, one card per path */
    VERBS_WORD_READY = 3, /* my queue pairs can take your first packet; nothing follows */
    /* later, see verbs/conn.h */
    VERBS_WORD_RESYNC = 4, /* which paths are dead, and how much I sent on the others */
    VERBS_WORD_RESUME = 5, /* how many of your messages I gave out; cards of new queue pairs */
    VERBS_WORD_GO = 6,     /* my new queue pairs are connected to yours */
    VERBS_WORD_TRY = 7,    /* a new queue pair for a dead path, see verbs/conn.h */
};

/** The offer of a side. */
struct verbs_offer {
    unsigned qps;          /* paths per pair of rails, 1..8; the smaller number of both counts */
    uint64_t stripe_bytes; /* the larger one counts */
    unsigned n_rails;      /* 1..VERBS_RAILS_MAX */
    struct verbs_end rails[VERBS_RAILS_MAX];
};

/** A side's queue pair, as it tells the other. */
struct verbs_card {
    uint32_t qpn, psn; /* below 2^24 */
    uint16_t lid;
    uint8_t mtu; /* enum ibv_mtu: 1 to 5 for 256 to 4096 bytes */
    uint8_t gid[VERBS_GID_BYTES];
    uint64_t credit_address; /* where to write how many receives were taken */
    uint32_t credit_rkey;
};

struct verbs_resync_word {
    uint32_t number;                /* counts these words */
    uint32_t dead;                  /* a bit per path */
    uint32_t renew;                 /* of the dead: for which I could make a new queue pair */
    uint32_t used[VERBS_PATHS_MAX]; /* receives of the peer, by path, since the beginning */
};

struct verbs_resume_word {
    uint32_t my_number, your_number; /* of the two RESYNC that it follows from */
    uint64_t delivered;              /* messages; 0 in GO */
    uint32_t renewed;                /* a bit per path that has a new queue pair; 0 in GO */
};

struct verbs_try_word {
    uint32_t number; /* counts these words; the answer has the same */
    uint32_t path;   /* below VERBS_PATHS_MAX */
    struct verbs_card card;
};

void wring_verbs_card_pack(const struct verbs_card *card, uint8_t to[VERBS_CARD_BYTES]);

/** @param from in, hostile @return false, and nothing written, where this is no card */
bool wring_verbs_card_unpack(const uint8_t from[VERBS_CARD_BYTES], struct verbs_card *out);

/** @return bytes written to `to` */
size_t wring_verbs_offer_pack(const struct verbs_offer *offer, uint8_t to[VERBS_OFFER_MAX]);

/** @param from in, [bytes], hostile @return false, and nothing written, where this is no offer */
bool wring_verbs_offer_unpack(const uint8_t *from, size_t bytes, struct verbs_offer *out);

void wring_verbs_resync_pack(const struct verbs_resync_word *word, uint8_t to[VERBS_RESYNC_BYTES]);

/** @param from in, [bytes], hostile @return false, and nothing written, for another length or for
 * paths that nobody has */
bool wring_verbs_resync_unpack(const uint8_t *from, size_t bytes, struct verbs_resync_word *out);

/** Without the cards. */
void wring_verbs_resume_pack(const struct verbs_resume_word *word, uint8_t to[VERBS_RESUME_BYTES]);

/** As wring_verbs_resync_unpack(). @param bytes with the cards, which have to be there */
bool wring_verbs_resume_unpack(const uint8_t *from, size_t bytes, struct verbs_resume_word *out);

void wring_verbs_try_pack(const struct verbs_try_word *word, uint8_t to[VERBS_TRY_BYTES]);

/** As wring_verbs_resync_unpack(). */
bool wring_verbs_try_unpack(const uint8_t *from, size_t bytes, struct verbs_try_word *out);

/** @param bytes what follows the header, up to VERBS_WORD_MAX */
void wring_verbs_word_pack(enum verbs_word word, size_t bytes, uint8_t to[VERBS_WORD_HEADER]);

/**
 * @param from  in, hostile
 * @param bytes out, what follows the header
 * @return the word; 0, and nothing written, where there is no such word or it cannot be so long
 */
unsigned wring_verbs_word_unpack(const uint8_t from[VERBS_WORD_HEADER], size_t *bytes);

/*
 * A side's address, which it tells its peers before they connect: where its stream listens, and
 * what kinds of rails it has, so that ranks find out whether they can pair while they still may
 * choose another provider. Pure; WIRE.md, "verbs", has the table.
 */

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

/** As wring_provider_ops.reach_kind: all but the socket's address. */
size_t wring_verbs_reach_kind(struct wring_provider *provider, const void *address, size_t bytes,
                              const void **kind);

/** As wring_provider_ops.reaches. */
enum wring_status wring_verbs_reaches(struct wring_provider *provider, const void *one,
                                      size_t one_bytes, const void *other, size_t other_bytes,
                                      char *reason, size_t bytes);

#endif
