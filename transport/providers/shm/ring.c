/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/shm/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "transport/memory.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SLOT(index) ((index) & (SHM_RING_ENTRIES - 1))
#define KIND_BITS 8

_Static_assert(sizeof(struct shm_cell) == 64, "an entry is one cache line");
_Static_assert(offsetof(struct shm_inbox, tail) == 64, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, asleep) == 128, "layout in WIRE.md");
_Static_assert(offsetof(struct shm_inbox, cells) == 192, "layout in WIRE.md");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

static enum wring_status map_inbox(struct shm_ring *ring, int fd)
{
    void *inbox = mmap(NULL, sizeof(*ring->inbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (inbox == MAP_FAILED)
        return WRING_ERR_SYSTEM;
    wring_forked_hide(inbox, sizeof(*ring->inbox));
    *ring = (struct shm_ring){.inbox = inbox};
    return WRING_OK;
}

enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *out, const char **call)
{
    *call = "memfd_create";
    int fd = WRING_DESCRIPTOR(memfd_create("wring-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return WRING_ERR_SYSTEM;

    enum wring_status status = WRING_ERR_SYSTEM;
    *call = "ftruncate or fcntl(F_ADD_SEALS)";
    if (!wring_memory_resize(fd, sizeof(*ring->inbox)) || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        goto close_fd;
    *call = "mmap";
    status = map_inbox(ring, fd);
    if (status != WRING_OK)
        goto close_fd;
    *out = fd;
    return WRING_OK;

close_fd:
    wring_descriptor_close(fd);
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

/** The mark of an entry, but for its kind. */
static uint32_t mark_of(uint32_t index)
{
    return (index + 1) << KIND_BITS;
}

bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *data)
{
    struct shm_inbox *inbox = ring->inbox;
    uint32_t slot = SLOT(ring->head);
    struct shm_cell *cell = &inbox->cells[slot];

    cell->region = entry->region;
    cell->offset = entry->offset;
    cell->bytes = entry->bytes;
    cell->imm = entry->imm;
    if (entry->kind != SHM_PUT)
        memcpy(entry->bytes <= SHM_INSIDE_MAX ? cell->inside : inbox->messages[slot], data,
               entry->bytes);
    atomic_store_explicit(&cell->mark, mark_of(ring->head++) | entry->kind, memory_order_release);
    /* in one order with the consumer's store to asleep and its last look at head */
    atomic_store_explicit(&inbox->head, ring->head, memory_order_seq_cst);
    return atomic_load_explicit(&inbox->asleep, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&inbox->asleep, 0, memory_order_relaxed) != 0;
}

/** The most bytes that may come with an entry of that kind. */
static size_t most_bytes(uint32_t kind)
{
    return kind == SHM_MESSAGE ? WRING_SEND_MAX : SHM_INSIDE_MAX;
}

enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry, void *data)
{
    struct shm_inbox *inbox = ring->inbox;
    uint32_t slot = SLOT(ring->tail);
    struct shm_cell *cell = &inbox->cells[slot];
    uint32_t mark = atomic_load_explicit(&cell->mark, memory_order_acquire);
    uint32_t kind = mark & ((1u << KIND_BITS) - 1);

    if (mark - kind != mark_of(ring->tail))
        return WRING_ERR_AGAIN;
    const volatile struct shm_cell *once = cell; /* its fields are read no second time */
    *entry = (struct shm_entry){once->region, once->offset, once->bytes, once->imm, kind};
    if (kind == SHM_MESSAGE || kind == SHM_INSIDE) {
        if (entry->bytes == 0 || entry->bytes > most_bytes(kind))
            return WRING_ERR_FRAME;
        memcpy(data, entry->bytes <= SHM_INSIDE_MAX ? cell->inside : inbox->messages[slot],
               entry->bytes);
    }
    ring->tail++;
    atomic_store_explicit(&inbox->tail, ring->tail, memory_order_release);
    return WRING_OK;
}

enum wring_status wring_shm_ring_end(const struct shm_ring *ring, uint32_t *end)
{
    uint32_t head = atomic_load_explicit(&ring->inbox->head, memory_order_acquire);
    if (head - ring->tail == UINT32_MAX) /* it died after the mark of an entry that we have taken */
        head = ring->tail;
    if (head - ring->tail > SHM_RING_ENTRIES)
        return WRING_ERR_FRAME;
    *end = head;
    return WRING_OK;
}

bool wring_shm_ring_sleep(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 1, memory_order_seq_cst);
    return atomic_load_explicit(&ring->inbox->head, memory_order_seq_cst) == ring->tail;
}

void wring_shm_ring_awake(struct shm_ring *ring)
{
    atomic_store_explicit(&ring->inbox->asleep, 0, memory_order_relaxed);
}
