/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are larger than the slots of NCCL's own buffers: of a buffer that the user has
 * registered NCCL hands over up to maxP2pBytes at once. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/net_cases.h"
#include "tests/nccl/rig.h"

#define MIB ((size_t)1 << 20)
#define UNTOUCHED 0xB3

struct large {
    size_t bytes, room; /* sent; that the receiver has */
    unsigned char *data;
    void *region, *request;
    int size; /* what test said */
};

#define MESSAGES 3

/** Memory of this process that is really there, in bytes. */
static size_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
        abort();
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/** Odd sizes, with and without room to spare. */
static void choose_sizes(struct large *messages)
{
    const size_t most = rig_choice.largest_mib * MIB, sizes[MESSAGES] = {
                                                          most / 32 + 1,
                                                          most / 5 + 13,
                                                          most - 7,
                                                      };

    for (size_t i = 0; i < MESSAGES; i++) {
        messages[i].bytes = sizes[i];
        messages[i].room = sizes[i] + (i == 1 ? 5 * MIB : 0);
    }
}

static void prepare(struct rig *rig, void *comm, struct large *message, uint64_t seed)
{
    message->data = malloc(message->room);
    if (message->data == NULL)
        abort();
    memset(message->data, UNTOUCHED, message->room);
    if (rig->me.rank == 0)
        rig_fill(message->data, message->bytes, seed);
    message->region = rig_register(rig, comm, message->data, message->room);
}

static bool test_one(struct rig *rig, struct large *message)
{
    int done = 0;

    if (message->request == NULL)
        return true;
    int result = plugin_test(rig->plugin, message->request, &done, &message->size);
    MUST(result == PLUGIN_OK, "test of a message of %zu bytes: %d", message->bytes, result);
    if (done != 0)
        message->request = NULL;
    return done != 0;
}

/** Test all until they have ended. @return the most memory that there was meanwhile, in bytes */
static size_t await_all(struct rig *rig, struct large *messages)
{
    size_t most = 0;

    for (bool ended = false; !ended;) {
        ended = true;
        for (size_t i = 0; i < MESSAGES; i++)
            ended &= test_one(rig, &messages[i]);
        size_t now = resident();
        most = now > most ? now : most;
        if (!ended)
            world_turn("messages of up to %zu bytes", messages[MESSAGES - 1].bytes);
    }
    return most;
}

static void check_all(const struct large *messages)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const struct large *message = &messages[i];
        size_t at = rig_differs(message->data, message->bytes, i);
        CHECK(at == message->bytes, "byte %zu of %zu differs", at, message->bytes);
        CHECK(message->size == (int)message->bytes, "of %zu bytes test says %d", message->bytes,
              message->size);
        CHECK(message->bytes == message->room || message->data[message->bytes] == UNTOUCHED,
              "of %zu bytes one more is written", message->bytes);
    }
}

static void move_large(struct rig *rig, void *comm)
{
    struct large messages[MESSAGES];

    choose_sizes(messages);
    for (size_t i = 0; i < MESSAGES; i++)
        prepare(rig, comm, &messages[i], i);
    world_meet();
    size_t before = resident();
    for (size_t i = 0; i < MESSAGES; i++) {
        struct large *m = &messages[i];
        m->request = rig->me.rank == 0 ? rig_send(rig, comm, m->data, m->bytes, 3, m->region)
                                       : rig_receive(rig, comm, m->data, m->room, 3, m->region);
    }
    size_t most = await_all(rig, messages);
    size_t more = most > before ? (most - before) / MIB : 0;
    CHECK(rig_choice.memory_mib == 0 || more <= rig_choice.memory_mib,
          "%zu MiB of memory more, for messages of up to %zu MiB", more,
          messages[MESSAGES - 1].bytes / MIB);
    check_all(messages);
    for (size_t i = 0; i < MESSAGES; i++) {
        rig_deregister(rig, comm, messages[i].region);
        free(messages[i].data);
    }
}

void large_messages_come_whole(void)
{
    rig_run_pair(move_large);
}
