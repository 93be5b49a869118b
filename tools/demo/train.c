/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/demo/session.h"

/* ---- medians ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Of the doubles that lie `stride` bytes apart; the first of them without memory. */
static double median_of(const double *first, uint32_t n, size_t stride)
{
    double *sorted = malloc(n * sizeof(*sorted));
    double median = *first;

    if (sorted == NULL)
        return median;
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = *(const double *)((const char *)first + i * stride);
    qsort(sorted, n, sizeof(*sorted), by_value);
    median = sorted[n / 2];
    free(sorted);
    return median;
}

/**
 * The median of each time by itself. Tensors stay in order: what is never later in any step has no
 * later median.
 *
 * @param steps  in, [n]
 * @param n      1 or more
 */
static void times_median(const struct demo_times *steps, uint32_t n, struct demo_times *out)
{
    out->forward_us = median_of(&steps->forward_us, n, sizeof(*steps));
    out->optimizer_us = median_of(&steps->optimizer_us, n, sizeof(*steps));
    for (int t = 0; t < DEMO_TENSORS_MAX; t++)
        out->ready_us[t] = median_of(&steps->ready_us[t], n, sizeof(*steps));
}

/* ---- buckets ---- */

/** The bucket that is complete once this tensor is, or -1. */
static int bucket_completed_by(const struct demo_task *task, uint32_t tensor)
{
    for (uint32_t b = 0; b < task->n_buckets; b++)
        if (task->buckets[b].tensors[task->buckets[b].n - 1] == tensor)
            return (int)b;
    return -1;
}

/** Point the gradients of the bucket's tensors into data, [demo_network_bucket_elems()]. */
static void aim_bucket(const struct demo_bucket *bucket, struct demo_network *network, float *data)
{
    for (uint32_t i = 0; i < bucket->n; i++) {
        network->gradients[bucket->tensors[i]] = data;
        data += demo_network_elems(network, bucket->tensors[i]);
    }
}

/* ---- train ---- */

#define RATE_END 0.05 /* share of the rate that is left at the last step */
#define WARM_UP_STEPS 50
#define BLOCKS 9     /* of timed steps, whose median counts */
#define TIMELINES 32 /* steps kept, of which the median one is shown */

/** Buckets over the same gradients: those with the codec, and for an optimizer that warms up
 *  uncompressed, those without. */
enum {
    CODED,
    RAW,
    SETS
};

struct trainer {
    const struct demo_run *run;
    const struct demo_task *task;
    struct demo_network network;
    struct demo_optimizer optimizer;
    struct wring_session *session;
    bool codes_matrices; /* the codec does: then each tensor that takes it is a bucket of its own */
    /* Each bucket stands under the tensor that completes it. */
    struct wring_bucket *tensor_buckets[SETS][DEMO_TENSORS_MAX];
    float *own_gradients[DEMO_BUCKETS_MAX]; /* without a session */
    atomic_bool settled;                    /* the session is committed */
    uint32_t step;
    uint64_t step_began_ns;
    bool failed;
    struct demo_timeline now, kept[TIMELINES];
    struct demo_times now_times;
    struct demo_times *times; /* [steps] those of the timed ones */
};

static double us_since(uint64_t ns)
{
    return (double)(wring_now_ns() - ns) / 1e3;
}

static int fail_training(const struct trainer *trainer, const char *what, enum wring_status status)
{
    return demo_fail(trainer->session, trainer->run->rank, what, status);
}

static bool codes_matrices(const char *spec)
{
    struct wring_codec *codec;

    if (wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) != WRING_OK)
        return false; /* who registers a bucket is told why */
    bool matrices = wring_codec_info(codec)->flags & WRING_CODEC_MATRIX;
    wring_codec_destroy(codec);
    return matrices;
}

/** @param part  of bucket b of the task, or all of it */
static enum wring_status make_bucket(struct trainer *trainer, int set, uint32_t b,
                                     const struct demo_bucket *part)
{
    const struct demo_config *config = trainer->run->config;
    const struct demo_tensor *tensor = &trainer->network.tensors[part->tensors[0]];
    bool coded = part->compressed && set == CODED;
    char name[64];
    struct wring_bucket_params params = {
        .name = name,
        .data = trainer->network.gradients[part->tensors[0]],
        .elems = demo_network_bucket_elems(&trainer->network, part),
        .op = WRING_AVG,
        .codec = coded ? config->codec : "none",
        .scheme = coded ? config->scheme : WRING_SCHEME_AUTO,
        .priority = (int32_t)b,
    };

    snprintf(name, sizeof(name), "%s%s", part->name, set == RAW ? " (warm-up)" : "");
    if (part->n == 1) {
        params.shape.rows = tensor->rows;
        params.shape.columns = tensor->columns;
    }
    return wring_bucket_register(trainer->session, &params,
                                 &trainer->tensor_buckets[set][part->tensors[part->n - 1]]);
}

/** All of bucket b of the task, in one bucket or in one for each matrix. */
static enum wring_status make_parts(struct trainer *trainer, int set, uint32_t b)
{
    const struct demo_bucket *bucket = &trainer->task->buckets[b];
    enum wring_status status = WRING_OK;

    if (set == RAW || !bucket->compressed || !trainer->codes_matrices)
        return make_bucket(trainer, set, b, bucket);
    for (uint32_t i = 0; i < bucket->n && status == WRING_OK; i++) {
        uint32_t tensor = bucket->tensors[i];
        const struct demo_bucket part = {trainer->network.tensors[tensor].name, true, 1, {tensor}};
        status = make_bucket(trainer, set, b, &part);
    }
    return status;
}

static int make_buckets(struct trainer *trainer)
{
    bool warms_up = !demo_optimizer_compresses(&trainer->optimizer, 0);

    trainer->codes_matrices = codes_matrices(trainer->run->config->codec);
    for (uint32_t b = 0; b < trainer->task->n_buckets; b++) {
        const struct demo_bucket *bucket = &trainer->task->buckets[b];
        uint64_t elems = demo_network_bucket_elems(&trainer->network, bucket);
        void *data;
        enum wring_status status =
            wring_buffer_alloc(trainer->session, elems * sizeof(float), &data);
        if (status != WRING_OK)
            return fail_training(trainer, "buffer", status);
        aim_bucket(bucket, &trainer->network, data);
        status = make_parts(trainer, CODED, b);
        if (status == WRING_OK && warms_up)
            status = make_parts(trainer, RAW, b);
        if (status != WRING_OK)
            return fail_training(trainer, "bucket", status);
    }
    enum wring_status status = wring_session_commit(trainer->session);
    if (status != WRING_OK)
        return fail_training(trainer, "commit", status);
    atomic_store(&trainer->settled, true);
    return 0;
}

/** Over shared memory, peers read raw data in place, and bytes that are not sent are not counted.
 */
static const char *provider_of(const struct demo_run *run)
{
    bool sends_raw = strcmp(run->config->codec, "none") == 0 || run->optimizer.warmup > 0;
    return run->link != NULL || sends_raw ? "tcp" : "shm";
}

static int begin_training(struct trainer *trainer)
{
    const struct demo_run *run = trainer->run;
    const struct demo_options *options = run->options;

    if (demo_network_init(&trainer->network, trainer->task, options->blas, options->batch,
                          options->hidden, run->seed) != 0)
        return fail_training(trainer, "network", WRING_ERR_NO_MEMORY);
    if (demo_optimizer_init(&trainer->optimizer, &run->optimizer, &trainer->network) != 0)
        return fail_training(trainer, "optimizer", WRING_ERR_NO_MEMORY);
    if (run->config != NULL) {
        trainer->optimizer.momentum = !run->config->momentum;
        trainer->session = demo_session_open(provider_of(run), run->link, &trainer->settled);
        return trainer->session != NULL ? make_buckets(trainer) : 1;
    }
    for (uint32_t b = 0; b < trainer->task->n_buckets; b++) {
        const struct demo_bucket *bucket = &trainer->task->buckets[b];
        float *data = trainer->own_gradients[b] =
            demo_zeros(demo_network_bucket_elems(&trainer->network, bucket));
        if (data == NULL)
            return fail_training(trainer, "gradients", WRING_ERR_NO_MEMORY);
        aim_bucket(bucket, &trainer->network, data);
    }
    return 0;
}

static void end_training(struct trainer *trainer)
{
    for (int b = 0; b < DEMO_BUCKETS_MAX; b++)
        free(trainer->own_gradients[b]);
    wring_session_close(trainer->session);
    demo_optimizer_finish(&trainer->optimizer);
    demo_network_finish(&trainer->network);
}

/** Held-out loss over all ranks; each takes its share of the same positions in every run.
 *  @param samples  of all ranks together, from the first on */
static double evaluate_held_out(struct trainer *trainer, uint32_t samples)
{
    const struct demo_run *run = trainer->run;
    struct demo_network *network = &trainer->network;
    uint32_t batches = samples / run->ranks / network->batch + 1;
    float mean = 0;

    for (uint32_t b = 0; b < batches; b++) {
        const struct demo_draw draw = {run->seed, run->rank, run->ranks, b};
        trainer->task->draw_held_out(network, run->data, &draw);
        mean += (float)(trainer->task->forward(network) / batches);
    }
    enum wring_status status = wring_allreduce(wring_session_world(trainer->session), &mean, &mean,
                                               1, WRING_F32, WRING_AVG, NULL, NULL);
    if (status != WRING_OK)
        trainer->failed = true;
    return (double)mean;
}

/** The bucket that this tensor completes in this step, or NULL. */
static struct wring_bucket *bucket_now(struct trainer *trainer, uint32_t tensor)
{
    int set = demo_optimizer_compresses(&trainer->optimizer, trainer->step) ? CODED : RAW;
    return trainer->tensor_buckets[set][tensor];
}

static void on_ready(void *arg, uint32_t tensor)
{
    struct trainer *trainer = arg;
    struct wring_bucket *exchanged = bucket_now(trainer, tensor);
    int bucket = bucket_completed_by(trainer->task, tensor);

    demo_optimizer_prepare(&trainer->optimizer, &trainer->network, tensor, trainer->step);
    trainer->now_times.ready_us[tensor] =
        us_since(trainer->step_began_ns) - trainer->now.forward_us;
    if (trainer->run->recording != NULL)
        demo_recording_take(trainer->run->recording, trainer->step, tensor,
                            trainer->network.gradients[tensor]);
    if (bucket >= 0)
        trainer->now.buckets[bucket].ready_us = us_since(trainer->step_began_ns);
    if (exchanged != NULL && wring_bucket_post(exchanged) != WRING_OK)
        trainer->failed = true;
}

static float rate_at(double rate, uint32_t step, uint32_t steps)
{
    double warm = step < WARM_UP_STEPS ? (step + 1.0) / WARM_UP_STEPS : 1;
    double cosine = 0.5 * (1 + cos(3.14159265358979 * step / steps));
    return (float)(rate * warm * (RATE_END + (1 - RATE_END) * cosine));
}

static int finish_bucket(struct trainer *trainer, uint32_t b, float rate)
{
    const struct demo_bucket *bucket = &trainer->task->buckets[b];
    struct demo_timeline *now = &trainer->now;

    for (uint32_t i = 0; i < bucket->n; i++) {
        struct wring_bucket *exchanged = bucket_now(trainer, bucket->tensors[i]);
        enum wring_status status =
            exchanged != NULL ? wring_bucket_wait(exchanged, WRING_FOREVER, NULL) : WRING_OK;
        if (status != WRING_OK || trainer->failed)
            return fail_training(trainer, "allreduce", status);
    }
    now->buckets[b].done_us = us_since(trainer->step_began_ns);
    for (uint32_t i = 0; i < bucket->n; i++)
        demo_optimizer_update(&trainer->optimizer, &trainer->network, bucket->tensors[i],
                              trainer->step, rate);
    trainer->now_times.optimizer_us += us_since(trainer->step_began_ns) - now->buckets[b].done_us;
    return 0;
}

static int run_step(struct trainer *trainer, uint32_t step)
{
    const struct demo_run *run = trainer->run;
    const struct demo_draw draw = {run->seed, run->rank, run->ranks, step};
    struct demo_timeline *now = &trainer->now;
    float rate = rate_at(run->rate, step, run->options->steps);

    trainer->step = step;
    trainer->step_began_ns = wring_now_ns();
    trainer->task->draw(&trainer->network, run->data, &draw);
    trainer->task->forward(&trainer->network);
    now->forward_us = trainer->now_times.forward_us = us_since(trainer->step_began_ns);
    trainer->task->backward(&trainer->network, on_ready, trainer);
    now->backward_us = us_since(trainer->step_began_ns);
    trainer->now_times.optimizer_us = 0;
    for (uint32_t b = 0; b < trainer->task->n_buckets; b++)
        if (finish_bucket(trainer, b, rate) != 0)
            return 1;
    now->step_us = us_since(trainer->step_began_ns);
    return 0;
}

static int by_step_us(const void *a, const void *b)
{
    const struct demo_timeline *x = a, *y = b;
    return (x->step_us > y->step_us) - (x->step_us < y->step_us);
}

/** Mean step of each block of timed steps; their median is the step time. */
static double median_of_blocks(const double *step_us, uint32_t n)
{
    double means[BLOCKS] = {0};
    uint32_t blocks = n < BLOCKS ? n : BLOCKS;
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t first = b * n / blocks, last = (b + 1) * n / blocks;
        for (uint32_t i = first; i < last; i++)
            means[b] += step_us[i] / (last - first);
    }
    qsort(means, blocks, sizeof(*means), by_value);
    return means[blocks / 2];
}

static uint64_t cpu_of(const struct wring_session_stats *stats)
{
    return stats->progress_cpu_ns + stats->waiter_cpu_ns + stats->executor_cpu_ns;
}

/** What a run has used up so far. */
struct used {
    struct wring_session_stats session;
    uint64_t coded_bytes; /* sent for buckets that are compressed */
};

static uint64_t bytes_of(struct wring_bucket *bucket)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;

    return bucket != NULL && wring_bucket_stats(bucket, &stats) == WRING_OK ? stats.wire_bytes_sent
                                                                            : 0;
}

/** Between two steps. */
static struct used used_by(const struct trainer *trainer)
{
    struct used used = {.session = WRING_SESSION_STATS_INIT};

    if (trainer->session == NULL)
        return used;
    wring_session_stats(trainer->session, &used.session);
    for (uint32_t b = 0; b < trainer->task->n_buckets; b++) {
        const struct demo_bucket *bucket = &trainer->task->buckets[b];
        for (uint32_t i = 0; i < bucket->n && bucket->compressed; i++)
            for (int set = 0; set < SETS; set++)
                used.coded_bytes += bytes_of(trainer->tensor_buckets[set][bucket->tensors[i]]);
    }
    return used;
}

static void count_bytes(const struct used *from, const struct used *to, uint32_t steps,
                        double *wire_bytes, double *coded_bytes)
{
    *wire_bytes = (double)(to->session.wire_bytes_sent - from->session.wire_bytes_sent) / steps;
    *coded_bytes = (double)(to->coded_bytes - from->coded_bytes) / steps;
}

/** What a run has come to, besides its losses. */
static void conclude_run(struct trainer *trainer, double *step_us, uint32_t timed,
                         struct demo_run_result *out)
{
    uint32_t kept = timed < TIMELINES ? timed : TIMELINES;

    out->step_us = median_of_blocks(step_us, timed);
    times_median(trainer->times, timed, &out->times);
    out->timed_steps = timed;
    qsort(trainer->kept, kept, sizeof(*trainer->kept), by_step_us);
    out->timeline = trainer->kept[kept / 2];
}

static int run_steps(struct trainer *trainer, double *step_us, struct demo_run_result *out)
{
    const struct demo_run *run = trainer->run;
    struct used before = {.session = WRING_SESSION_STATS_INIT}, late = before;
    uint32_t timed = 0, evals = 0, curve = trainer->task->curve(run->data),
             held_out = trainer->task->held_out(run->data);
    uint64_t began_ns = 0;

    for (uint32_t step = 0; step < run->steps; step++) {
        if (run->evaluate && step == (uint64_t)evals * run->steps / DEMO_EVALS)
            out->losses[evals++] = evaluate_held_out(trainer, curve);
        if (step == run->warm_steps) {
            before = used_by(trainer);
            began_ns = wring_now_ns();
        }
        if (step == run->late_step)
            late = used_by(trainer);
        if (run_step(trainer, step) != 0)
            return 1;
        if (step >= run->warm_steps) {
            trainer->kept[timed % TIMELINES] = trainer->now;
            trainer->times[timed] = trainer->now_times;
            step_us[timed++] = trainer->now.step_us;
        }
        if (step + 1 == run->hash_step)
            out->hash = demo_network_hash(&trainer->network);
        if (run->progress != NULL)
            run->progress(run->progress_arg, step + 1, run->steps);
    }
    double wall_ns = (double)(wring_now_ns() - began_ns);
    struct used after = used_by(trainer);
    if (run->evaluate) {
        out->losses[DEMO_EVALS] = out->last_loss = evaluate_held_out(trainer, curve);
        if (held_out > curve)
            out->last_loss = evaluate_held_out(trainer, held_out);
    }
    count_bytes(&before, &after, timed, &out->wire_bytes, &out->coded_bytes);
    count_bytes(&late, &after, run->steps - run->late_step, &out->late_wire_bytes,
                &out->late_coded_bytes);
    out->cpu_per_s = (double)(cpu_of(&after.session) - cpu_of(&before.session)) / wall_ns;
    conclude_run(trainer, step_us, timed, out);
    if (!trainer->failed)
        return 0;
    struct wring_error_detail detail = {.status = WRING_ERR_CLOSED};
    wring_session_error(trainer->session, &detail);
    return fail_training(trainer, "held-out loss", detail.status);
}

/**
 * A rank that has all of the last step may still have parts of it to send. So no rank closes the
 * run's session before all are through.
 */
static int wait_for_all(const struct trainer *trainer)
{
    const struct demo_run *run = trainer->run;
    enum wring_status status = wring_barrier(wring_session_world(run->control), NULL, NULL);
    return status == WRING_OK ? 0 : demo_fail(run->control, run->rank, "end of a run", status);
}

int demo_train(const struct demo_run *run, struct demo_run_result *out)
{
    struct trainer *trainer = calloc(1, sizeof(*trainer));
    double *step_us = calloc(run->steps, sizeof(*step_us));
    int failed = 1;

    *out = (struct demo_run_result){0};
    if (trainer != NULL)
        trainer->times = calloc(run->steps, sizeof(*trainer->times));
    if (trainer != NULL && trainer->times != NULL && step_us != NULL) {
        trainer->run = run;
        trainer->task = run->options->task;
        failed =
            begin_training(trainer) || run_steps(trainer, step_us, out) || wait_for_all(trainer);
        end_training(trainer);
    }
    free(step_us);
    if (trainer != NULL)
        free(trainer->times);
    free(trainer);
    return failed;
}
