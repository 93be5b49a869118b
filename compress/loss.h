/* SPDX-License-Identifier: Apache-2.0 */
/** Losses of codes, as jobs measure them. */
#ifndef WRING_COMPRESS_LOSS_H
#define WRING_COMPRESS_LOSS_H

#include <wring/executor.h>

/** A run of elements that has been encoded. */
struct wring_coded_run {
    const float *input;    /* what was encoded, without a residual; unused where there is one */
    const float *decoded;  /* what the code decodes to */
    const float *residual; /* what the code lacks; NULL: input - decoded */
    uint64_t elems;
};

/** Add sums of squares to the job's result: to `lost` those of the values that the code lacks,
 *  to `whole` those of the codec's input, the residual included. */
void wring_loss_add(struct wring_job *job, const struct wring_coded_run *run);

#endif
