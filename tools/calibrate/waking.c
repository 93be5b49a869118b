/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Measures the computing that a wake-up of the application costs. A thread of each rank computes
 * beside one that sleeps through a whole window, or is woken as often as gradients come. The work
 * of all ranks' threads is compared between windows that follow each other, since other load
 * changes more slowly. Exchanges would not do: their times differ by more than wake-ups cost.
 *
 * In a third window rank 0 computes alone. Its processor time against that in company tells whether
 * ranks share processors. The work done would not tell. If processors are threads of one core it is
 * less in company, and the processor time of exchanges includes that already.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

#define ROUNDS_MIN 10
#define ROUNDS_MAX 60
#define WINDOW_NS (10 * WRING_NS_PER_MS) /* several turns of those who share a core */
#define EVERY_NS (100 * WRING_NS_PER_US) /* as tensors of models come */
#define FLOATS 4096                      /* that a turn adds up: half of a first cache */

/** The thread that computes. */
struct worker {
    pthread_t thread;
    sem_t go; /* it sleeps between windows: naps would take more of the core than one thinks */
    atomic_bool wanted, stop;
    _Atomic uint64_t turns;
    float data[FLOATS];
};

/** What a window came to. */
struct window {
    double turns_per_ns; /* of all ranks */
    double processors;   /* that all ranks' threads had */
    double ns;           /* it took */
    uint32_t woken;
};

/** What was found out, of so many rounds. */
struct samples {
    uint32_t rounds;
    double wake_us[ROUNDS_MAX];
    double core_share[ROUNDS_MAX];
};

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->stop)) {
        if (!atomic_load(&worker->wanted)) {
            sem_wait(&worker->go);
            continue;
        }
        for (uint32_t i = 0; i < FLOATS; i++)
            worker->data[i] = worker->data[i] * 0.5f + 1;
        atomic_fetch_add_explicit(&worker->turns, 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t cpu_ns(const struct worker *worker)
{
    clockid_t clock;

    return pthread_getcpuclockid(worker->thread, &clock) == 0 ? wring_clock_ns(clock) : 0;
}

static uint32_t pass_window(uint64_t until_ns, uint64_t every_ns)
{
    uint32_t woken = 0;

    for (uint64_t now = wring_now_ns(); now < until_ns; now = wring_now_ns()) {
        wring_sleep_until(until_ns - now < every_ns ? until_ns : now + every_ns);
        woken++;
    }
    return woken;
}

/** All ranks together. @param works  this rank's thread does */
static enum wring_status run_window(struct wring_calibration *job, struct worker *worker,
                                    bool works, uint64_t every_ns, struct window *out)
{
    atomic_store(&worker->wanted, works);
    if (works)
        sem_post(&worker->go);
    enum wring_status status = wring_barrier(job->world, NULL, NULL);
    uint64_t began_ns = wring_now_ns(), turns = atomic_load(&worker->turns);
    uint64_t used_ns = cpu_ns(worker);
    out->woken = pass_window(began_ns + WINDOW_NS, every_ns);
    out->ns = (double)(wring_now_ns() - began_ns);
    double had[] = {(double)(atomic_load(&worker->turns) - turns) / out->ns,
                    (double)(cpu_ns(worker) - used_ns) / out->ns};
    atomic_store(&worker->wanted, false);
    if (status == WRING_OK)
        status = wring_allreduce(job->world, had, had, 2, WRING_F64, WRING_SUM, NULL, NULL);
    out->turns_per_ns = had[0];
    out->processors = had[1];
    return status;
}

/** Add this round's samples: the computing time that one wake-up costs, as all ranks' mean, and the
 *  core share. The share is a rank's processor time beside the others, over rank 0's alone. */
static enum wring_status take(struct wring_calibration *job, const struct window *alone,
                              const struct window *asleep, const struct window *woken,
                              struct samples *out)
{
    double lost = asleep->turns_per_ns > 0 ? 1 - woken->turns_per_ns / asleep->turns_per_ns : 0;
    double all = alone->processors * job->ranks;

    out->wake_us[out->rounds] = lost * woken->ns / 1e3 / woken->woken;
    out->core_share[out->rounds] = all > 0 ? asleep->processors / all : 1;
    double *mean_us = &out->wake_us[out->rounds++];
    return wring_allreduce(job->world, mean_us, mean_us, 1, WRING_F64, WRING_AVG, NULL, NULL);
}

static enum wring_status run_round(struct wring_calibration *job, struct worker *worker,
                                   struct samples *out)
{
    struct window alone, asleep, woken;
    bool first = out->rounds % 2 == 0;
    enum wring_status status = run_window(job, worker, job->rank == 0, WINDOW_NS, &alone);

    for (uint32_t i = 0; i < 2 && status == WRING_OK; i++)
        status = (i == 0) == first ? run_window(job, worker, true, WINDOW_NS, &asleep)
                                   : run_window(job, worker, true, EVERY_NS, &woken);
    return status == WRING_OK ? take(job, &alone, &asleep, &woken, out) : status;
}

static enum wring_status run_rounds(struct wring_calibration *job, struct worker *worker,
                                    double seconds, struct samples *out)
{
    uint64_t deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    enum wring_status status = WRING_OK;
    bool more = true;

    while (more && out->rounds < ROUNDS_MAX && status == WRING_OK) {
        wring_calibration_tell(job, "wake-ups beside computing: round %u", out->rounds + 1);
        status = run_round(job, worker, out);
        more = out->rounds < ROUNDS_MIN || wring_now_ns() < deadline_ns;
        if (status == WRING_OK)
            status = wring_calibration_agree(job, &more);
    }
    return status;
}

/** A rank without a worker would leave the others' windows unlike. Collective. */
static enum wring_status start(struct wring_calibration *job, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    double failed = worker == NULL || sem_init(&worker->go, 0, 0) != 0;
    if (failed == 0)
        failed = (errno = wring_thread_create(&worker->thread, worker_main, worker)) != 0;
    bool mine = failed == 0;
    if (!mine)
        wring_fail(job->params->name, "no thread that computes: %s",
                   WRING_REFUSED("pthread_create"));

    enum wring_status status = wring_calibration_slowest(job, &failed, 1);
    if (status == WRING_OK && failed != 0)
        status = WRING_ERR_SYSTEM;
    if (mine)
        *out = worker;
    else
        free(worker);
    return status;
}

static void finish(struct worker *worker)
{
    if (worker == NULL)
        return;
    atomic_store(&worker->stop, true);
    sem_post(&worker->go);
    pthread_join(worker->thread, NULL);
    sem_destroy(&worker->go);
    free(worker);
}

static void put(struct samples *samples, struct wring_profile_computing *out)
{
    double unused;

    out->wake_us =
        wring_calibrate_middle(samples->wake_us, samples->rounds, INFINITY, &out->wake_doubt_us);
    out->core_share = wring_calibrate_middle(samples->core_share, samples->rounds, 1, &unused);
    out->samples = out->samples < samples->rounds ? out->samples : samples->rounds;
}

enum wring_status wring_calibrate_waking(struct wring_calibration *job, double share,
                                         struct wring_profile *profile)
{
    struct samples samples = {0};
    struct worker *worker = NULL;

    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    enum wring_status status = start(job, &worker);
    if (status == WRING_OK)
        status = run_rounds(job, worker, job->params->seconds * share, &samples);
    finish(worker);
    if (status == WRING_OK && profile != NULL)
        put(&samples, &profile->computing);
    return status;
}
