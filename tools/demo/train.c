/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/files/tensor_trace.h"
#include "tools/commands.h"
#include "tools/demo/model.h"
#include "tools/demo/random.h"
#include "tools/output.h"

int demo_recording_init(struct demo_recording *recording, const uint64_t *elems, uint32_t steps)
{
    struct wring_gradients *gradients = &recording->gradients;

    *recording = (struct demo_recording){.gradients = {.n_tensors = DEMO_TENSORS,
                                                       .n_steps = 2 * DEMO_RECORDED_STEPS,
                                                       .tensors = recording->tensors,
                                                       .steps = recording->steps}};
    for (uint32_t i = 0; i < DEMO_RECORDED_STEPS; i++) {
        recording->steps[i] = steps / 4 + i;
        recording->steps[DEMO_RECORDED_STEPS + i] = steps - steps / 4 + i;
    }
    for (int t = 0; t < DEMO_TENSORS; t++) {
        recording->tensors[t] =
            (struct wring_gradients_tensor){.elems = elems[t],
                                            .n = wring_gradients_sampled(elems[t]),
                                            .begin = gradients->per_step};
        gradients->per_step += recording->tensors[t].n;
    }
    gradients->values = calloc(gradients->n_steps * gradients->per_step, sizeof(float));
    return gradients->values != NULL ? 0 : -1;
}

/** Keep a sample of a tensor's gradient, if it is one of the steps. */
static void recording_take(struct demo_recording *recording, uint32_t step, enum demo_tensor tensor,
                           const float *gradient)
{
    struct wring_gradients *gradients = &recording->gradients;
    uint32_t i = 0;

    while (i < gradients->n_steps && gradients->steps[i] != step)
        i++;
    if (i == gradients->n_steps)
        return;
    wring_gradients_sample(gradient, recording->tensors[tensor].elems,
                           gradients->values + i * gradients->per_step +
                               recording->tensors[tensor].begin);
}

/** A training that diverged has no gradients to measure with. */
static bool is_finite(const struct wring_gradients *gradients)
{
    for (uint64_t i = 0; i < gradients->n_steps * gradients->per_step; i++)
        if (!isfinite(gradients->values[i]))
            return false;
    return true;
}

static void describe_gradients(const struct demo_options *options, const struct demo_config *config,
                               char *text, size_t bytes)
{
    snprintf(text, bytes,
             "wring demo: what rank 0 of %u posts, momentum included, in %u steps of training with "
             "%s; batch %u, hidden %u, seed %llu",
             options->ranks, options->steps, config->name, options->batch, options->hidden,
             (unsigned long long)options->seed);
}

static bool save_gradients(FILE *file, void *arg)
{
    return wring_gradients_save(arg, file) == WRING_OK;
}

bool demo_recording_write(struct demo_recording *recording, const struct demo_options *options,
                          const struct demo_config *config)
{
    const char *path = options->record_gradients;
    char names[DEMO_TENSORS][32], source[256];

    if (!is_finite(&recording->gradients)) {
        wring_fail("wring demo", "%s is not written: the gradients are not finite", path);
        return false;
    }
    describe_gradients(options, config, source, sizeof(source));
    recording->gradients.source = source;
    for (int t = 0; t < DEMO_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", demo_tensor_names[t]);
        recording->tensors[t].name = names[t];
    }
    return wring_output_file("wring demo", path, save_gradients, &recording->gradients) ==
           WRING_EXIT_OK;
}

void demo_recording_finish(struct demo_recording *recording)
{
    free(recording->gradients.values);
    recording->gradients.values = NULL;
}

/* ---- training trace ---- */

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
    for (int t = 0; t < DEMO_TENSORS; t++)
        out->ready_us[t] = median_of(&steps->ready_us[t], n, sizeof(*steps));
}

static void describe_trace(const struct demo_results *results, char *text, size_t bytes)
{
    const struct demo_options *o = results->options;

    snprintf(
        text, bytes,
        "measured by wring demo: rank 0 of %u on one host, median of %u steps without allreduce; "
        "batch %u, hidden %u, momentum included",
        o->ranks, results->times_steps, o->batch, o->hidden);
}

/** To the nanosecond, which is what was measured. */
static double round_to_ns(double us)
{
    return round(us * 1e3) / 1e3;
}

static enum wring_status write_trace(const struct demo_results *results, FILE *file)
{
    struct wring_tensor tensors[DEMO_TENSORS];
    char names[DEMO_TENSORS][32], model[] = "wring demo", source[256];
    struct wring_tensor_trace trace = {.model = model,
                                       .source = source,
                                       .forward_us = round_to_ns(results->times.forward_us),
                                       .optimizer_us = round_to_ns(results->times.optimizer_us),
                                       .n = DEMO_TENSORS,
                                       .tensors = tensors};

    describe_trace(results, source, sizeof(source));
    for (int t = 0; t < DEMO_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", demo_tensor_names[t]);
        tensors[t] = (struct wring_tensor){names[t], results->elems[t],
                                           round_to_ns(results->times.ready_us[t])};
    }
    return wring_tensor_trace_save(&trace, file);
}

static bool save_trace(FILE *file, void *arg)
{
    return write_trace(arg, file) == WRING_OK;
}

bool demo_training_trace_write(const struct demo_results *results, const char *path)
{
    return wring_output_file("wring demo", path, save_trace, (void *)(uintptr_t)results) ==
           WRING_EXIT_OK;
}

/* ---- train ---- */

const struct demo_bucket demo_buckets[DEMO_BUCKETS] = {
    {"output.weight", true, 1, {DEMO_OUTPUT}},
    {"hidden2.weight", true, 1, {DEMO_HIDDEN2}},
    {"biases", false, 3, {DEMO_OUTPUT_BIAS, DEMO_HIDDEN2_BIAS, DEMO_HIDDEN1_BIAS}},
    {"hidden1.weight, embedding", true, 2, {DEMO_HIDDEN1, DEMO_EMBEDDING}},
};

/** The bucket that is complete once this tensor is, or -1. */
static int demo_bucket_completed_by(enum demo_tensor tensor)
{
    for (int b = 0; b < DEMO_BUCKETS; b++)
        if (demo_buckets[b].tensors[demo_buckets[b].n - 1] == tensor)
            return b;
    return -1;
}

static uint64_t demo_bucket_elems(const struct demo_bucket *bucket, const struct demo_model *model)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < bucket->n; i++)
        elems += model->elems[bucket->tensors[i]];
    return elems;
}

/** Point the gradients of the bucket's tensors into data, [demo_bucket_elems()]. */
static void demo_bucket_aim(const struct demo_bucket *bucket, struct demo_model *model, float *data)
{
    for (uint32_t i = 0; i < bucket->n; i++) {
        model->gradients[bucket->tensors[i]] = data;
        data += model->elems[bucket->tensors[i]];
    }
}

/* ---- batches ---- */

/** A sample: DEMO_CONTEXT bytes from `at` on, and the byte after them. */
static void take_sample(struct demo_model *model, uint32_t i, const uint8_t *text, uint64_t at)
{
    memcpy(model->context + (size_t)i * DEMO_CONTEXT, text + at, DEMO_CONTEXT);
    model->next[i] = text[at + DEMO_CONTEXT];
}

/** Fill the model's batch from random positions of this rank's part of the text. */
static void demo_batch_draw(const struct demo_run *run, struct demo_model *model, uint32_t step)
{
    const struct demo_corpus *corpus = run->corpus;
    uint64_t part = corpus->train_bytes / run->ranks;
    uint64_t key = demo_random(run->options->seed, 0x62617463680000 + run->rank);
    for (uint32_t i = 0; i < model->batch; i++) {
        uint64_t number = demo_random(key, (uint64_t)step * model->batch + i);
        take_sample(model, i, corpus->train + run->rank * part, number % (part - DEMO_CONTEXT - 1));
    }
}

/** Fill it with this rank's share of the held-out positions, which are the same in every run.
 *  @param number  of the batch */
static void demo_batch_held_out(const struct demo_run *run, struct demo_model *model,
                                uint32_t number)
{
    const struct demo_corpus *corpus = run->corpus;
    uint64_t key = demo_random(run->options->seed, 0x68656C64);

    for (uint32_t i = 0; i < model->batch; i++) {
        uint64_t n = ((uint64_t)number * run->ranks + run->rank) * model->batch + i;
        take_sample(model, i, corpus->held_out,
                    demo_random(key, n) % (corpus->held_out_bytes - DEMO_CONTEXT - 1));
    }
}

/* ---- train ---- */

#define RATE 0.1      /* at twice the rate, training with this momentum is barely stable */
#define RATE_END 0.05 /* share of it that is left at the last step */
#define MOMENTUM 0.9f
#define WARM_UP_STEPS 50
#define HELD_OUT_SAMPLES 4096 /* of all ranks together */
#define BLOCKS 9              /* of timed steps, whose median counts */
#define TIMELINES 32          /* steps kept, of which the median one is shown */

struct trainer {
    const struct demo_run *run;
    struct demo_model model;
    struct wring_session *session;
    struct wring_bucket *buckets[DEMO_BUCKETS];
    float *own_gradients[DEMO_BUCKETS]; /* without a session */
    atomic_bool settled;                /* the session is committed */
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

static int make_buckets(struct trainer *trainer)
{
    const struct demo_config *config = trainer->run->config;
    for (int b = 0; b < DEMO_BUCKETS; b++) {
        const struct demo_bucket *bucket = &demo_buckets[b];
        uint64_t elems = demo_bucket_elems(bucket, &trainer->model);
        void *data;
        enum wring_status status =
            wring_buffer_alloc(trainer->session, elems * sizeof(float), &data);
        if (status != WRING_OK)
            return fail_training(trainer, "buffer", status);
        demo_bucket_aim(bucket, &trainer->model, data);
        struct wring_bucket_params params = {
            .name = bucket->name,
            .data = data,
            .elems = elems,
            .op = WRING_AVG,
            .codec = bucket->compressed ? config->codec : "none",
            .scheme = bucket->compressed ? config->scheme : WRING_SCHEME_AUTO,
            .priority = b,
        };
        status = wring_bucket_register(trainer->session, &params, &trainer->buckets[b]);
        if (status != WRING_OK)
            return fail_training(trainer, "bucket", status);
    }
    enum wring_status status = wring_session_commit(trainer->session);
    if (status != WRING_OK)
        return fail_training(trainer, "commit", status);
    atomic_store(&trainer->settled, true);
    return 0;
}

static int begin_training(struct trainer *trainer)
{
    const struct demo_run *run = trainer->run;
    const struct demo_options *options = run->options;

    if (demo_model_init(&trainer->model, options->blas, options->batch, options->hidden,
                        options->seed) != 0)
        return fail_training(trainer, "model", WRING_ERR_NO_MEMORY);
    if (run->config != NULL) {
        trainer->session =
            demo_session_open(run->link != NULL ? "tcp" : "shm", run->link, &trainer->settled);
        return trainer->session != NULL ? make_buckets(trainer) : 1;
    }
    for (int b = 0; b < DEMO_BUCKETS; b++) {
        uint64_t elems = demo_bucket_elems(&demo_buckets[b], &trainer->model);
        float *data = trainer->own_gradients[b] = calloc(elems, sizeof(*data));
        if (data == NULL)
            return fail_training(trainer, "gradients", WRING_ERR_NO_MEMORY);
        demo_bucket_aim(&demo_buckets[b], &trainer->model, data);
    }
    return 0;
}

static void end_training(struct trainer *trainer)
{
    for (int b = 0; b < DEMO_BUCKETS; b++)
        free(trainer->own_gradients[b]);
    wring_session_close(trainer->session);
    demo_model_finish(&trainer->model);
}

/** Held-out loss over all ranks; each takes its share of the same positions in every run. */
static double evaluate_held_out(struct trainer *trainer)
{
    const struct demo_run *run = trainer->run;
    struct demo_model *model = &trainer->model;
    uint32_t batches = HELD_OUT_SAMPLES / run->ranks / model->batch + 1;
    float mean = 0;

    for (uint32_t b = 0; b < batches; b++) {
        demo_batch_held_out(run, model, b);
        mean += (float)(demo_model_forward(model, model->batch) / batches);
    }
    enum wring_status status = wring_allreduce(wring_session_world(trainer->session), &mean, &mean,
                                               1, WRING_F32, WRING_AVG, NULL, NULL);
    if (status != WRING_OK)
        trainer->failed = true;
    return (double)mean;
}

/** Momentum comes before the codec: after a biased one it would amplify what the codec left out. */
static void on_ready(void *arg, enum demo_tensor tensor)
{
    struct trainer *trainer = arg;
    int bucket = demo_bucket_completed_by(tensor);
    demo_model_momentum(&trainer->model, tensor, MOMENTUM);
    trainer->now_times.ready_us[tensor] =
        us_since(trainer->step_began_ns) - trainer->now.forward_us;
    if (trainer->run->recording != NULL)
        recording_take(trainer->run->recording, trainer->step, tensor,
                       trainer->model.gradients[tensor]);
    if (bucket < 0)
        return;
    trainer->now.buckets[bucket].ready_us = us_since(trainer->step_began_ns);
    if (trainer->session != NULL && wring_bucket_post(trainer->buckets[bucket]) != WRING_OK)
        trainer->failed = true;
}

static float rate_at(uint32_t step, uint32_t steps)
{
    double warm = step < WARM_UP_STEPS ? (step + 1.0) / WARM_UP_STEPS : 1;
    double cosine = 0.5 * (1 + cos(3.14159265358979 * step / steps));
    return (float)(RATE * warm * (RATE_END + (1 - RATE_END) * cosine));
}

static int run_step(struct trainer *trainer, uint32_t step)
{
    struct demo_timeline *now = &trainer->now;
    float rate = rate_at(step, trainer->run->options->steps);

    trainer->step = step;
    trainer->step_began_ns = wring_now_ns();
    demo_batch_draw(trainer->run, &trainer->model, step);
    demo_model_forward(&trainer->model, trainer->model.batch);
    now->forward_us = trainer->now_times.forward_us = us_since(trainer->step_began_ns);
    demo_model_backward(&trainer->model, on_ready, trainer);
    now->backward_us = us_since(trainer->step_began_ns);
    trainer->now_times.optimizer_us = 0;
    for (int b = 0; b < DEMO_BUCKETS; b++) {
        if (trainer->session != NULL) {
            enum wring_status status = wring_bucket_wait(trainer->buckets[b], WRING_FOREVER, NULL);
            if (status != WRING_OK || trainer->failed)
                return fail_training(trainer, "allreduce", status);
        }
        now->buckets[b].done_us = us_since(trainer->step_began_ns);
        for (uint32_t i = 0; i < demo_buckets[b].n; i++)
            demo_model_update(&trainer->model, demo_buckets[b].tensors[i], rate);
        trainer->now_times.optimizer_us +=
            us_since(trainer->step_began_ns) - now->buckets[b].done_us;
    }
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

static int run_steps(struct trainer *trainer, double *step_us, struct demo_run_result *out)
{
    const struct demo_run *run = trainer->run;
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;
    uint32_t timed = 0, evals = 0;
    uint64_t began_ns = 0;

    for (uint32_t step = 0; step < run->steps; step++) {
        if (run->evaluate && step == (uint64_t)evals * run->steps / DEMO_EVALS)
            out->losses[evals++] = evaluate_held_out(trainer);
        if (step == run->warm_steps) {
            if (trainer->session != NULL)
                wring_session_stats(trainer->session, &before);
            began_ns = wring_now_ns();
        }
        if (run_step(trainer, step) != 0)
            return 1;
        if (step >= run->warm_steps) {
            trainer->kept[timed % TIMELINES] = trainer->now;
            trainer->times[timed] = trainer->now_times;
            step_us[timed++] = trainer->now.step_us;
        }
        if (step + 1 == run->hash_step)
            out->hash = demo_model_hash(&trainer->model);
        if (run->progress != NULL)
            run->progress(run->progress_arg, step + 1, run->steps);
    }
    double wall_ns = (double)(wring_now_ns() - began_ns);
    if (trainer->session != NULL)
        wring_session_stats(trainer->session, &after);
    if (run->evaluate)
        out->losses[DEMO_EVALS] = evaluate_held_out(trainer);
    out->step_us = median_of_blocks(step_us, timed);
    out->wire_bytes = (double)(after.wire_bytes_sent - before.wire_bytes_sent) / timed;
    out->cpu_per_s = (double)(cpu_of(&after) - cpu_of(&before)) / wall_ns;
    times_median(trainer->times, timed, &out->times);
    out->timed_steps = timed;
    uint32_t kept = timed < TIMELINES ? timed : TIMELINES;
    qsort(trainer->kept, kept, sizeof(*trainer->kept), by_step_us);
    out->timeline = trainer->kept[kept / 2];
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
