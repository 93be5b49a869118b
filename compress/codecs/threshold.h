/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topk's sampled selection in little more than one pass over a block: FORMAT.md, "Sampled
 * selection", has the rule, and how the threshold is found is nobody's business but ours.
 *
 * Blocks that follow each other are much alike. So the elements from a guessed threshold on are
 * listed, a little below where the last block's lay. Where enough samples are among them, the
 * right threshold is, too, and the list holds all that may be sent.
 */
#ifndef WRING_CODECS_THRESHOLD_H
#define WRING_CODECS_THRESHOLD_H

#include <stdbool.h>

#include "compress/kernels/pick.h"

/** One block of n elements: v = src, or src + residual where that is not NULL. */
struct wring_topk_block {
    const float *src;
    float *residual;
    uint64_t n;
    uint64_t wanted, most; /* how many are meant to be sent, and may be */
};

struct wring_topk_choice {
    uint32_t threshold; /* the least magnitude that is sent, as bits */
    bool cut;           /* of several elements that have just it, only some are */
};

/** The exact threshold that the samples give; 0 when they are zeros. */
uint32_t wring_threshold_of(const struct wring_pick_kernels *kernels,
                            const struct wring_topk_block *block);

/**
 * List the elements that are sent.
 * @param guess   inout, the block before's word on where to look, 0 if there is none; any value
 *                gives the same list, but a bad one takes longer
 * @param list    out; its peak tells whether the block is finite: if not, the entries are of no use
 * @return false when more than WRING_PICK_LISTED came near: nothing is chosen
 */
bool wring_threshold_choose(const struct wring_pick_kernels *kernels,
                            const struct wring_topk_block *block, uint32_t *guess,
                            struct wring_pick_list *list, struct wring_topk_choice *choice);

#endif
