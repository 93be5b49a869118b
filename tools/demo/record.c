/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/tensor_trace.h"
#include "tools/commands.h"
#include "tools/demo/task.h"
#include "tools/output.h"

enum wring_status demo_recording_init(struct demo_recording *recording,
                                      const struct demo_tensor *tensors, uint32_t n, uint32_t steps,
                                      uint32_t ranks)
{
    struct wring_gradients *gradients = &recording->gradients;

    *recording = (struct demo_recording){.gradients = {.n_tensors = n,
                                                       .n_steps = 2 * DEMO_RECORDED_STEPS,
                                                       .n_ranks = ranks,
                                                       .tensors = recording->tensors,
                                                       .steps = recording->steps}};
    for (uint32_t i = 0; i < DEMO_RECORDED_STEPS; i++) {
        recording->steps[i] = steps / 4 + i;
        recording->steps[DEMO_RECORDED_STEPS + i] = steps - steps / 4 + i;
    }
    for (uint32_t t = 0; t < n; t++) {
        uint64_t elems = tensors[t].rows * tensors[t].columns;
        recording->tensors[t] = (struct wring_gradients_tensor){
            .elems = elems, .n = wring_gradients_sampled(elems), .begin = gradients->per_step};
        gradients->per_step += recording->tensors[t].n;
    }
    if (wring_gradients_count(gradients) > WRING_GRADIENTS_VALUES_MAX) {
        wring_fail("wring demo",
                   "gradients of %u ranks are more than the %u values that a file may have; take "
                   "fewer --record-ranks, or --hidden units",
                   ranks, WRING_GRADIENTS_VALUES_MAX);
        return WRING_ERR_INVALID;
    }
    gradients->values = calloc(wring_gradients_count(gradients), sizeof(float));
    return gradients->values != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

void demo_recording_take(struct demo_recording *recording, uint32_t step, uint32_t tensor,
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

#define TAG 0x67726164 /* of recorded gradients */

enum wring_status demo_recording_collect(struct demo_recording *recording,
                                         struct wring_session *session, uint32_t ranks)
{
    const struct wring_gradients *gradients = &recording->gradients;
    struct wring_group *world = wring_session_world(session);
    uint64_t n = gradients->n_steps * gradients->per_step;

    if (wring_session_rank(session) > 0)
        return wring_send(world, gradients->values, n * sizeof(float), 0, TAG, NULL, NULL);
    enum wring_status status = WRING_OK;
    for (uint32_t rank = 1; rank < ranks && status == WRING_OK; rank++)
        status = wring_recv(world, gradients->values + rank * n, n * sizeof(float), rank, TAG, NULL,
                            NULL);
    return status;
}

/** A training that diverged has no gradients to measure with. */
static bool is_finite(const struct wring_gradients *gradients)
{
    for (uint64_t i = 0; i < wring_gradients_count(gradients); i++)
        if (!isfinite(gradients->values[i]))
            return false;
    return true;
}

static void describe_gradients(const struct demo_options *options, const struct demo_config *config,
                               char *text, size_t bytes)
{
    char who[32] = "rank 0";

    if (options->record_ranks > 1)
        snprintf(who, sizeof(who), "each of the first %u", options->record_ranks);
    snprintf(text, bytes,
             "wring demo: what %s of %u posts, momentum included, in %u steps of training %s "
             "with %s; batch %u, hidden %u, seed %llu",
             who, options->ranks, options->steps, options->task->what, config->name, options->batch,
             options->hidden, (unsigned long long)options->seed);
}

static bool save_gradients(FILE *file, void *arg)
{
    return wring_gradients_save(arg, file) == WRING_OK;
}

bool demo_recording_write(struct demo_recording *recording, const struct demo_results *results,
                          const struct demo_config *config)
{
    const struct demo_options *options = results->options;
    const char *path = options->record_gradients;
    char names[DEMO_TENSORS_MAX][32], source[256];

    if (!is_finite(&recording->gradients)) {
        wring_fail("wring demo", "%s is not written: the gradients are not finite", path);
        return false;
    }
    describe_gradients(options, config, source, sizeof(source));
    recording->gradients.source = source;
    for (uint32_t t = 0; t < options->task->n_tensors; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", results->tensors[t].name);
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
    struct wring_tensor tensors[DEMO_TENSORS_MAX];
    char names[DEMO_TENSORS_MAX][32], model[] = "wring demo", source[256];
    struct wring_tensor_trace trace = {.model = model,
                                       .source = source,
                                       .forward_us = round_to_ns(results->times.forward_us),
                                       .optimizer_us = round_to_ns(results->times.optimizer_us),
                                       .n = results->options->task->n_tensors,
                                       .tensors = tensors};

    describe_trace(results, source, sizeof(source));
    for (uint32_t t = 0; t < trace.n; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", results->tensors[t].name);
        uint64_t elems = results->tensors[t].rows * results->tensors[t].columns;
        tensors[t] = (struct wring_tensor){
            .name = names[t], .elems = elems, .ready_us = round_to_ns(results->times.ready_us[t])};
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
