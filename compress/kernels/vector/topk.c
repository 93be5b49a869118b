/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/vector/topk.h"

static uint32_t rank_magnitudes(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    return rank_by_groups(src, residual, n, k, rank_bits);
}

const struct wring_topk_kernels OF_TIER(wring_topk) = {
    .rank = rank_magnitudes,
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
