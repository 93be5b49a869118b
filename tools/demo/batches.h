/* SPDX-License-Identifier: Apache-2.0 */
/** Samples that a rank's model is given: of a run's text, at places that its seed says. */
#ifndef WRING_DEMO_BATCHES_H
#define WRING_DEMO_BATCHES_H

#include "tools/demo/train.h"

/** Fill the model's batch from random places of this rank's part of the text. */
void demo_batch_draw(const struct demo_run *run, struct demo_model *model, uint32_t step);

/** Fill it with this rank's share of the held-out places, which are the same in every run.
 *  @param number  of the batch */
void demo_batch_held_out(const struct demo_run *run, struct demo_model *model, uint32_t number);

#endif
