/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The ring in which one rank receives the records of one other: transport/WIRE.md, "Messages", has
 * the layout. A record begins with a line of 64 bytes and goes on without a gap; one that does not
 * fit before the end of the ring begins at the front, behind a record that only says so.
 *
 * A writer that maps the ring writes the record's mark last. The mark is the record's place since
 * the beginning, mixed with a random number that the ring's owner chose, so that nothing that the
 * writer's application sends looks like one. Elsewhere a put's arrival says that a record is there.
 *
 * What the other side writes is hostile: a reader copies a record's head before it looks at it.
 */
#ifndef WRING_TRANSPORT_RING_H
#define WRING_TRANSPORT_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include <wring/provider.h>

#define WRING_MESSAGE_EAGER_MAX 8192 /* bytes of an eager message, at most */
#define WRING_RING_LINE 64
#define WRING_RECORD_HEAD 32 /* bytes of a record's head */
#define WRING_RING_SLOTS 8
#define WRING_RECORD_LINES ((WRING_RECORD_HEAD + WRING_MESSAGE_EAGER_MAX + 63) / WRING_RING_LINE)
#define WRING_RECORD_MAX ((size_t)WRING_RECORD_LINES * WRING_RING_LINE)
#define WRING_RING_LINES (WRING_RING_SLOTS * WRING_RECORD_LINES)

enum wring_record_kind {
    WRING_RECORD_SKIP = 1, /* the next one begins at the front */
    WRING_RECORD_EAGER,    /* context, tag; small: bytes; id: the sender's member; data */
    WRING_RECORD_OFFER,    /* context, tag; id: of the message; wring_record_offer */
    WRING_RECORD_GRANT,    /* id; wring_record_grant: where part of it may be put */
    WRING_RECORD_DONE,     /* id: the receiver needs no more of it; tag: status */
    WRING_RECORD_WITHDRAW, /* context, id: the sender takes the offer back; tag: bytes it has put */
    WRING_RECORD_RECALL,   /* id: the receiver takes its grants back */
    WRING_RECORD_STOPPED,  /* id: answer to that; tag: bytes that the sender has put */
};

/** A record's head as it lies in the ring. */
struct wring_record {
    _Atomic uint64_t mark;
    uint8_t kind;
    uint8_t zero;
    uint16_t small;
    uint32_t id;
    uint64_t context;
    uint64_t tag;
};

/** The rest of an offer, behind its head. */
struct wring_record_offer {
    uint64_t bytes, address;
    uint32_t member; /* the sender's */
    uint32_t zero;
};

/** The rest of a grant, behind its head. */
struct wring_record_grant {
    uint64_t at, bytes; /* this part of the message */
    uint64_t total;     /* of all parts */
    uint64_t offset;    /* in the region */
    uint32_t grant;     /* for the immediates of its puts */
    uint16_t pool;      /* not 0: the region is the receiver's pool, and will be named again */
    uint16_t key_bytes;
    uint8_t key[WRING_REGION_KEY_MAX];
};

/** Before the ring's lines, in the owner's memory. */
struct wring_ring_head {
    alignas(128) _Atomic uint64_t secret; /* the owner writes these … */
    _Atomic uint64_t taken;               /* lines, since the beginning */
    _Atomic uint64_t eager_limit;         /* cost of eager messages, since the beginning */
    _Atomic uint32_t offer_limit;         /* likewise a number */
    _Atomic uint32_t stopped;             /* the limit stays where it is until receives come */
    alignas(128) _Atomic uint32_t asleep; /* … this both: it is to be woken */
    _Atomic uint32_t fenced;              /* light fences do not do */
};

#define WRING_RING_BYTES (sizeof(struct wring_ring_head) + WRING_RING_LINES * WRING_RING_LINE)

/** Lines of a record with so many bytes behind its head. */
static inline uint32_t wring_record_lines(size_t bytes)
{
    return (uint32_t)((WRING_RECORD_HEAD + bytes + WRING_RING_LINE - 1) / WRING_RING_LINE);
}

/** The mark of the record that begins with that line. */
static inline uint64_t wring_record_mark(uint64_t secret, uint64_t line)
{
    return secret ^ (line + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

/** The cost, out of WRING_UNEXPECTED_BYTES, of a message that no receive waits for. Both sides
 *  compute it. */
static inline uint64_t wring_message_cost(uint64_t bytes)
{
    uint64_t all = 96 + bytes, step = all <= 1024 ? 128 : 1024;
    return (all + step - 1) / step * step;
}

#endif
