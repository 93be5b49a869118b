/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/shm/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SLOT(index) ((index) & (SHM_RING_ENTRIES - 1))

_Static_assert(sizeof(struct shm_entry) == 32, "an entry is half a cache line");
_Static_assert(offsetof(struct shm_inbox, tail) == 64, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, asleep) == 128, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, entries) == 192, "layout in WIRE.md");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

static enum wring_status map_inbox(struct shm_ring *ring, int fd)
{
    void *inbox = mmap(NULL, sizeof(*ring->inbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (inbox == MAP_FAILED)
        return errno == ENOMEM ? WRING_ERR_NO_MEMORY : WRING_ERR_SYSTEM;
    *ring = (struct shm_ring){.inbox = inbox};
    return WRING_OK;
}

enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *out)
{
    int fd = memfd_create("wring-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return WRING_ERR_SYSTEM;

    enum wring_status status = WRING_ERR_SYSTEM;
    if (ftruncate(fd, sizeof(*ring->inbox)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        goto close_fd;
    status = map_inbox(ring, fd);
    if (status != WRING_OK)
        goto close_fd;
    *out = fd;
    return WRING_OK;

close_fd:
    close(fd);
    return status;
}

enum wring_status wring_shm_ring_map(struct shm_ring *ring, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
        st.st_size != sizeof(*ring->inbox))
        return WRING_ERR_FRAME;
    return map_inbox(ring, fd);
}

void wring_shm_ring_finish(struct shm_ring *ring)
{
    if (ring->inbox != NULL)
        munmap(ring->inbox, sizeof(*ring->inbox));
    *ring = (struct shm_ring){0};
}

enum wring_status wring_shm_ring_room(struct shm_ring *ring)
{
    if (ring->head - ring->tail < SHM_RING_ENTRIES)
        return WRING_OK;
    uint32_t tail = atomic_load_explicit(&ring->inbox->tail, memory_order_acquire);
    if (ring->head - tail > SHM_RING_ENTRIES)
        return WRING_ERR_FRAME;
    ring->tail = tail;
    return ring->head - tail < SHM_RING_ENTRIES ? WRING_OK : WRING_ERR_AGAIN;
}

bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *message)
{
    struct shm_inbox *inbox = ring->inbox;
    uint32_t slot = SLOT(ring->head);

    inbox->entries[slot] = *entry;
    if (entry->kind == SHM_MESSAGE)
        memcpy(inbox->messages[slot], message, entry->bytes);
    ring->head++;
    /* in one order with the consumer's store to asleep and its last look at head */
    atomic_store_explicit(&inbox->head, ring->head, memory_order_seq_cst);
    return atomic_load_explicit(&inbox->asleep, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&inbox->asleep, 0, memory_order_relaxed) != 0;
}

enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry, void *message)
{
    struct shm_inbox *inbox = ring->inbox;
    if (ring->head == ring->tail) {
        uint32_t head = atomic_load_explicit(&inbox->head, memory_order_acquire);
        if (head == ring->tail)
            return WRING_ERR_AGAIN;
        if (head - ring->tail > SHM_RING_ENTRIES)
            return WRING_ERR_FRAME;
        ring->head = head;
    }
    uint32_t slot = SLOT(ring->tail);
    *entry = *(const volatile struct shm_entry *)&inbox->entries[slot]; /* read once */
    if (entry->kind == SHM_MESSAGE) {
        if (entry->bytes == 0 || entry->bytes > WRING_SEND_MAX)
            return WRING_ERR_FRAME;
        memcpy(message, inbox->messages[slot], entry->bytes);
    }
    ring->tail++;
    atomic_store_explicit(&inbox->tail, ring->tail, memory_order_release);
    return WRING_OK;
}

bool wring_shm_ring_sleep(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 1, memory_order_seq_cst);
    return ring->head == ring->tail &&
           atomic_load_explicit(&ring->inbox->head, memory_order_seq_cst) == ring->tail;
}

void wring_shm_ring_awake(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 0, memory_order_relaxed);
}
