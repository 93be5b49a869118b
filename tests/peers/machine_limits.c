/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What this machine allows, beside which compare.py puts what wring and its peers reach.
 *
 *     machine_limits copy THREADS BYTES...
 *     machine_limits line
 *     machine_limits handover yield|futex|pipe
 *     machine_limits sockets BYTES...
 *
 * copy: GB/s that so many threads copy at once with memcpy, all together. line: us that a cache
 * line takes from one core to another. handover: us in which one process gives its core to another,
 * in one of three ways. sockets: us in which two processes exchange so much over
 * loopback, out of and into their caches.
 *
 * Prints a line "BYTES VALUE" for each size, 0 for those of line and handover; medians.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/peers/machine_handover.h"
#include "tools/bench/bench.h"

#define SECONDS 0.15
#define COUNT_MIN 5
#define COUNT_MAX 2000
#define LARGE_PAGE (2ul << 20)
#define THREADS_MAX 64
#define TRIPS 2000
/* Streams are to go on at whole lines: some kernels copy many times as slowly to a place a few
 * bytes further into its page than where it comes from. */
#define LINE_DOUBLES 8
#define PIECE_BYTES (256ul << 10) /* that a socket is asked for at a time */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static char *allocate(size_t bytes)
{
    size_t whole = (bytes + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    char *data = aligned_alloc(LARGE_PAGE, whole);

    if (data == NULL)
        die("aligned_alloc");
    madvise(data, whole, MADV_HUGEPAGE); /* or small pages, where there are no others */
    memset(data, 1, whole);
    return data;
}

static int count_for(double us)
{
    double fit = SECONDS * 1e6 / (us > 0.1 ? us : 0.1);
    return fit < COUNT_MIN ? COUNT_MIN : fit > COUNT_MAX ? COUNT_MAX : (int)fit;
}

/** Move this thread to one of the cores that it may use; where there are fewer, they share. */
static void pin(int index)
{
    cpu_set_t usable, one;

    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        die("sched_getaffinity");
    index %= CPU_COUNT(&usable);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &usable) || index-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
        return;
    }
}

/* ---- copying ---------------------------------------------------------------------------- */

struct copy {
    pthread_barrier_t barrier;
    size_t bytes;
    int threads, count;
    double *us; /* [threads][COUNT_MAX] */
};

struct copier {
    struct copy *copy;
    int index;
};

static double copy_once(struct copy *copy, char *to, const char *from)
{
    pthread_barrier_wait(&copy->barrier);
    uint64_t begin = wring_now_ns();
    memcpy(to, from, copy->bytes);
    __asm__ volatile("" ::"r"(to) : "memory"); /* it is read, for all the compiler knows */
    return (double)(wring_now_ns() - begin) / 1e3;
}

static void *copy_many(void *arg)
{
    const struct copier *copier = arg;
    struct copy *copy = copier->copy;

    pin(copier->index);
    char *to = allocate(copy->bytes), *from = allocate(copy->bytes);
    copy_once(copy, to, from);
    double warm = copy_once(copy, to, from);
    if (copier->index == 0)
        copy->count = count_for(warm);
    pthread_barrier_wait(&copy->barrier);
    for (int i = 0; i < copy->count; i++)
        copy->us[copier->index * COUNT_MAX + i] = copy_once(copy, to, from);
    free(to);
    free(from);
    return NULL;
}

/** @return GB/s of all threads together, each copy as long as its slowest */
static double copy_speed(int threads, size_t bytes)
{
    struct copy copy = {.bytes = bytes, .threads = threads};
    struct copier copiers[THREADS_MAX];
    pthread_t handles[THREADS_MAX];

    copy.us = calloc((size_t)threads * COUNT_MAX, sizeof(*copy.us));
    if (copy.us == NULL)
        die("calloc");
    pthread_barrier_init(&copy.barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        copiers[i] = (struct copier){&copy, i};
        if (pthread_create(&handles[i], NULL, copy_many, &copiers[i]) != 0)
            die("pthread_create");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (int at = copy.count; at < threads * COUNT_MAX; at++)
        if (at % COUNT_MAX < copy.count && copy.us[at] > copy.us[at % COUNT_MAX])
            copy.us[at % COUNT_MAX] = copy.us[at];
    double median = wring_spread_of(copy.us, (size_t)copy.count).median;
    pthread_barrier_destroy(&copy.barrier);
    free(copy.us);
    return (double)bytes * threads / median / 1e3;
}

/* ---- a cache line ------------------------------------------------------------------------ */

static void wait_for(atomic_int *line, int value)
{
    for (unsigned spins = 0; atomic_load_explicit(line, memory_order_acquire) != value; spins++)
        if (spins % 65536 == 65535)
            sched_yield(); /* a machine of one core */
}

static void *answer(void *arg)
{
    atomic_int *line = arg;

    pin(1);
    for (int trip = 0; trip < TRIPS; trip++) {
        wait_for(line, 2 * trip + 1);
        atomic_store_explicit(line, 2 * trip + 2, memory_order_release);
    }
    return NULL;
}

/** @return us of half a round trip */
static double line_time(void)
{
    static _Alignas(128) atomic_int line;
    static double us[TRIPS];
    pthread_t other;

    if (pthread_create(&other, NULL, answer, &line) != 0)
        die("pthread_create");
    pin(0); /* not before, as the other would inherit that */
    for (int trip = 0; trip < TRIPS; trip++) {
        uint64_t begin = wring_now_ns();
        atomic_store_explicit(&line, 2 * trip + 1, memory_order_release);
        wait_for(&line, 2 * trip + 2);
        us[trip] = (double)(wring_now_ns() - begin) / 2e3;
    }
    pthread_join(other, NULL);
    return wring_spread_of(us, TRIPS).median;
}

/* ---- sockets ----------------------------------------------------------------------------- */

/** Two ends of a connection over loopback. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    /* as wring, and from the start: nothing paces them, nor ever did */
    setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    setsockopt(ends[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0 ||
        connect(ends[0], (struct sockaddr *)&address, bytes) != 0)
        die("sockets");
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static size_t moved(ssize_t result)
{
    if (result > 0)
        return (size_t)result;
    if (result == 0 || (errno != EAGAIN && errno != EINTR))
        die("a socket");
    return 0;
}

static size_t at_most(size_t left, size_t limit)
{
    return left < limit ? left : limit;
}

/**
 * Send and receive so much at once, always the same piece of memory.
 * @param piece  bytes that the socket is handed at a time @return us
 */
static double swap(int end, const char *from, char *to, size_t bytes, size_t piece)
{
    uint64_t begin = wring_now_ns();

    for (size_t sent = 0, got = 0; sent < bytes || got < bytes;) {
        if (sent < bytes)
            sent += moved(send(end, from, at_most(bytes - sent, piece), MSG_DONTWAIT));
        if (got < bytes)
            got += moved(recv(end, to, at_most(bytes - got, PIECE_BYTES), MSG_DONTWAIT));
    }
    return (double)(wring_now_ns() - begin) / 1e3;
}

/** One side of all swaps of a size. @return the median time in us */
static double swap_many(int end, size_t bytes, size_t piece)
{
    char *from = allocate(at_most(bytes, piece)), *to = allocate(at_most(bytes, PIECE_BYTES));
    double *us = calloc(COUNT_MAX, sizeof(*us));
    double mine[LINE_DOUBLES] = {0}, theirs[LINE_DOUBLES]; /* [0] counts */

    if (us == NULL)
        die("calloc");
    swap(end, from, to, bytes, piece);
    mine[0] = swap(end, from, to, bytes, piece);
    swap(end, (char *)mine, (char *)theirs, sizeof(mine), sizeof(mine)); /* both go on as often */
    int count = count_for(mine[0] > theirs[0] ? mine[0] : theirs[0]);
    for (int i = 0; i < count; i++)
        us[i] = swap(end, from, to, bytes, piece);
    double median = wring_spread_of(us, (size_t)count).median;
    free(from);
    free(to);
    free(us);
    return median;
}

static int measure_sockets(int n, char **sizes)
{
    int ends[2], status = 0;

    connect_pair(ends);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    int me = child == 0;
    close(ends[!me]);
    pin(me);
    for (int i = 0; i < n; i++) {
        size_t bytes = strtoull(sizes[i], NULL, 10);
        double us = swap_many(ends[me], bytes, PIECE_BYTES);
        double large = swap_many(ends[me], bytes, 4 * PIECE_BYTES); /* less, up to 4 MiB */
        us = large < us ? large : us;
        if (!me)
            printf("%s %.3f\n", sizes[i], us);
    }
    if (me)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "copy") == 0) {
        int threads = atoi(argv[2]);
        for (int i = 3; i < argc && threads > 0 && threads <= THREADS_MAX; i++)
            printf("%s %.3f\n", argv[i], copy_speed(threads, strtoull(argv[i], NULL, 10)));
        return threads > 0 && threads <= THREADS_MAX ? 0 : 2;
    }
    if (argc == 2 && strcmp(argv[1], "line") == 0) {
        printf("0 %.4f\n", line_time());
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "handover") == 0) {
        double us = handover_time(argv[2]);
        printf("0 %.4f\n", us);
        return us > 0 ? 0 : 2;
    }
    if (argc > 2 && strcmp(argv[1], "sockets") == 0)
        return measure_sockets(argc - 2, argv + 2);
    fprintf(stderr, "needs: copy THREADS BYTES... | line | handover HOW | sockets BYTES...\n");
    return 2;
}
