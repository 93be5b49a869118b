/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/peers/peer_method.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tools/bench/bench.h"

#define SHIFTS 4096 /* inputs of successive calls: the same numbers, shifted so far */
#define ITERATIONS_MIN 5
#define ITERATIONS_MAX 10000
#define LARGE_PAGE (2ul << 20)

struct bench {
    const struct peer *peer;
    float *source;   /* [elems + SHIFTS] this rank's numbers */
    float *in, *out; /* [elems]; the same in place */
    uint64_t elems, calls;
};

static float *allocate(bool large, uint64_t elems)
{
    size_t bytes = (elems * sizeof(float) + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    float *data = large ? aligned_alloc(LARGE_PAGE, bytes) : malloc(bytes);

    if (data == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    if (large)
        madvise(data, bytes, MADV_HUGEPAGE); /* or small pages, where there are no others */
    memset(data, 0, bytes);
    return data;
}

static uint64_t shift_of(const struct bench *bench)
{
    return bench->calls * 61 % SHIFTS;
}

/** @return this rank's time in us */
static double timed_call(struct bench *bench)
{
    const struct peer *peer = bench->peer;

    bench->calls++;
    memcpy(bench->in, bench->source + shift_of(bench), bench->elems * sizeof(float));
    peer->ops->barrier(peer->arg);
    uint64_t begin = wring_now_ns();
    peer->ops->run(peer->arg);
    return (double)(wring_now_ns() - begin) / 1e3;
}

/** Elements of this rank's last result that are off. */
static double count_wrong(const struct bench *bench)
{
    double wrong = 0;

    for (uint64_t i = 0; i < bench->elems; i++) {
        double sum = 0;
        for (int rank = 0; rank < bench->peer->ranks; rank++)
            sum += (double)wring_pattern((uint32_t)rank, i + shift_of(bench));
        wrong += bench->out[i] != (float)sum;
    }
    return wrong;
}

/** The same on every rank, as all of them take the slowest warm-up's time. */
static int choose_iterations(const struct peer *peer, double seconds, double warm_us)
{
    peer->ops->max(peer->arg, &warm_us, 1);
    double fit = seconds * 1e6 / (warm_us > 1 ? warm_us : 1);
    int count = fit > ITERATIONS_MAX ? ITERATIONS_MAX : (int)fit;

    return count < ITERATIONS_MIN ? ITERATIONS_MIN : count;
}

static void measure(struct bench *bench, double seconds)
{
    const struct peer *peer = bench->peer;

    timed_call(bench);
    double wrong = count_wrong(bench);
    int n = choose_iterations(peer, seconds, timed_call(bench));
    double *times = calloc((size_t)n, sizeof(*times));
    if (times == NULL)
        exit(1);
    for (int i = 0; i < n; i++)
        times[i] = timed_call(bench);
    peer->ops->max(peer->arg, times, n);
    wrong += count_wrong(bench);
    peer->ops->max(peer->arg, &wrong, 1);
    struct wring_spread spread = wring_spread_of(times, (size_t)n);
    if (peer->rank == 0)
        printf("%llu %.3f %.3f %.3f %.0f\n", (unsigned long long)bench->elems * sizeof(float),
               spread.min, spread.median, spread.p99, wrong);
    free(times);
}

int peer_measure(const struct peer *peer, int argc, char **argv)
{
    bool apart = false, large = false;
    int at = 0;

    for (; at < argc && argv[at][0] == '-'; at++) {
        apart = apart || strcmp(argv[at], "-o") == 0;
        large = large || strcmp(argv[at], "-l") == 0;
    }
    if (argc < at + 2) {
        fprintf(stderr, "needs: [-o] [-l] SECONDS BYTES...\n");
        return 2;
    }
    for (int i = at + 1; i < argc; i++) {
        struct bench bench = {.peer = peer, .elems = strtoull(argv[i], NULL, 10) / sizeof(float)};
        bench.source = allocate(large, bench.elems + SHIFTS);
        bench.in = allocate(large, bench.elems);
        bench.out = apart ? allocate(large, bench.elems) : bench.in;
        wring_pattern_fill(bench.source, bench.elems + SHIFTS, (uint32_t)peer->rank);
        peer->ops->prepare(peer->arg, bench.in, bench.out, bench.elems);
        measure(&bench, atof(argv[at]));
        peer->ops->prepare(peer->arg, NULL, NULL, 0);
        if (apart)
            free(bench.out);
        free(bench.in);
        free(bench.source);
    }
    return 0;
}
