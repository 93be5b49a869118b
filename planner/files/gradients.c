/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/gradients.h"

#include <stdlib.h>
#include <string.h>

#include "planner/files/hash.h"

#define RUN 4096 /* elements of a run of a sample */
#define RUNS (WRING_GRADIENTS_SAMPLE_MAX / RUN)
/* ---- samples ---- */

uint32_t wring_gradients_sampled(uint64_t elems)
{
    return elems < WRING_GRADIENTS_SAMPLE_MAX ? (uint32_t)elems : WRING_GRADIENTS_SAMPLE_MAX;
}

void wring_gradients_sample(const float *gradient, uint64_t elems, float *out)
{
    if (elems <= WRING_GRADIENTS_SAMPLE_MAX) {
        memcpy(out, gradient, elems * sizeof(*out));
        return;
    }
    for (uint64_t i = 0; i < RUNS; i++)
        memcpy(out + i * RUN, gradient + (elems - RUN) / (RUNS - 1) * i, RUN * sizeof(*out));
    memcpy(out + (RUNS - 1) * RUN, gradient + elems - RUN, RUN * sizeof(*out));
}

/* ---- the file ---- */

/** All but the source, as the file has it. */
static void write_body(struct wring_writer *writer, const struct wring_gradients *gradients)
{
    for (uint32_t i = 0; i < gradients->n_steps; i++)
        wring_write_u64(writer, gradients->steps[i]);
    for (uint32_t i = 0; i < gradients->n_tensors; i++) {
        const struct wring_gradients_tensor *tensor = &gradients->tensors[i];
        wring_write_sized(writer, tensor->name, strlen(tensor->name));
        wring_write_u64(writer, tensor->elems);
        wring_write_u32(writer, tensor->n);
    }
    wring_write(writer, gradients->values,
                (size_t)(gradients->n_steps * gradients->per_step) * sizeof(float));
}

enum wring_status wring_gradients_rehash(struct wring_gradients *gradients)
{
    struct wring_writer writer = {0};

    wring_write_u32(&writer, gradients->n_tensors);
    wring_write_u32(&writer, gradients->n_steps);
    write_body(&writer, gradients);
    return wring_hash(&writer, &gradients->hash);
}

enum wring_status wring_gradients_save(const struct wring_gradients *gradients, FILE *file)
{
    struct wring_writer writer = {0};
    enum wring_status status = WRING_OK;

    wring_write(&writer, WRING_GRADIENTS_MAGIC, WRING_GRADIENTS_MAGIC_BYTES);
    wring_write_u32(&writer, WRING_GRADIENTS_VERSION);
    wring_write_u32(&writer, gradients->n_tensors);
    wring_write_u32(&writer, gradients->n_steps);
    wring_write_sized(&writer, gradients->source, strlen(gradients->source));
    write_body(&writer, gradients);
    if (writer.failed)
        status = WRING_ERR_NO_MEMORY;
    else if (fwrite(writer.data, 1, writer.bytes, file) != writer.bytes || fflush(file) != 0)
        status = WRING_ERR_SYSTEM;
    free(writer.data);
    return status;
}

void wring_gradients_destroy(struct wring_gradients *gradients)
{
    if (gradients == NULL)
        return;
    for (uint32_t i = 0; i < gradients->n_tensors && gradients->tensors != NULL; i++)
        free(gradients->tensors[i].name);
    free(gradients->tensors);
    free(gradients->steps);
    free(gradients->values);
    free(gradients->source);
    free(gradients);
}
