/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A ring in shared memory whose other end writes what it likes, where and when it likes: what is
 * taken has a size that fits, and nothing but the ring is touched.
 *
 * Input: a row of steps of 1 byte and what they need (see run_step()), against a ring that we
 * consume from and one that we produce into.
 */
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "transport/providers/shm/shm.h"

struct rig {
    struct shm_ring in, out; /* ours; the peer writes to both of their files */
    uint8_t *message;        /* [WRING_SEND_MAX] */
    bool dead;               /* an end found out */
};

/** Both ends are of this process, so that each may be tampered with. */
static void open_rig(struct rig *rig)
{
    struct shm_ring theirs = {0};
    const char *call;
    int fd;

    *rig = (struct rig){.message = calloc(1, WRING_SEND_MAX)};
    FUZZ_CHECK(rig->message != NULL, "out of memory");
    FUZZ_CHECK(wring_shm_ring_create(&rig->in, &fd, &call) == WRING_OK, "no ring");
    close(fd);
    FUZZ_CHECK(wring_shm_ring_create(&theirs, &fd, &call) == WRING_OK, "no ring");
    FUZZ_CHECK(wring_shm_ring_map(&rig->out, fd) == WRING_OK, "no map");
    close(fd);
    wring_shm_ring_finish(&theirs);
}

static void close_rig(struct rig *rig)
{
    wring_shm_ring_finish(&rig->in);
    wring_shm_ring_finish(&rig->out);
    free(rig->message);
}

/** The peer writes a number into a word of a ring's file. */
static void tamper(struct shm_inbox *inbox, struct fuzz_input *input)
{
    size_t at = fuzz_take(input, 2) % (sizeof(*inbox) / 4) * 4;
    uint32_t value = fuzz_take(input, 4);
    memcpy((uint8_t *)inbox + at, &value, sizeof(value));
}

/** The peer publishes entries as a producer does, with fields of its own choice. */
static void publish(struct shm_inbox *inbox, struct fuzz_input *input)
{
    uint32_t head = atomic_load(&inbox->head);
    struct shm_cell *cell = &inbox->cells[head % SHM_RING_ENTRIES];
    cell->region = fuzz_take(input, 1);
    cell->offset = fuzz_take(input, 4);
    cell->bytes = fuzz_take(input, 2);
    cell->imm = 7;
    atomic_store(&cell->mark, (head + 1) << 8 | fuzz_take(input, 1));
    atomic_store(&inbox->head, head + 1);
}

static void take(struct rig *rig)
{
    struct shm_entry entry = {0};
    enum wring_status status = wring_shm_ring_take(&rig->in, &entry, rig->message);
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_AGAIN || status == WRING_ERR_FRAME,
               "status %d", status);
    size_t most = entry.kind == SHM_MESSAGE ? WRING_SEND_MAX : SHM_INSIDE_MAX;
    FUZZ_CHECK(status != WRING_OK || (entry.kind != SHM_MESSAGE && entry.kind != SHM_INSIDE) ||
                   (entry.bytes > 0 && entry.bytes <= most),
               "%llu bytes with an entry of kind %u", (unsigned long long)entry.bytes, entry.kind);
    rig->dead = status == WRING_ERR_FRAME;
}

static void push(struct rig *rig, struct fuzz_input *input)
{
    struct shm_entry entry = {.kind = SHM_MESSAGE, .bytes = 1 + fuzz_take(input, 1)};
    enum wring_status status = wring_shm_ring_room(&rig->out);
    if (entry.bytes % 3 == 0 && entry.bytes <= SHM_INSIDE_MAX)
        entry.kind = SHM_INSIDE;

    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_AGAIN || status == WRING_ERR_FRAME,
               "status %d", status);
    if (status == WRING_OK)
        wring_shm_ring_push(&rig->out, &entry, rig->message);
    rig->dead = status == WRING_ERR_FRAME;
}

/** The peer is no more: what is left to be taken is no more than a ring. */
static void end(struct rig *rig)
{
    uint32_t end;
    if (wring_shm_ring_end(&rig->in, &end) == WRING_OK)
        FUZZ_CHECK(end - rig->in.tail <= SHM_RING_ENTRIES, "%u entries are left",
                   end - rig->in.tail);
}

static void run_step(struct rig *rig, struct fuzz_input *input)
{
    switch (fuzz_take(input, 1) % 7) {
    case 0:
        tamper(rig->in.inbox, input);
        return;
    case 1:
        tamper(rig->out.inbox, input);
        return;
    case 2:
        publish(rig->in.inbox, input);
        return;
    case 3:
        for (uint32_t n = fuzz_take(input, 1); n > 0 && !rig->dead; n--)
            push(rig, input);
        return;
    case 4:
        wring_shm_ring_sleep(&rig->in);
        wring_shm_ring_awake(&rig->in);
        end(rig);
        return;
    case 5:
        atomic_fetch_add(&rig->out.inbox->tail, fuzz_take(input, 1));
        return;
    default:
        for (uint32_t n = 1 + fuzz_take(input, 1) % 8; n > 0 && !rig->dead; n--)
            take(rig);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct rig rig;

    open_rig(&rig);
    while (input.left > 0 && !rig.dead)
        run_step(&rig, &input);
    close_rig(&rig);
    return 0;
}
