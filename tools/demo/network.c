/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/network.h"

#include <stdlib.h>
#include <string.h>

#include "tools/demo/random.h"
#include "tools/demo/task.h"

float *demo_zeros(uint64_t n)
{
    float *data = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    if (data != NULL)
        memset(data, 0, n * sizeof(float));
    return data;
}

void demo_fill_uniform(float *data, uint64_t n, double limit, uint64_t key)
{
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)((2 * demo_uniform(key, i) - 1) * limit);
}

int demo_network_init(struct demo_network *network, const struct demo_task *task,
                      const struct demo_blas *blas, uint32_t batch, uint32_t hidden, uint64_t seed)
{
    bool failed = false;

    *network = (struct demo_network){.task = task, .blas = blas, .batch = batch, .hidden = hidden};
    task->shape(network);
    for (uint32_t t = 0; t < task->n_tensors; t++) {
        network->weights[t] = demo_zeros(demo_network_elems(network, t));
        failed |= network->weights[t] == NULL;
    }
    if (!failed && task->begin(network, demo_random(seed, 0x6D6F64656C)) == 0)
        return 0;
    demo_network_finish(network);
    return -1;
}

void demo_network_finish(struct demo_network *network)
{
    for (int t = 0; t < DEMO_TENSORS_MAX; t++)
        free(network->weights[t]);
    if (network->task != NULL)
        network->task->end(network);
    *network = (struct demo_network){0};
}

uint64_t demo_network_elems(const struct demo_network *network, uint32_t tensor)
{
    return network->tensors[tensor].rows * network->tensors[tensor].columns;
}

uint64_t demo_network_bucket_elems(const struct demo_network *network,
                                   const struct demo_bucket *bucket)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < bucket->n; i++)
        elems += demo_network_elems(network, bucket->tensors[i]);
    return elems;
}

uint64_t demo_network_parameters(const struct demo_network *network)
{
    uint64_t elems = 0;
    for (uint32_t t = 0; t < network->task->n_tensors; t++)
        elems += demo_network_elems(network, t);
    return elems;
}

uint64_t demo_network_hash(const struct demo_network *network)
{
    uint64_t hash = 14695981039346656037ull;
    for (uint32_t t = 0; t < network->task->n_tensors; t++)
        for (uint64_t i = 0; i < demo_network_elems(network, t); i++) {
            uint32_t bits;
            memcpy(&bits, &network->weights[t][i], sizeof(bits));
            hash = (hash ^ bits) * 1099511628211ull;
        }
    return hash;
}
