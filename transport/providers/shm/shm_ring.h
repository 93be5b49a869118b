/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One direction of a shared-memory connection: a ring of descriptors with one producer and one
 * consumer, in a file without a name that the consumer made. transport/WIRE.md, "shm", has the
 * layout.
 *
 * The other process can write to all of it at any time. Each side therefore keeps its own index in
 * private memory, publishes it for the other to see, and believes of the other's index only what
 * can be true. Nothing here loops.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_SHM_RING_H
#define WRING_SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <wring/provider.h>

#define SHM_RING_ENTRIES 256 /* a power of two */

enum shm_kind {
    SHM_PUT = 1,     /* region, offset, bytes, imm: the data lies there already */
    SHM_MESSAGE = 2, /* bytes: in the message slot of the same number */
};

struct shm_entry {
    uint64_t region; /* the id under which the consumer announced it */
    uint64_t offset;
    uint64_t bytes;
    uint32_t imm;
    uint32_t kind;
};

/* what lies in the file; every writer has cache lines of its own */
struct shm_inbox {
    alignas(64) _Atomic uint32_t head;   /* producer: entries ever written */
    _Atomic uint32_t left;               /* producer: it closes on purpose */
    alignas(64) _Atomic uint32_t tail;   /* consumer: entries ever taken */
    alignas(64) _Atomic uint32_t asleep; /* consumer sets it, the producer that wakes it clears */
    _Atomic uint32_t gone;               /* consumer: how many regions of its are no more */
    alignas(64) struct shm_entry entries[SHM_RING_ENTRIES];
    uint8_t messages[SHM_RING_ENTRIES][WRING_SEND_MAX];
};

struct shm_ring {
    struct shm_inbox *inbox; /* NULL until made or mapped */
    uint32_t head, tail;     /* ours, and what we last saw of the other's */
};

/** Make the consumer's end. @param fd out, to be sent to the producer; the caller closes it */
enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *fd);

/** Map the producer's end; WRING_ERR_FRAME if fd is not what create makes. fd stays open. */
enum wring_status wring_shm_ring_map(struct shm_ring *ring, int fd);

/** Unmap. Fine for a zeroed ring. */
void wring_shm_ring_finish(struct shm_ring *ring);

/** Producer: may one entry be pushed? WRING_ERR_AGAIN if full, WRING_ERR_FRAME if tampered with. */
enum wring_status wring_shm_ring_room(struct shm_ring *ring);

/**
 * Producer: publish one entry; there must be room.
 * @param message  [entry->bytes] for a SHM_MESSAGE
 * @return true: the consumer sleeps and must be woken
 */
bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *message);

/**
 * Consumer: take one entry. Its fields are copied but not checked, save for a message's size.
 * @param message  out, [WRING_SEND_MAX]
 * Errors: WRING_ERR_AGAIN (empty), WRING_ERR_FRAME (tampered with).
 */
enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry,
                                      void *message);

/** Consumer: the next push shall say wake. @return false if there is something to take already */
bool wring_shm_ring_sleep(struct shm_ring *ring);

void wring_shm_ring_awake(struct shm_ring *ring);

#endif
