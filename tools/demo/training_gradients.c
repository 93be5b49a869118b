/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/training_gradients.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
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

static void describe(const struct demo_options *options, const struct demo_config *config,
                     char *text, size_t bytes)
{
    snprintf(text, bytes,
             "wring demo: what rank 0 of %u posts, momentum included, in %u steps of training with "
             "%s; batch %u, hidden %u, seed %llu",
             options->ranks, options->steps, config->name, options->batch, options->hidden,
             (unsigned long long)options->seed);
}

static bool save(FILE *file, void *arg)
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
    describe(options, config, source, sizeof(source));
    recording->gradients.source = source;
    for (int t = 0; t < DEMO_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%s", demo_tensor_names[t]);
        recording->tensors[t].name = names[t];
    }
    return wring_output_file("wring demo", path, save, &recording->gradients) == WRING_EXIT_OK;
}

void demo_recording_finish(struct demo_recording *recording)
{
    free(recording->gradients.values);
    recording->gradients.values = NULL;
}
