/* SPDX-License-Identifier: Apache-2.0 */
/**
 * WRING_NCCL_LOSSLESS changes no bit of any message, whatever is in it and however it lies, and no
 * message's place. Both ways of sending are tried in each case, since they are compared.
 *
 *     test_nccl_lossless PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [seed=N] [CASE...]
 */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/rig.h"

#define SMALLEST 65536 /* bytes that are coded */
#define LARGEST 200000
#define STRIDE (LARGEST + 8)
#define MESSAGES 160 /* more than are compared */
#define DEPTH 8

enum kind {
    FLOATS, /* of which a seventh can be saved */
    NOISE,  /* all bits are random: NaNs with payloads, infinities, denormals */
    ZEROS,  /* of which next to nothing is left */
    KINDS,
};

struct transfer {
    enum kind kind;
    bool mixed;             /* sizes and places that are coded, and those that are not */
    const char *says;       /* the sender's log line, once */
    const char *with, *off; /* the sender's and the receiver's settings */
};

static void fill(unsigned char *data, size_t bytes, enum kind kind, uint32_t seed)
{
    uint32_t random = seed * 2654435761u | 1;

    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t word = wring_test_random(&random) << 7 ^ wring_test_random(&random);
        float number = (float)(int32_t)word * 0x1p-40f;
        if (kind == FLOATS)
            memcpy(&word, &number, sizeof(word));
        if (kind == ZEROS)
            word = 0;
        memcpy(data + at, &word, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
    }
}

static size_t bytes_of(const struct transfer *what, uint32_t i)
{
    static const size_t sizes[] = {LARGEST, 100,          SMALLEST, 0,    8192,    SMALLEST + 2,
                                   LARGEST, SMALLEST - 4, SMALLEST, 8193, LARGEST, LARGEST - 1};
    return what->mixed ? sizes[i % 12] : LARGEST;
}

/** Where a message lies in its slot: not always as a float does. */
static size_t offset_of(const struct transfer *what, uint32_t i)
{
    return what->mixed && i % 5 == 1 ? 1 : 0;
}

struct end {
    struct rig *rig;
    const struct transfer *what;
    void *comm, *region;
    unsigned char *slots; /* [DEPTH][STRIDE] */
    unsigned char *want;
    void *requests[DEPTH];
    int sizes[DEPTH];
};

static void post(struct end *end, uint32_t i)
{
    unsigned char *slot = end->slots + (size_t)(i % DEPTH) * STRIDE + offset_of(end->what, i);
    size_t bytes = bytes_of(end->what, i);
    bool sends = end->rig->me.rank == 0;

    memset(slot, 0xA5, LARGEST);
    if (sends)
        fill(slot, bytes, end->what->kind, i + 1);
    end->requests[i % DEPTH] =
        sends ? rig_send(end->rig, end->comm, slot, bytes, 3, end->region)
              : rig_receive(end->rig, end->comm, slot, LARGEST, 3, end->region);
}

static void finish(struct end *end, uint32_t i)
{
    unsigned char *slot = end->slots + (size_t)(i % DEPTH) * STRIDE + offset_of(end->what, i);
    size_t bytes = bytes_of(end->what, i);
    int size = -1;

    rig_wait(end->rig, end->requests[i % DEPTH], &size, "a message that may be coded");
    fill(end->want, bytes, end->what->kind, i + 1);
    CHECK(size == (int)bytes, "message %u of %zu bytes: test says %d", i, bytes, size);
    CHECK(memcmp(slot, end->want, bytes) == 0, "message %u of %zu bytes has other bits", i, bytes);
}

static void set(const char *setting)
{
    char *own = strdup(setting); /* the environment keeps it */
    if (own == NULL)
        abort();
    putenv(own);
}

static void transfer(const struct world_rank *me, void *arg)
{
    const struct transfer *what = arg;
    struct rig_link link = {.from = 0, .to = 1};
    struct rig rig;
    struct end end = {.rig = &rig,
                      .what = what,
                      .slots = malloc((size_t)DEPTH * STRIDE),
                      .want = malloc(LARGEST)};

    if (end.slots == NULL || end.want == NULL)
        abort();
    set("WRING_NCCL_LOSSLESS_MIN=65536");
    set(me->rank == 0 ? what->with : what->off);
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    end.comm = me->rank == 0 ? link.send : link.receive;
    end.region = rig_register(&rig, end.comm, end.slots, (size_t)DEPTH * STRIDE);
    for (uint32_t i = 0; i < MESSAGES + DEPTH; i++) {
        if (i >= DEPTH)
            finish(&end, i - DEPTH);
        if (i < MESSAGES)
            post(&end, i);
    }
    if (me->rank == 0)
        CHECK(world_logged(PLUGIN_LOG_INFO, what->says) == 1, "%u lines say \"%s\"",
              world_logged(PLUGIN_LOG_INFO, what->says), what->says);
    rig_deregister(&rig, end.comm, end.region);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
    free(end.slots);
    free(end.want);
}

#define ON "WRING_NCCL_LOSSLESS=1"
#define OFF "WRING_NCCL_LOSSLESS=0"

static void run(struct transfer what)
{
    world_run(&(struct world_job){.size = 2, .run = transfer, .arg = &what});
}

static void no_bit_is_lost(void)
{
    run((struct transfer){FLOATS, false, "coded to 0.8", ON, ON});
    run((struct transfer){NOISE, false, "coded to 1.0", ON, ON});
    run((struct transfer){ZEROS, false, "coded to 0.", ON, ON});
}

static void sizes_and_positions_may_be_any(void)
{
    run((struct transfer){FLOATS, true, "device 0", ON, ON});
    run((struct transfer){NOISE, true, "device 0", ON, ON});
}

static void one_side_may_do_without(void)
{
    run((struct transfer){FLOATS, true, "device 0", ON, OFF});
    run((struct transfer){FLOATS, true, "device 0", OFF, ON});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"no_bit_is_lost", no_bit_is_lost},
        {"sizes_and_positions_may_be_any", sizes_and_positions_may_be_any},
        {"one_side_may_do_without", one_side_may_do_without},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
