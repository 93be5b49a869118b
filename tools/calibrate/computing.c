/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a collective loses to an application that computes beside it: one bucket, exchanged again
 * and again while all ranks do the same until most of it is over, sleep or spin. Raw, and by turns
 * with the codec that takes most of a core: progress, codec and application have the same cores
 * then. And what collectives lose to wake-ups.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "tools/bench/bench.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"

#define WAKE_TURNS_MIN 10
#define TURNS_MAX 60
#define WINDOW_NS (10 * WRING_NS_PER_MS) /* several turns of those who share a core */
#define EVERY_NS (100 * WRING_NS_PER_US) /* as tensors of models come */
#define FLOATS 4096                      /* that a turn adds up: half of a first cache */

/** The thread that computes. */
struct worker {
    pthread_t thread;
    sem_t go; /* it sleeps between windows: naps would take more of the core than one thinks */
    atomic_bool wanted, stop;
    _Atomic uint64_t spins;
    float data[FLOATS];
};

/** What a window came to. */
struct window {
    double spins_per_ns; /* of all ranks */
    double processors;   /* that all ranks' threads had */
    double ns;           /* it took */
    uint32_t woken;
};

/** What was found out, of so many turns. */
struct samples {
    uint32_t turns;
    double wake_us[TURNS_MAX];
    double core_share[TURNS_MAX];
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
        atomic_fetch_add_explicit(&worker->spins, 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t cpu_ns(const struct worker *worker)
{
    clockid_t clock;

    return pthread_getcpuclockid(worker->thread, &clock) == 0 ? wring_clock_ns(clock) : 0;
}

/** @return the sleeps, at least one: on a busy machine a window may be over before it begins */
static uint32_t pass_window(uint64_t until_ns, uint64_t every_ns)
{
    uint64_t now = wring_now_ns();
    uint32_t woken = 0;

    do {
        wring_sleep_until(now + every_ns < until_ns ? now + every_ns : until_ns);
        now = wring_now_ns();
        woken++;
    } while (now < until_ns);
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
    uint64_t began_ns = wring_now_ns(), spins = atomic_load(&worker->spins);
    uint64_t used_ns = cpu_ns(worker);
    out->woken = pass_window(began_ns + WINDOW_NS, every_ns);
    out->ns = (double)(wring_now_ns() - began_ns);
    double had[] = {(double)(atomic_load(&worker->spins) - spins) / out->ns,
                    (double)(cpu_ns(worker) - used_ns) / out->ns};
    atomic_store(&worker->wanted, false);
    if (status == WRING_OK)
        status = wring_allreduce(job->world, had, had, 2, WRING_F64, WRING_SUM, NULL, NULL);
    out->spins_per_ns = had[0];
    out->processors = had[1];
    return status;
}

/** Add this turn's samples: the computing time that one wake-up costs, as all ranks' mean, and the
 *  core share. The share is a rank's processor time beside the others, over rank 0's alone. */
static enum wring_status add_samples(struct wring_calibration *job, const struct window *alone,
                                     const struct window *asleep, const struct window *woken,
                                     struct samples *out)
{
    double lost = asleep->spins_per_ns > 0 ? 1 - woken->spins_per_ns / asleep->spins_per_ns : 0;
    double all = alone->processors * job->ranks;

    out->wake_us[out->turns] = lost * woken->ns / 1e3 / woken->woken;
    out->core_share[out->turns] = all > 0 ? asleep->processors / all : 1;
    double *mean_us = &out->wake_us[out->turns++];
    return wring_allreduce(job->world, mean_us, mean_us, 1, WRING_F64, WRING_AVG, NULL, NULL);
}

static enum wring_status wake_turn(struct wring_calibration *job, struct worker *worker,
                                   struct samples *out)
{
    struct window alone, asleep, woken;
    bool first = out->turns % 2 == 0;
    enum wring_status status = run_window(job, worker, job->rank == 0, WINDOW_NS, &alone);

    for (uint32_t i = 0; i < 2 && status == WRING_OK; i++)
        status = (i == 0) == first ? run_window(job, worker, true, WINDOW_NS, &asleep)
                                   : run_window(job, worker, true, EVERY_NS, &woken);
    return status == WRING_OK ? add_samples(job, &alone, &asleep, &woken, out) : status;
}

static enum wring_status wake_turns(struct wring_calibration *job, struct worker *worker,
                                    double seconds, struct samples *out)
{
    uint64_t deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    enum wring_status status = WRING_OK;
    bool more = true;

    while (more && out->turns < TURNS_MAX && status == WRING_OK) {
        wring_calibration_tell(job, "wake-ups beside computing: turn %u", out->turns + 1);
        status = wake_turn(job, worker, out);
        more = out->turns < WAKE_TURNS_MIN || wring_now_ns() < deadline_ns;
        if (status == WRING_OK)
            status = wring_calibration_agree(job, &more);
    }
    return status;
}

/** A rank without a worker would leave the others' windows unlike. Collective. */
static enum wring_status start_worker(struct wring_calibration *job, struct worker **out)
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

static void stop_worker(struct worker *worker)
{
    if (worker == NULL)
        return;
    atomic_store(&worker->stop, true);
    sem_post(&worker->go);
    pthread_join(worker->thread, NULL);
    sem_destroy(&worker->go);
    free(worker);
}

/** The median from 0 to most of some samples, which it sorts, and half of the interval in which it
 *  lies. */
static double middle_of(double *samples, uint32_t n, double most, double *doubt)
{
    struct wring_fit_point point = {0, samples, n};
    struct wring_fit_look look = wring_fit_look(&point);

    *doubt = wring_fit_half_interval(samples, n);
    return fmin(fmax(look.median, 0), most);
}

static void put_waking(struct samples *samples, struct wring_profile_computing *out)
{
    double unused;

    out->wake_us = middle_of(samples->wake_us, samples->turns, INFINITY, &out->wake_doubt_us);
    out->core_share =
        fmax(middle_of(samples->core_share, samples->turns, 1, &unused), WRING_CORE_SHARE_MIN);
    out->samples = out->samples < samples->turns ? out->samples : samples->turns;
}

enum wring_status wring_calibrate_waking(struct wring_calibration *job, double share,
                                         struct wring_profile *profile)
{
    struct samples samples = {0};
    struct worker *worker = NULL;

    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    enum wring_status status = start_worker(job, &worker);
    if (status == WRING_OK)
        status = wake_turns(job, worker, job->params->seconds * share, &samples);
    stop_worker(worker);
    if (status == WRING_OK && profile != NULL)
        put_waking(&samples, &profile->computing);
    return status;
}

/* ---- beside a collective ---- */

#define TURNS_MIN 5
#define LONG_US 10000.0      /* a collective to measure with takes so long, */
#define TOO_LONG_US 250000.0 /* and the next size would not take longer than that */
#define BUSY_ELEMS 1048576.0
#define PART 0.7 /* of a collective passes meanwhile */
#define WAIT_NS (120 * WRING_NS_PER_S)

enum meanwhile {
    ASLEEP,
    SPINNING,
    STATES
};

/** Buckets with a codec, or none. */
struct subject {
    char spec[WRING_CODEC_SPEC_MAX];
    struct wring_bucket *buckets[WRING_COLLECTIVE_BENCH_SIZES];
    uint32_t size;  /* in use */
    double solo_us; /* of that one, about */
    double spin_lost[TURNS_MAX];
};

struct bench {
    struct wring_calibration *job;
    float *source, *data;
    uint32_t sizes; /* there are */
    uint32_t n;     /* subjects; 1: no codec was measured */
    struct subject subjects[2];
    uint32_t turns;
};

/** What a core takes for a code of a bucket's elements, there and back. */
static double coding_us(const struct wring_profile_coding *coding)
{
    const struct wring_cost *back =
        wring_profile_decoding(&coding->decode_us, &coding->decode_add_us, true);

    return wring_cost_at(&coding->encode_us, BUSY_ELEMS) + wring_cost_at(back, BUSY_ELEMS);
}

/** Rank 0 knows what codecs take, and says it. @param spec  out, "" for none */
static enum wring_status choose_codec(struct wring_calibration *job,
                                      const struct wring_profile *profile, char *spec)
{
    double most_us = 0;

    for (size_t i = 0; profile != NULL && i < job->params->n_codecs; i++)
        for (uint32_t j = 0; j < profile->n_codecs; j++) {
            const struct wring_profile_codec *codec = &profile->codecs[j];
            double us = coding_us(&codec->at[WRING_SITE_CPU]);
            if (strcmp(codec->spec, job->params->codecs[i]) != 0 || us <= most_us)
                continue;
            most_us = us;
            memcpy(spec, codec->spec, WRING_CODEC_SPEC_MAX);
        }
    return wring_broadcast(job->world, spec, WRING_CODEC_SPEC_MAX, 0, NULL, NULL);
}

static enum wring_status register_buckets(struct bench *bench, uint32_t n)
{
    struct subject *subject = &bench->subjects[n];
    enum wring_status status = WRING_OK;

    for (uint32_t size = 0; size < bench->sizes && status == WRING_OK; size++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        char name[WRING_NAME_MAX];
        snprintf(name, sizeof(name), "calibrate.beside.%u.%u", n, size);
        params.name = name;
        params.data = bench->data;
        params.elems = wring_collective_bench_size(size);
        params.codec = subject->spec;
        status = wring_bucket_register(bench->job->session, &params, &subject->buckets[size]);
    }
    return status;
}

static enum wring_status prepare_bench(struct bench *bench, const struct wring_profile *profile)
{
    struct wring_session *session = bench->job->session;
    enum wring_status status = choose_codec(bench->job, profile, bench->subjects[1].spec);

    while (bench->sizes < WRING_COLLECTIVE_BENCH_SIZES &&
           (bench->sizes < 2 || wring_collective_bench_size(bench->sizes) <= bench->job->max_elems))
        bench->sizes++;
    uint64_t elems = wring_collective_bench_size(bench->sizes - 1);
    bench->source = malloc(elems * sizeof(float));
    bench->n = bench->subjects[1].spec[0] != '\0' ? 2 : 1;
    strcpy(bench->subjects[0].spec, "none");
    if (status == WRING_OK && bench->source == NULL)
        status = WRING_ERR_NO_MEMORY;
    if (status == WRING_OK)
        status = wring_buffer_alloc(session, elems * sizeof(float), (void **)&bench->data);
    if (status == WRING_OK)
        wring_pattern_fill(bench->source, elems, bench->job->rank);
    for (uint32_t n = 0; n < bench->n && status == WRING_OK; n++)
        status = register_buckets(bench, n);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static void pass_time(enum meanwhile how, uint64_t until_ns)
{
    if (how == ASLEEP && wring_now_ns() < until_ns)
        wring_sleep_until(until_ns);
    while (wring_now_ns() < until_ns)
        ;
}

/** @param part  of solo_us: 0 waits at once. @param us  out: the slowest rank's */
static enum wring_status run_bucket(struct bench *bench, struct subject *subject,
                                    enum meanwhile how, double part, double *us)
{
    struct wring_bucket *bucket = subject->buckets[subject->size];

    memcpy(bench->data, bench->source, wring_collective_bench_size(subject->size) * sizeof(float));
    enum wring_status status = wring_barrier(bench->job->world, NULL, NULL);
    uint64_t began = wring_now_ns();
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    pass_time(how, began + (uint64_t)(part * subject->solo_us * 1e3));
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    *us = (double)(wring_now_ns() - began) / 1e3;
    return status == WRING_OK ? wring_calibration_slowest(bench->job, us, 1) : status;
}

/** The first size that takes long enough; twice each, as the first time touches memory. */
static enum wring_status choose_size(struct bench *bench, struct subject *subject)
{
    enum wring_status status = WRING_OK;

    for (subject->size = 0; status == WRING_OK; subject->size++) {
        status = run_bucket(bench, subject, ASLEEP, 0, &subject->solo_us);
        if (status == WRING_OK)
            status = run_bucket(bench, subject, ASLEEP, 0, &subject->solo_us);
        if (subject->solo_us >= LONG_US || 4 * subject->solo_us > TOO_LONG_US ||
            subject->size + 1 == bench->sizes)
            return status;
    }
    return status;
}

static enum wring_status run_turn(struct bench *bench)
{
    enum wring_status status = WRING_OK;

    for (uint32_t n = 0; n < bench->n; n++) {
        struct subject *subject = &bench->subjects[n];
        double us[STATES];
        for (int how = 0; how < STATES && status == WRING_OK; how++)
            status = run_bucket(bench, subject, (enum meanwhile)how, PART, &us[how]);
        if (status != WRING_OK)
            return status;
        subject->spin_lost[bench->turns] = (us[SPINNING] - us[ASLEEP]) / (PART * subject->solo_us);
    }
    bench->turns++;
    return WRING_OK;
}

static enum wring_status run_turns(struct bench *bench, double seconds)
{
    uint64_t deadline_ns = wring_deadline_in((uint64_t)(seconds * 1e9));
    enum wring_status status = WRING_OK;
    bool more = true;

    while (more && bench->turns < TURNS_MAX && status == WRING_OK) {
        wring_calibration_tell(bench->job, "collectives beside computing: turn %u",
                               bench->turns + 1);
        status = run_turn(bench);
        more = bench->turns < TURNS_MIN || wring_now_ns() < deadline_ns;
        if (status == WRING_OK)
            status = wring_calibration_agree(bench->job, &more);
    }
    return status;
}

/** What was known of raw collectives stays; that of codecs may come later. */
static void put_computing(struct bench *bench, struct wring_profile_computing *out)
{
    if (!out->present) {
        *out = (struct wring_profile_computing){.present = true, .samples = bench->turns};
        out->spin_lost = middle_of(bench->subjects[0].spin_lost, bench->turns, 1, &out->spin_doubt);
    }
    if (bench->n == 1)
        return;
    memcpy(out->spin_codec, bench->subjects[1].spec, sizeof(out->spin_codec));
    out->spin_coded_lost =
        middle_of(bench->subjects[1].spin_lost, bench->turns, 1, &out->spin_coded_doubt);
}

enum wring_status wring_calibrate_computing(struct wring_calibration *job, double share,
                                            struct wring_profile *profile)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (bench == NULL)
        return WRING_ERR_NO_MEMORY;
    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end as soon as the system can */
    bench->job = job;
    enum wring_status status = prepare_bench(bench, profile);
    for (uint32_t n = 0; n < bench->n && status == WRING_OK; n++)
        status = choose_size(bench, &bench->subjects[n]);
    if (status == WRING_OK)
        status = run_turns(bench, job->params->seconds * share);
    if (status == WRING_OK && profile != NULL)
        put_computing(bench, &profile->computing);
    free(bench->source);
    free(bench);
    return status;
}
