/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One direction of a shared-memory connection: a ring of descriptors with one producer and one
 * consumer, in a file without a name that the consumer made. transport/WIRE.md, "shm", has the
 * layout.
 *
 * Each entry has a cache line, and in it a mark that says that it is there: the consumer looks at
 * nothing else, so that one line that changes cores is what a message costs. A small message
 * travels in that line, too.
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
#define SHM_INSIDE_MAX 32    /* bytes that travel in the entry's line */

enum shm_kind {
    SHM_PUT = 1,     /* region, offset, bytes, imm: the data lies there already */
    SHM_MESSAGE = 2, /* bytes: a long one is in the message slot of the same number */
    SHM_INSIDE = 3,  /* a put whose data is in the entry: the consumer takes it to its place */
};

struct shm_entry {
    uint64_t region; /* the id under which the consumer announced it */
    uint64_t offset;
    uint64_t bytes;
    uint32_t imm;
    uint32_t kind;
};

/* an entry as it lies in the file; all but the mark is written before it */
struct shm_cell {
    alignas(64) uint64_t region;
    uint64_t offset;
    uint64_t bytes;
    uint32_t imm;
    _Atomic uint32_t mark; /* kind, and above its 8 bits the entry's number + 1 */
    uint8_t inside[SHM_INSIDE_MAX];
};

/* what lies in the file; every writer has cache lines of its own */
struct shm_inbox {
    alignas(64) _Atomic uint32_t head;   /* producer: entries ever written */
    _Atomic uint32_t left;               /* producer: it closes on purpose */
    alignas(64) _Atomic uint32_t tail;   /* consumer: entries ever taken */
    alignas(64) _Atomic uint32_t asleep; /* consumer sets it, the producer that wakes it clears */
    _Atomic uint32_t gone;               /* consumer: how many regions of its are no more */
    struct shm_cell cells[SHM_RING_ENTRIES];
    uint8_t messages[SHM_RING_ENTRIES][WRING_SEND_MAX];
};

struct shm_ring {
    struct shm_inbox *inbox; /* NULL until made or mapped */
    uint32_t head;           /* producer: entries written */
    uint32_t tail;           /* consumer: entries taken; producer: what it last saw of that */
};

/**
 * Make the consumer's end.
 * @param fd    out, to be sent to the producer; the caller closes it
 * @param call  out: the call that the system refused, for the log
 * Errors: WRING_ERR_SYSTEM, with errno.
 */
enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *fd, const char **call);

/** Map the producer's end; WRING_ERR_FRAME if fd is not what create makes, WRING_ERR_SYSTEM
 *  with errno. fd stays open. */
enum wring_status wring_shm_ring_map(struct shm_ring *ring, int fd);

/** Unmap. Fine for a zeroed ring. */
void wring_shm_ring_finish(struct shm_ring *ring);

/** Producer: may one entry be pushed? WRING_ERR_AGAIN if full, WRING_ERR_FRAME if tampered with. */
enum wring_status wring_shm_ring_room(struct shm_ring *ring);

/**
 * Producer: publish one entry; there must be room.
 * @param data  [entry->bytes] for a SHM_MESSAGE and for SHM_INSIDE, which has SHM_INSIDE_MAX at
 * most
 * @return true: the consumer sleeps and must be woken
 */
bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *data);

/**
 * Consumer: take one entry. Its fields are copied but not checked, save for the size of its data.
 * @param data  out, [WRING_SEND_MAX]: of a SHM_MESSAGE or SHM_INSIDE, entry->bytes of it
 * Errors: WRING_ERR_AGAIN (empty), WRING_ERR_FRAME (tampered with).
 */
enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry, void *data);

/** Consumer, once the producer is no more: the number at which it stopped. WRING_ERR_FRAME if that
 * cannot be. */
enum wring_status wring_shm_ring_end(const struct shm_ring *ring, uint32_t *end);

/** Consumer: the next push shall say wake. @return false if there is something to take already */
bool wring_shm_ring_sleep(struct shm_ring *ring);

void wring_shm_ring_awake(struct shm_ring *ring);

#endif
