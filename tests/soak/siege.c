/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/siege.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"
#include "tests/soak/strangers.h"

#define RANKS 4
#define ELEMS 16384
#define PEACE_S 5
#define AT_ONCE 100 /* connections to each door before the next door's turn */
#define STEPS_MAX 4000000u
#define DEADLINE_S 600
#define GOING_ON UINT32_MAX

enum phase {
    PEACE,
    SIEGE,
    PHASES
};

/** What all processes see. */
struct shared {
    atomic_uint phase, last; /* step; GOING_ON: not known yet */
    atomic_bool enough;
    uint32_t n[PHASES];
    uint32_t ns[PHASES][STEPS_MAX]; /* of steps, by rank 0 */
};

static struct shared *shared;
static uint64_t wanted, came, spread_ns;

/** Rank 0 says which step is the last, one step before, in which all take part. */
static bool goes_on(uint32_t rank, uint32_t step)
{
    if (rank == 0 && atomic_load(&shared->enough) && atomic_load(&shared->last) == GOING_ON)
        atomic_store(&shared->last, step + 1);
    return step <= atomic_load(&shared->last);
}

static void note_step(uint64_t took_ns)
{
    unsigned phase = atomic_load(&shared->phase);
    if (shared->n[phase] < STEPS_MAX)
        shared->ns[phase][shared->n[phase]++] =
            took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
}

static bool is_right(const float *data, uint32_t step)
{
    for (uint32_t i = 0; i < ELEMS; i++)
        if (data[i] != (float)(RANKS * (step % 100 + i % 10) + 6))
            return false;
    return true;
}

static int sum_on(struct procs_rank *rank, struct wring_session *session)
{
    float *data;
    enum wring_status status = wring_buffer_alloc(session, ELEMS * sizeof(*data), (void **)&data);

    for (uint32_t step = 0; status == WRING_OK && goes_on(rank->rank, step); step++) {
        for (uint32_t i = 0; i < ELEMS; i++)
            data[i] = (float)(step % 100 + i % 10 + rank->rank);
        uint64_t began_ns = wring_now_ns();
        status = wring_allreduce(wring_session_world(session), data, data, ELEMS, WRING_F32,
                                 WRING_SUM, NULL, NULL);
        if (rank->rank == 0)
            note_step(wring_now_ns() - began_ns);
        if (status == WRING_OK && !is_right(data, step)) {
            procs_say(rank, "step %" PRIu32 ": a wrong sum", step);
            return 2;
        }
    }
    if (status != WRING_OK)
        procs_say_end(rank, session, status);
    return status == WRING_OK ? 0 : 1;
}

static int rank_main(struct procs_rank *rank, void *arg)
{
    const char *const settings[] = {arg, NULL};
    struct wring_session *session;

    rank->params.settings = settings;
    rank->params.log = NULL; /* a line for each stranger would be all that is read */
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 3;
    int code = sum_on(rank, session);
    wring_session_close(session);
    return code;
}

static void besiege(const struct procs_job *job)
{
    uint32_t seed = 1;

    sleep(PEACE_S);
    uint64_t began_ns = wring_now_ns();
    uint64_t until_ns = began_ns + spread_ns + DEADLINE_S / 2 * WRING_NS_PER_S;
    atomic_store(&shared->phase, SIEGE);
    while (came < wanted && wring_now_ns() < until_ns) {
        unsigned n = strangers_pester(job->pids, RANKS, AT_ONCE, seed++);
        came += n;
        if (n == 0)
            break; /* nobody listens any more */
        double due_ns = (double)spread_ns * (double)came / (double)wanted;
        while ((double)(wring_now_ns() - began_ns) < due_ns)
            usleep(1000);
    }
    atomic_store(&shared->enough, true);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void say_phase(const char *name, uint32_t *ns, uint32_t n)
{
    qsort(ns, n, sizeof(*ns), compare);
    if (n > 0)
        printf("soak: %s: %" PRIu32 " steps, median %.1f us, a quarter below %.1f and above %.1f\n",
               name, n, ns[n / 2] / 1e3, ns[n / 4] / 1e3, ns[n - n / 4 - 1] / 1e3);
}

int siege_run(const char *provider, uint64_t connections, uint64_t minutes)
{
    char setting[64];
    struct procs_job *job = calloc(1, sizeof(*job));

    snprintf(setting, sizeof(setting), "WRING_PROVIDER=%s", provider);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || job == NULL)
        return 1;
    atomic_store(&shared->last, GOING_ON);
    wanted = connections;
    spread_ns = minutes * 60 * WRING_NS_PER_S;
    *job = (struct procs_job){.ranks = RANKS, .arg = setting, .run = rank_main, .meddle = besiege};
    CHECK(procs_run(job, DEADLINE_S + (unsigned)(minutes * 60)), "a rank is not through in time");
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(job->codes[i] == 0, "rank %u ended with %d, and said:\n%s", i, job->codes[i],
              job->texts[i]);
    CHECK(came >= wanted, "only %" PRIu64 " strangers came", came);
    say_phase("alone", shared->ns[PEACE], shared->n[PEACE]);
    say_phase("besieged", shared->ns[SIEGE], shared->n[SIEGE]);
    printf("soak: %" PRIu64 " strangers came to %d ranks over %s\n", came, RANKS, provider);
    munmap(shared, sizeof(*shared));
    free(job);
    return wring_test_failures() > 0;
}
