/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs the demo consists of. Every rank makes them all in step. */
#include "tools/demo/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/demo/configs.h"
#include "tools/demo/curve.h"
#include "tools/demo/judge.h"
#include "tools/demo/session.h"
#include "tools/demo/store.h"
#include "tools/demo/task.h"
#include "tools/demo/train.h"

#define HASH_STEP 20 /* up to which the runs with and without the link must agree */
#define WARM_STEPS 20
#define LATE_SHARE 0.9 /* of the steps: then a run without a warm-up is in its last stage */
#define TURNS 5        /* of timing, in which all take turns: a busy machine then hits all alike */

struct show {
    bool terminal;
    char what[96];
};

static void show_progress(void *arg, uint32_t step, uint32_t steps)
{
    const struct show *show = arg;
    if (show->terminal && (step % 10 == 0 || step == steps))
        fprintf(stderr, "\r\033[K%s: step %u of %u", show->what, step, steps);
    if (show->terminal && step == steps)
        fprintf(stderr, "\r\033[K");
}

/** Mean over all ranks of some numbers, and whether all of them have the same hash. */
static enum wring_status combine_results(struct wring_session *session,
                                         struct demo_run_result *result, uint64_t hash, bool *same)
{
    float numbers[7] = {(float)result->step_us,         (float)result->wire_bytes,
                        (float)result->cpu_per_s,       0,
                        (float)result->late_wire_bytes, (float)result->coded_bytes,
                        (float)result->late_coded_bytes};
    uint64_t root_hash = hash;
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = wring_broadcast(world, &root_hash, sizeof(root_hash), 0, NULL, NULL);
    numbers[3] = root_hash != hash;
    if (status == WRING_OK)
        status = wring_allreduce(world, numbers, numbers, 7, WRING_F32, WRING_AVG, NULL, NULL);
    result->step_us = numbers[0];
    result->wire_bytes = numbers[1];
    result->cpu_per_s = numbers[2];
    result->late_wire_bytes = numbers[4];
    result->coded_bytes = numbers[5];
    result->late_coded_bytes = numbers[6];
    *same &= numbers[3] == 0;
    return status;
}

struct measuring {
    const struct demo_options *options;
    void *data;                    /* the task's */
    struct demo_store store;       /* of finished trainings, in rank 0 */
    struct wring_session *control; /* the ranks agree over it between runs */
    atomic_bool settled;           /* it is open */
    uint32_t rank, ranks;
    uint32_t turn; /* of the configurations, from 1 on: which one is trained */
    struct show show;
};

/** What tells one run from another. */
struct what {
    const struct demo_config *config; /* NULL: compute alone */
    const char *link;                 /* NULL: none */
    uint32_t steps, warmup;
    uint64_t seed;
    double rate;
    bool evaluate;
    struct demo_recording *recording;
};

static int run_training(struct measuring *m, const struct what *what, bool *same,
                        struct demo_run_result *result)
{
    struct demo_run run = {
        .options = m->options,
        .data = m->data,
        .config = what->config,
        .link = what->link,
        .control = m->control,
        .rank = m->rank,
        .ranks = m->ranks,
        .steps = what->steps,
        .late_step = what->warmup > 0 && what->warmup < what->steps
                         ? what->warmup
                         : (uint32_t)(what->steps * LATE_SHARE),
        .seed = what->seed,
        .optimizer = m->options->optimizer,
        .rate = what->rate,
        .evaluate = what->evaluate,
        .hash_step = what->config != NULL ? HASH_STEP : 0,
        .warm_steps = what->evaluate ? 0 : WARM_STEPS,
        .recording = what->recording,
        .progress = show_progress,
        .progress_arg = &m->show,
    };
    const char *name = what->config != NULL ? what->config->name : "compute";

    if (!what->evaluate && run.optimizer.warmup > WARM_STEPS)
        run.optimizer.warmup = WARM_STEPS; /* what is timed comes after it */

    if (what->evaluate)
        snprintf(m->show.what, sizeof(m->show.what), "%u of %u, %.40s, seed %lld, rate %.3g",
                 m->turn, m->options->n_configs, name, (long long)what->seed, what->rate);
    else
        snprintf(m->show.what, sizeof(m->show.what), "%.40s, %s", name,
                 what->link != NULL ? what->link : "alone");
    enum wring_status status = wring_barrier(wring_session_world(m->control), NULL, NULL);
    if (status == WRING_OK && demo_train(&run, result) != 0)
        return 1;
    if (status == WRING_OK)
        status = combine_results(m->control, result, result->hash, same);
    return status == WRING_OK ? 0 : demo_fail(m->control, m->rank, "between runs", status);
}

/* ---- losses ---- */

/** Hand rank 0's knowledge of a training to all. @return -1 after a line on standard error */
static int share_known(struct measuring *m, int32_t *known, struct demo_training *training)
{
    struct wring_group *world = wring_session_world(m->control);
    enum wring_status status = wring_broadcast(world, known, sizeof(*known), 0, NULL, NULL);
    if (status == WRING_OK && *known == 1)
        status = wring_broadcast(world, training, sizeof(*training), 0, NULL, NULL);
    return status == WRING_OK ? 0 : demo_fail(m->control, m->rank, "between runs", status);
}

#define TUNING_SEED 0 /* judges nothing; further ones count down from it, modulo 2^64 */

/** Steps at its begin in which a training sends more than later. */
static uint32_t warmup_of(const struct demo_options *options, const struct demo_config *config)
{
    uint32_t codec = demo_config_warmup(config), optimizer = options->optimizer.warmup;

    if (strcmp(config->codec, "none") == 0)
        return 0;
    return codec > optimizer ? codec : optimizer;
}

/**
 * Train, or take the training from the store.
 * @param recording  to be filled, which needs the training; NULL: none
 */
static int train(struct measuring *m, const struct demo_results *results,
                 const struct demo_config *config, double rate, uint64_t seed,
                 struct demo_recording *recording, struct demo_training *out, bool *same)
{
    const struct what what = {.config = config,
                              .steps = m->options->steps,
                              .warmup = warmup_of(m->options, config),
                              .seed = seed,
                              .rate = rate,
                              .evaluate = true,
                              .recording = recording};
    struct demo_run_result result;
    json_t *key = m->rank == 0 ? demo_store_key(results, config, rate, seed) : NULL;
    int32_t known = key != NULL && m->options->record_gradients[0] == '\0' &&
                    demo_store_find(&m->store, key, results->data_hash, out);
    int failed = share_known(m, &known, out);

    if (!failed && !known) {
        failed = run_training(m, &what, same, &result);
        if (!failed) {
            *out = (struct demo_training){.wire_bytes = result.wire_bytes,
                                          .late_wire_bytes = result.late_wire_bytes,
                                          .coded_bytes = result.coded_bytes,
                                          .late_coded_bytes = result.late_coded_bytes,
                                          .hash = result.hash};
            memcpy(out->losses, result.losses, sizeof(out->losses));
            out->last_loss = result.last_loss;
            failed = m->rank == 0 && !demo_store_add(&m->store, key, results->data_hash, out);
        }
    }
    json_decref(key);
    return failed;
}

#define TUNING_FACTOR 1024 /* the rate that is found is at most so many times another */

/** The mean last loss of trainings at that rate; infinity where one came to no number. */
static int loss_at(struct measuring *m, const struct demo_results *results,
                   const struct demo_config *config, double rate, double *loss, bool *same)
{
    double sum = 0;

    for (uint32_t i = 0; i < m->options->tuning_seeds && isfinite(sum); i++) {
        struct demo_training training;
        if (train(m, results, config, rate, TUNING_SEED - (uint64_t)i, NULL, &training, same) != 0)
            return 1;
        sum += isfinite(training.last_loss) ? training.last_loss : INFINITY;
    }
    *loss = sum / m->options->tuning_seeds;
    return 0;
}

/** Multiply the rate by the factor as long as that lowers the loss, or no loss is a number yet and
 *  the rate falls. */
static int climb(struct measuring *m, const struct demo_results *results,
                 const struct demo_config *config, double factor, double *rate, double *best,
                 bool *same)
{
    double limit = *rate * (factor > 1 ? TUNING_FACTOR : 1.0 / TUNING_FACTOR);

    while (*rate != limit) {
        double loss;
        if (loss_at(m, results, config, *rate * factor, &loss, same) != 0)
            return 1;
        bool diverges = factor < 1 && !isfinite(loss) && !isfinite(*best);
        if (!(loss < *best) && !diverges)
            return 0;
        *best = loss;
        *rate *= factor;
    }
    return 0;
}

/** Double the rate as long as that lowers the last loss of seeds that judge nothing; where the
 *  first time does not, halve it likewise. */
static int tune(struct measuring *m, const struct demo_results *results,
                const struct demo_config *config, double *rate, bool *same)
{
    double begin = *rate, best;

    if (loss_at(m, results, config, begin, &best, same) != 0 ||
        climb(m, results, config, 2, rate, &best, same) != 0)
        return 1;
    return *rate == begin ? climb(m, results, config, 0.5, rate, &best, same) : 0;
}

/** The negative control trains at fp32's rate: at another one it may lose too little to show what a
 *  loss looks like. */
static int choose_rate(struct measuring *m, const struct demo_results *results,
                       const struct demo_config *config, double *rate, bool *same)
{
    const struct demo_measure *fp32 = demo_measure_find(results, "fp32");

    if (fp32 == NULL || strcmp(config->name, DEMO_CONTROL) != 0)
        return tune(m, results, config, rate, same);
    *rate = fp32->rate;
    return 0;
}

static int measure_losses(struct measuring *m, const struct demo_results *results,
                          const struct demo_config *config, struct demo_recording *recording,
                          struct demo_measure *out)
{
    const struct demo_options *o = m->options;

    *out = (struct demo_measure){.config = config,
                                 .rate = o->rate * config->rate_factor,
                                 .warmup = warmup_of(o, config),
                                 .same_bits = true,
                                 .time_to_target_s = NAN};
    if (o->tuning_seeds > 0 && choose_rate(m, results, config, &out->rate, &out->same_bits) != 0)
        return 1;
    for (uint32_t s = 0; s < o->seeds; s++)
        if (train(m, results, config, out->rate, o->seed + s, s == 0 ? recording : NULL,
                  &out->trainings[s], &out->same_bits) != 0)
            return 1;
    demo_judge_mean(out, o->seeds);
    for (uint32_t s = 0; s < o->seeds; s++)
        out->wire_bytes += out->trainings[s].wire_bytes / o->seeds;
    return 0;
}

/** The first configuration's gradients are those that are recorded. */
static int measure_recorded(struct measuring *m, const struct demo_config *config,
                            struct demo_results *out)
{
    const struct demo_options *o = m->options;
    struct demo_recording recording;
    struct demo_measure *measure = &out->measures[out->n];

    if (m->rank >= o->record_ranks || o->record_gradients[0] == '\0' || out->n > 0)
        return measure_losses(m, out, config, NULL, measure);
    enum wring_status status = demo_recording_init(&recording, out->tensors, o->task->n_tensors,
                                                   o->steps, m->rank == 0 ? o->record_ranks : 1);
    if (status == WRING_ERR_INVALID)
        return 1; /* said */
    if (status != WRING_OK)
        return demo_fail(m->control, m->rank, "recorded gradients", status);
    int failed = measure_losses(m, out, config, &recording, measure);
    if (!failed)
        status = demo_recording_collect(&recording, m->control, o->record_ranks);
    if (status != WRING_OK)
        failed = demo_fail(m->control, m->rank, "recorded gradients", status);
    if (!failed && m->rank == 0)
        failed = !demo_recording_write(&recording, out, config);
    demo_recording_finish(&recording);
    return failed;
}

/* ---- times ---- */

static int by_step_us(const void *a, const void *b)
{
    const struct demo_run_result *x = a, *y = b;
    return (x->step_us > y->step_us) - (x->step_us < y->step_us);
}

/** The turn of median step time speaks for all. */
static const struct demo_run_result *median_turn(struct demo_run_result *turns)
{
    qsort(turns, TURNS, sizeof(*turns), by_step_us);
    return &turns[TURNS / 2];
}

static int time_turn(struct measuring *m, struct demo_results *out, uint32_t turn,
                     struct demo_run_result (*compute)[TURNS],
                     struct demo_run_result (*link)[TURNS])
{
    uint32_t steps = WARM_STEPS + (m->options->timed_steps + TURNS - 1) / TURNS;
    struct what what = {.steps = 3 * steps, .seed = m->options->seed, .rate = m->options->rate};
    bool same = true;

    if (run_training(m, &what, &same, &(*compute)[turn]) != 0)
        return 1;
    what.link = m->options->link;
    what.steps = steps; /* HASH_STEP or more */
    for (uint32_t i = 0; i < out->n; i++) {
        struct demo_measure *measure = &out->measures[i];
        what.config = measure->config;
        what.rate = measure->rate;
        if (run_training(m, &what, &measure->same_bits, &link[i][turn]) != 0)
            return 1;
        measure->same_bits &= link[i][turn].hash == measure->trainings[0].hash;
    }
    return 0;
}

static void take_times(struct measuring *m, struct demo_results *out,
                       struct demo_run_result *compute, struct demo_run_result (*link)[TURNS])
{
    double compute_us = median_turn(compute)->step_us;

    out->times = median_turn(compute)->times;
    out->times_steps = median_turn(compute)->timed_steps;
    for (uint32_t i = 0; i < out->n; i++) {
        const struct demo_run_result *median = median_turn(link[i]);
        out->measures[i].compute_us = compute_us;
        out->measures[i].step_us = median->step_us;
        out->measures[i].wire_bytes = median->wire_bytes;
        out->measures[i].cores = median->cpu_per_s * m->ranks;
        out->measures[i].timeline = median->timeline;
    }
}

/** Compute alone, then every configuration on the link, and that TURNS times. */
static int measure_times(struct measuring *m, struct demo_results *out)
{
    struct demo_run_result compute[TURNS];
    struct demo_run_result(*link)[TURNS] = calloc(out->n, sizeof(*link));
    int failed = link != NULL ? 0 : demo_fail(m->control, m->rank, "times", WRING_ERR_NO_MEMORY);

    for (uint32_t turn = 0; turn < TURNS && !failed; turn++)
        failed = time_turn(m, out, turn, &compute, link);
    if (!failed)
        take_times(m, out, compute, link);
    free(link);
    return failed;
}

/* ---- all ---- */

static void conclude_results(struct demo_results *results)
{
    const struct demo_options *o = results->options;
    const struct demo_measure *bf16 = demo_measure_find(results, "bf16");

    results->target_loss = isfinite(o->target_loss) ? o->target_loss
                           : bf16 != NULL           ? DEMO_SLACK * bf16->losses[DEMO_EVALS]
                                                    : NAN;
    for (uint32_t i = 0; i < results->n; i++) {
        struct demo_measure *m = &results->measures[i];
        m->time_to_target_s = demo_judge_time_s(
            results, m, demo_curve_steps_to(m->losses, o->steps, results->target_loss));
        m->bf16_loss_then = bf16 != NULL ? demo_curve_at(bf16->losses, o->steps,
                                                         o->steps * m->step_us / bf16->step_us)
                                         : NAN;
    }
}

static int measure_configs(struct measuring *m, struct demo_results *out)
{
    const struct demo_options *o = m->options;

    for (uint32_t i = 0; i < o->n_configs; i++) {
        m->turn = i + 1;
        if (measure_recorded(m, &o->configs[i], out) != 0)
            return 1;
        if (m->rank == 0 && o->results[0] != '\0') /* a long series */
            fprintf(stderr, "%u of %u, %s: rate %.3g, loss %.4f\n", m->turn, o->n_configs,
                    o->configs[i].name, out->measures[i].rate, out->measures[i].losses[DEMO_EVALS]);
        out->n++;
    }
    if (!o->losses_only && measure_times(m, out) != 0)
        return 1;
    conclude_results(out);
    return 0;
}

static void describe_task(const struct measuring *m, struct demo_results *out)
{
    struct demo_network shape = {.task = m->options->task, .hidden = m->options->hidden};

    m->options->task->describe(m->data, out->data, sizeof(out->data));
    if (m->rank == 0 && m->options->results[0] != '\0')
        out->data_hash = m->options->task->hash(m->data);
    m->options->task->shape(&shape);
    memcpy(out->tensors, shape.tensors, sizeof(out->tensors));
    out->parameters = demo_network_parameters(&shape);
    for (uint32_t b = 0; b < shape.task->n_buckets; b++)
        if (shape.task->buckets[b].compressed)
            out->coded_values += demo_network_bucket_elems(&shape, &shape.task->buckets[b]);
}

int demo_measure_all(const struct demo_options *options, struct demo_results *out)
{
    struct measuring m = {.options = options};

    *out = (struct demo_results){.options = options};
    if (options->task->load(options, &m.data) != 0)
        return 1;
    m.control = demo_session_open("shm", NULL, &m.settled);
    int failed = m.control == NULL;
    if (!failed) {
        atomic_store(&m.settled, true);
        m.rank = wring_session_rank(m.control);
        m.ranks = wring_session_size(m.control);
        m.show.terminal = m.rank == 0 && isatty(STDERR_FILENO);
        describe_task(&m, out);
        failed = m.rank == 0 && !demo_store_open(&m.store, options->results);
        failed = failed || measure_configs(&m, out);
    }
    wring_session_close(m.control);
    demo_store_close(&m.store);
    options->task->drop(m.data);
    return failed;
}
