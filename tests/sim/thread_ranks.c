/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hundreds of ranks for real, as threads of one process: thread_ranks RANKS PROVIDER BYTES. Their
 * sums are compared on all ranks. What it prints is no verdict: a machine with few cores is slow.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define STEPS 5
#define STACK_BYTES ((size_t)256 << 10)

struct job {
    uint32_t ranks;
    const char *provider;
    uint64_t elems;
    struct wring_bootstrap **ends;
    pthread_barrier_t all;
    double open_s, close_s, step_ms[STEPS];
    unsigned descriptors;
};

struct rank {
    struct job *job;
    uint32_t number;
    pthread_t thread;
};

static float contribution(uint32_t rank, uint64_t element)
{
    return (float)((rank * 7 + element * 13) % 31) - 15;
}

static float sum_of(uint32_t ranks, uint64_t element)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += contribution(rank, element);
    return sum;
}

static double seconds_since(uint64_t begin_ns)
{
    return (double)(wring_now_ns() - begin_ns) / 1e9;
}

/** @return false: a call failed */
static bool run_steps(struct rank *rank, struct wring_session *session, float *data)
{
    struct job *job = rank->job;
    struct wring_group *world = wring_session_world(session);

    for (unsigned step = 0; step < STEPS; step++) {
        for (uint64_t i = 0; i < job->elems; i++)
            data[i] = contribution(rank->number, i);
        pthread_barrier_wait(&job->all);
        uint64_t begin_ns = wring_now_ns();
        enum wring_status status =
            wring_allreduce(world, data, data, job->elems, WRING_F32, WRING_SUM, NULL, NULL);
        if (status == WRING_OK)
            status = wring_barrier(world, NULL, NULL);
        if (rank->number == 0)
            job->step_ms[step] = seconds_since(begin_ns) * 1e3;
        if (status != WRING_OK) {
            CHECK(status == WRING_OK, "rank %u, step %u: %s", rank->number, step,
                  wring_status_text(status));
            return false;
        }
        for (uint64_t i = 0; i < job->elems; i += job->elems / 64 + 1)
            CHECK(data[i] == sum_of(job->ranks, i), "rank %u, step %u, element %llu: %g",
                  rank->number, step, (unsigned long long)i, (double)data[i]);
    }
    return true;
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    struct job *job = rank->job;
    const char *const settings[] = {"WRING_PROGRESS=caller", "WRING_SPIN=0",
                                    "WRING_JOIN_TIMEOUT=300", NULL};
    const struct wring_session_params params = {
        .bootstrap = job->ends[rank->number], .settings = settings, .provider = job->provider};
    struct wring_session *session;
    uint64_t begin_ns = wring_now_ns();
    float *data = malloc(job->elems * sizeof(*data));
    enum wring_status status =
        data != NULL ? wring_session_open(&params, &session) : WRING_ERR_NO_MEMORY;

    if (status != WRING_OK) {
        fprintf(stderr, "rank %u: open: %s\n", rank->number, wring_status_text(status));
        exit(1); /* the others would wait */
    }
    pthread_barrier_wait(&job->all);
    if (rank->number == 0)
        job->open_s = seconds_since(begin_ns);
    if (!run_steps(rank, session, data))
        exit(1);
    if (pthread_barrier_wait(&job->all) == PTHREAD_BARRIER_SERIAL_THREAD)
        job->descriptors = wring_test_descriptors();
    pthread_barrier_wait(&job->all);
    begin_ns = wring_now_ns();
    wring_session_close(session);
    if (rank->number == 0)
        job->close_s = seconds_since(begin_ns);
    free(data);
    return NULL;
}

static void print(const struct job *job)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    printf("%u ranks over %s: open %.2f s, steps of %llu bytes with a barrier", job->ranks,
           job->provider, job->open_s, (unsigned long long)(job->elems * sizeof(float)));
    for (unsigned i = 0; i < STEPS; i++)
        printf(" %.1f", job->step_ms[i]);
    printf(" ms, close %.2f s; %u descriptors, %.0f KiB a rank; %.1f s of user and %.1f of system "
           "time\n",
           job->close_s, job->descriptors, (double)usage.ru_maxrss / job->ranks,
           (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6);
}

/** @return false: the system refuses it */
static bool run_threads(struct job *job, struct rank *ranks)
{
    pthread_attr_t attributes;
    uint32_t begun = 0;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; begun < job->ranks; begun++) {
        ranks[begun] = (struct rank){job, begun, 0};
        if (pthread_create(&ranks[begun].thread, &attributes, rank_main, &ranks[begun]) != 0)
            break;
    }
    pthread_attr_destroy(&attributes);
    if (begun < job->ranks)
        return false; /* the process ends with those that have begun */
    for (uint32_t i = 0; i < job->ranks; i++)
        pthread_join(ranks[i].thread, NULL);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[1]) < 1 || atoll(argv[3]) < 4) {
        fprintf(stderr, "usage: thread_ranks RANKS PROVIDER BYTES\n");
        return 2;
    }
    struct job job = {.ranks = (uint32_t)atoi(argv[1]),
                      .provider = argv[2],
                      .elems = (uint64_t)atoll(argv[3]) / sizeof(float)};
    struct rank *ranks = calloc(job.ranks, sizeof(*ranks));
    job.ends = calloc(job.ranks, sizeof(struct wring_bootstrap *));
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    if (ranks == NULL || job.ends == NULL ||
        wring_bootstrap_local_create(job.ranks, job.ends) != WRING_OK)
        return 1;
    pthread_barrier_init(&job.all, NULL, job.ranks);
    if (!run_threads(&job, ranks)) {
        fprintf(stderr, "not as many threads\n");
        return 1;
    }
    for (uint32_t i = 0; i < job.ranks; i++)
        job.ends[i]->ops->close(job.ends[i]);
    print(&job);
    pthread_barrier_destroy(&job.all);
    free(job.ends);
    free(ranks);
    return wring_test_failures() > 0;
}
