/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/batches.h"

#include <string.h>

#include "tools/demo/random.h"

/** A sample: DEMO_CONTEXT bytes from `at` on, and the byte after them. */
static void take_sample(struct demo_model *model, uint32_t i, const uint8_t *text, uint64_t at)
{
    memcpy(model->context + (size_t)i * DEMO_CONTEXT, text + at, DEMO_CONTEXT);
    model->next[i] = text[at + DEMO_CONTEXT];
}

void demo_batch_draw(const struct demo_run *run, struct demo_model *model, uint32_t step)
{
    const struct demo_corpus *corpus = run->corpus;
    uint64_t part = corpus->train_bytes / run->ranks;
    uint64_t key = demo_random(run->options->seed, 0x62617463680000 + run->rank);
    for (uint32_t i = 0; i < model->batch; i++) {
        uint64_t number = demo_random(key, (uint64_t)step * model->batch + i);
        take_sample(model, i, corpus->train + run->rank * part, number % (part - DEMO_CONTEXT - 1));
    }
}

void demo_batch_held_out(const struct demo_run *run, struct demo_model *model, uint32_t number)
{
    const struct demo_corpus *corpus = run->corpus;
    uint64_t key = demo_random(run->options->seed, 0x68656C64);

    for (uint32_t i = 0; i < model->batch; i++) {
        uint64_t n = ((uint64_t)number * run->ranks + run->rank) * model->batch + i;
        take_sample(model, i, corpus->held_out,
                    demo_random(key, n) % (corpus->held_out_bytes - DEMO_CONTEXT - 1));
    }
}
