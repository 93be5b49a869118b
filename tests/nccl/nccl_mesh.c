/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a plugin's connections cost: each rank connects to each other one, both ways.
 *
 *     nccl_mesh PLUGIN auto|v12|v11|v8 [NAME=VALUE...] RANKS ROUNDTRIPS
 *
 * Prints one JSON object: ranks; threads and rss_kib, the largest of a rank's, those of its own
 * included; before_kib, the same before it connects; connect_ms, until the last rank has all its
 * connections; roundtrip_us, the median of 8 bytes from rank 0 to rank 1 and back, while all
 * connections are there and the others sleep.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/nccl/rig.h"

#define SPINS 16 /* NCCL gives its core away as often as nothing has moved */

struct cost { /* of a rank, on its board behind the handles */
    uint64_t threads, rss_kib, before_kib, connect_ns;
};

static struct cost *cost_of(uint32_t rank)
{
    return (struct cost *)((unsigned char *)world_board(rank) + WORLD_BOARD - sizeof(struct cost));
}

static uint64_t rss_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size, resident;

    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2)
        abort();
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint32_t make_links(uint32_t ranks, struct rig_link *links)
{
    uint32_t n = 0;

    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            if (from != to)
                links[n++] = (struct rig_link){.from = from, .to = to};
    return n;
}

static const struct rig_link *find(const struct rig_link *links, uint32_t from, uint32_t to)
{
    while (links->from != from || links->to != to)
        links++;
    return links;
}

static void await(struct rig *rig, void *request)
{
    unsigned tries = 0;
    int done = 0;

    world_moved();
    while (done == 0) {
        MUST(plugin_test(rig->plugin, request, &done, NULL) == PLUGIN_OK, "test");
        if (++tries % SPINS == 0) /* the peer may need this core */
            world_turn("8 bytes");
    }
}

static int compare(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/** @return the median of all, in nanoseconds */
static uint64_t go_back_and_forth(struct rig *rig, const struct rig_link *links, unsigned times)
{
    uint32_t me = rig->me.rank, peer = 1 - me;
    void *send = find(links, me, peer)->send, *receive = find(links, peer, me)->receive;
    uint64_t data[2] = {0}, *took = calloc(times, sizeof(*took));
    void *from = rig_register(rig, send, data, 8), *to = rig_register(rig, receive, data + 1, 8);

    if (took == NULL)
        abort();
    for (unsigned i = 0; i < times; i++) {
        uint64_t began = wring_now_ns();
        void *in = rig_receive(rig, receive, data + 1, 8, 0, to), *out = NULL;
        if (me == 0)
            out = rig_send(rig, send, data, 8, 0, from);
        await(rig, in);
        if (me == 1)
            out = rig_send(rig, send, data, 8, 0, from);
        await(rig, out);
        took[i] = wring_now_ns() - began;
    }
    qsort(took, times, sizeof(*took), compare);
    uint64_t median = took[times / 2];
    free(took);
    rig_deregister(rig, send, from);
    rig_deregister(rig, receive, to);
    return median;
}

static void tell(uint32_t ranks, uint64_t roundtrip_ns)
{
    struct cost most = {0};

    for (uint32_t i = 0; i < ranks; i++) {
        const struct cost *one = cost_of(i);
        most.threads = one->threads > most.threads ? one->threads : most.threads;
        most.rss_kib = one->rss_kib > most.rss_kib ? one->rss_kib : most.rss_kib;
        most.before_kib = one->before_kib > most.before_kib ? one->before_kib : most.before_kib;
        most.connect_ns = one->connect_ns > most.connect_ns ? one->connect_ns : most.connect_ns;
    }
    printf("{\"ranks\": %u, \"threads\": %lu, \"rss_kib\": %lu, \"before_kib\": %lu, "
           "\"connect_ms\": %.3f, \"roundtrip_us\": %.3f}\n",
           ranks, most.threads, most.rss_kib, most.before_kib, (double)most.connect_ns / 1e6,
           (double)roundtrip_ns / 1e3);
}

static void measure(const struct world_rank *me, void *arg)
{
    static struct rig_link links[RIG_LINKS_MAX];
    static struct rig_meeting meeting;
    unsigned times = *(const unsigned *)arg;
    uint64_t roundtrip_ns = 0;
    struct rig rig;

    rig_begin(&rig, me);
    uint32_t n = make_links(me->size, links);
    rig_listen(&rig, links, n, &meeting);
    world_meet();
    struct cost *own = cost_of(me->rank);
    own->before_kib = rss_kib();
    uint64_t began = wring_now_ns();
    rig_join(&rig, links, 0, n, &meeting);
    own->connect_ns = wring_now_ns() - began;
    world_meet();
    own->threads = rig_count_threads();
    if (me->rank < 2)
        roundtrip_ns = go_back_and_forth(&rig, links, times);
    own->rss_kib = rss_kib();
    world_meet();
    if (me->rank == 0)
        tell(me->size, roundtrip_ns);
    rig_disconnect(&rig, links, n);
    rig_end(&rig);
}

int main(int argc, char **argv)
{
    int taken = rig_take_arguments(argc, argv);
    unsigned long ranks, times;

    if (taken == 0 || argc - taken != 3 || (ranks = strtoul(argv[taken + 1], NULL, 10)) < 2 ||
        ranks > WORLD_MAX || (times = strtoul(argv[taken + 2], NULL, 10)) < 1) {
        fputs("nccl_mesh PLUGIN VERSION [NAME=VALUE...] RANKS ROUNDTRIPS\n", stderr);
        return 2;
    }
    unsigned roundtrips = (unsigned)times;
    world_run(&(struct world_job){.size = (uint32_t)ranks, .run = measure, .arg = &roundtrips});
    return wring_test_failures() == 0 ? 0 : 1;
}
