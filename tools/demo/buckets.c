/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/buckets.h"

const struct demo_bucket demo_buckets[DEMO_BUCKETS] = {
    {"output.weight", true, 1, {DEMO_OUTPUT}},
    {"hidden2.weight", true, 1, {DEMO_HIDDEN2}},
    {"biases", false, 3, {DEMO_OUTPUT_BIAS, DEMO_HIDDEN2_BIAS, DEMO_HIDDEN1_BIAS}},
    {"hidden1.weight, embedding", true, 2, {DEMO_HIDDEN1, DEMO_EMBEDDING}},
};

int demo_bucket_completed_by(enum demo_tensor tensor)
{
    for (int b = 0; b < DEMO_BUCKETS; b++)
        if (demo_buckets[b].tensors[demo_buckets[b].n - 1] == tensor)
            return b;
    return -1;
}

uint64_t demo_bucket_elems(const struct demo_bucket *bucket, const struct demo_model *model)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < bucket->n; i++)
        elems += model->elems[bucket->tensors[i]];
    return elems;
}

void demo_bucket_place(const struct demo_bucket *bucket, struct demo_model *model, float *data)
{
    for (uint32_t i = 0; i < bucket->n; i++) {
        model->gradients[bucket->tensors[i]] = data;
        data += model->elems[bucket->tensors[i]];
    }
}
