/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topk's sampled selection in little more than one pass over a block: FORMAT.md, "Sampled
 * selection", has the rule, and how the threshold is found is nobody's business but ours. A
 * threshold that is given needs no search.
 *
 * Blocks that follow each other are much alike. So the elements from a guessed threshold on are
 * listed, a little below where the last block's lay. Where enough samples are among them, the
 * right threshold is, too, and the list holds all that may be sent.
 */
#ifndef WRING_CODECS_TOPK_SEARCH_H
#define WRING_CODECS_TOPK_SEARCH_H

#include <stdbool.h>

#include "compress/kernels/topk.h"

/** How a block's indices are written. */
enum wring_topk_index {
    WRING_TOPK_SHORT,  /* 16 bits each */
    WRING_TOPK_PACKED, /* as gaps */
};

/** One block of n elements: v = src, or src + residual where that is not NULL. */
struct wring_topk_block {
    const float *src;
    float *residual;
    uint64_t n;
    uint64_t wanted, most; /* how many are meant to be sent, and may be */
    enum wring_topk_index index;
    uint32_t threshold; /* in the place of `wanted`, the least magnitude that is sent, as bits; 0:
                           it is to be found */
};

struct wring_topk_choice {
    uint32_t threshold; /* the least magnitude that is sent, as bits */
    bool cut;           /* only some of the elements that have just it are sent */
    bool taken;         /* the residual is v already, also for elements that are sent */
};

/** Hints from the blocks of a call to those after them; zeros for the first one. */
struct wring_topk_hint {
    uint32_t guess; /* where to look; any value gives the same list, but a bad one takes longer */
    bool untaken;   /* a residual could not be undone: two traversals are better */
    bool crowded;   /* more than a list holds reach the threshold that is given: a map is better */
};

#define WRING_TOPK_SAMPLES (WRING_TOPK_BLOCK_MAX / WRING_TOPK_STRIDE + WRING_TOPK_SPARE)

/** Scratch memory for choosing. */
struct wring_topk_room {
    struct wring_topk_undo undo;
    float samples[WRING_TOPK_SAMPLES];
};

/** The exact threshold that the samples give; 0 when they are zeros. The room's samples are lost.
 */
uint32_t wring_topk_threshold(const struct wring_topk_kernels *kernels,
                              const struct wring_topk_block *block, struct wring_topk_room *room);

/**
 * The k-th largest magnitude of a block as bits, 1 <= k <= n; exact, whatever the values: as the
 * kernel, but it looks at a list of the largest elements bit by bit, if samples lead to one.
 * @param list  scratch memory, as the room
 */
uint32_t wring_topk_rank(const struct wring_topk_kernels *kernels,
                         const struct wring_topk_block *block, uint64_t k,
                         struct wring_topk_room *room, struct wring_topk_list *list);

/**
 * List the elements that are sent.
 * @param hint    inout, of the block before
 * @param list    out; its peak tells whether the block is finite: if not, the entries are of no
 * use, and the residual is as it was
 * @return false when more than WRING_TOPK_LISTED came near: nothing is chosen, nor changed
 */
bool wring_topk_choose(const struct wring_topk_kernels *kernels,
                       const struct wring_topk_block *block, struct wring_topk_hint *hint,
                       struct wring_topk_room *room, struct wring_topk_list *list,
                       struct wring_topk_choice *choice);

#endif
