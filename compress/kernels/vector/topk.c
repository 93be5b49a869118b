/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/vector/topk.h"

const struct wring_topk_kernels OF_TIER(wring_topk) = {
    .rank = rank_bits,
    .mark = mark,
    .gather = wring_topk_gather,
    .retain = retain,
    .find = find,
    .sampled = wring_topk_sampled,
    .sift = wring_topk_sift,
    .take = wring_topk_take_never,
    .give_back = wring_topk_give_nothing_back,
    .leave = leave,
};
