/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How fast a plugin moves messages from one process to another, as NCCL pipelines them: 8 in
 * flight, the receiver's posted ahead.
 *
 *     nccl_p2p PLUGIN auto|v12|v11|v8 [NAME=VALUE...] BYTES SECONDS [FILE]
 *
 * Messages hold what FILE has, again and again; without one they hold noise.
 *
 * Prints one JSON object: bytes, messages, seconds, gb_per_s (1e9 bytes a second). The receiver's
 * clock counts, from the end of the first message to that of the last one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/nccl/rig.h"

struct measured {
    size_t bytes;
    uint64_t for_ns;
    const char *file; /* of what they hold; NULL: noise */
};

struct window {
    void *requests[PLUGIN_STEPS];
    uint64_t posted, ended;
};

/** Post one more where there is room. */
static bool post(struct rig *rig, void *comm, struct window *window, unsigned char *data,
                 size_t bytes, size_t length, void *region)
{
    uint64_t at = window->posted % PLUGIN_STEPS;
    void *slot = data + at * bytes, **request = &window->requests[at];
    int tag = 0, result;

    if (window->posted - window->ended == PLUGIN_STEPS)
        return false;
    *request = NULL;
    if (rig->me.rank == 0)
        result = plugin_isend(rig->plugin, comm, slot, length, tag, region, request);
    else
        result = plugin_irecv(rig->plugin, comm, 1, &slot, &bytes, &tag, &region, request);
    MUST(result == PLUGIN_OK, "posting: %d", result);
    window->posted += *request != NULL;
    return *request != NULL;
}

static bool finish_oldest(struct rig *rig, struct window *window, int *size)
{
    int done = 0;

    if (window->posted == window->ended)
        return false;
    int result =
        plugin_test(rig->plugin, window->requests[window->ended % PLUGIN_STEPS], &done, size);
    MUST(result == PLUGIN_OK, "test: %d", result);
    window->ended += done != 0;
    return done != 0;
}

/** The sender ends with a message of zero bytes, once the time is over. */
static void send_all(struct rig *rig, void *comm, const struct measured *what, unsigned char *data,
                     void *region)
{
    struct window window = {.posted = 0};
    uint64_t until_ns = wring_now_ns() + what->for_ns;
    bool last = false;
    int size;

    while (!last || window.ended < window.posted) {
        bool over = wring_now_ns() > until_ns, moved = false;
        if (!last && post(rig, comm, &window, data, what->bytes, over ? 0 : what->bytes, region)) {
            last = over;
            moved = true;
        }
        moved |= finish_oldest(rig, &window, &size);
        world_moved(); /* NCCL's proxy never sleeps */
        if (!moved)
            world_turn("a message to leave");
    }
}

static void receive_all(struct rig *rig, void *comm, const struct measured *what,
                        unsigned char *data, void *region)
{
    struct window window = {.posted = 0};
    uint64_t first_ns = 0, last_ns = 0, messages = 0;
    int size = 1;

    while (size != 0) {
        bool moved = post(rig, comm, &window, data, what->bytes, what->bytes, region);
        if (finish_oldest(rig, &window, &size)) {
            last_ns = size > 0 ? wring_now_ns() : last_ns;
            first_ns = first_ns == 0 ? last_ns : first_ns;
            messages += size > 0;
            moved = true;
        } else {
            size = 1;
        }
        world_moved();
        if (!moved)
            world_turn("a message to come");
    }
    double seconds = (double)(last_ns - first_ns) / 1e9;
    MUST(messages > 1, "%" PRIu64 " messages are too few to be timed", messages);
    printf("{\"bytes\": %zu, \"messages\": %" PRIu64 ", \"seconds\": %.6f, \"gb_per_s\": %.4f}\n",
           what->bytes, messages, seconds, (double)((messages - 1) * what->bytes) / 1e9 / seconds);
}

/** Fill a buffer with a file, from its beginning again at its end. */
static void fill_from(const char *name, unsigned char *data, size_t bytes)
{
    FILE *file = fopen(name, "re");
    size_t has = file != NULL ? fread(data, 1, bytes, file) : 0;

    MUST(has > 0, "%s cannot be read, or is empty", name);
    fclose(file);
    for (size_t at = has; at < bytes; at++)
        data[at] = data[at - has];
}

static void measure(const struct world_rank *me, void *arg)
{
    const struct measured *what = arg;
    struct rig_link link = {.from = 0, .to = 1};
    struct rig rig;
    unsigned char *data = malloc(PLUGIN_STEPS * what->bytes);

    if (data == NULL)
        abort();
    rig_begin(&rig, me);
    rig_connect(&rig, &link, 1);
    void *comm = me->rank == 0 ? link.send : link.receive;
    void *region = rig_register(&rig, comm, data, PLUGIN_STEPS * what->bytes);
    if (what->file != NULL)
        fill_from(what->file, data, PLUGIN_STEPS * what->bytes);
    else
        rig_fill(data, PLUGIN_STEPS * what->bytes, me->rank);
    if (me->rank == 0)
        send_all(&rig, comm, what, data, region);
    else
        receive_all(&rig, comm, what, data, region);
    world_meet(); /* receives that are posted ahead get no message any more */
    rig_deregister(&rig, comm, region);
    rig_disconnect(&rig, &link, 1);
    rig_end(&rig);
    free(data);
}

int main(int argc, char **argv)
{
    struct measured what;
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0 || argc - taken < 3 || argc - taken > 4) {
        fputs("nccl_p2p PLUGIN VERSION [NAME=VALUE...] BYTES SECONDS [FILE]\n", stderr);
        return 2;
    }
    what.bytes = strtoull(argv[taken + 1], NULL, 10);
    what.for_ns = (uint64_t)(strtod(argv[taken + 2], NULL) * 1e9);
    what.file = argc - taken == 4 ? argv[taken + 3] : NULL;
    world_run(&(struct world_job){.size = 2, .run = measure, .arg = &what});
    return wring_test_failures() == 0 ? 0 : 1;
}
