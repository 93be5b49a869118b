/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/training.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/tensor_trace.h"
#include "tools/commands.h"
#include "tools/demo/model.h"
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

void demo_recording_take(struct demo_recording *recording, uint32_t step, enum demo_tensor tensor,
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

void demo_times_median(const struct demo_times *steps, uint32_t n, struct demo_times *out)
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
        "measured by wring demo: rank 0 of %u on one host, median of %u steps without exchange; "
        "batch %u, hidden %u, momentum included",
        o->ranks, results->times_steps, o->batch, o->hidden);
}

/** To the nanosecond, which is what was measured. */
static double rounded(double us)
{
    return round(us * 1e3) / 1e3;
}

static enum wring_status write_trace(const struct demo_results *results, FILE *file)
{
    struct wring_tensor tensors[DEMO_TENSORS];
    char names[DEMO_TENSORS][32], model[] = "wring demo", source[256];
    struct wring_tensor_trace trace = {.model = model,
                                       .source = source,
                                       .forward_us = rounded(results->times.forward_us),
                                       .optimizer_us = rounded(results->times.optimizer_us),
                                       .n = DEMO_TENSORS,
                                       .tensors = tensors};

    describe_trace(results, source, sizeof(source));
    for (int t = 0; t < DEMO_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", demo_tensor_names[t]);
        tensors[t] =
            (struct wring_tensor){names[t], results->elems[t], rounded(results->times.ready_us[t])};
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
