/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topk: the largest magnitudes of each block, as values and indices within the block.
 *
 * Aji and Heafield, Sparse Communication for Distributed Gradient Descent (arXiv:1704.05021); the
 * threshold of a sample, Lin and others (arXiv:1712.01887). Bytes in FORMAT.md, "topk".
 */
#include "compress/codec.h"

#include "compress/codecs/sparse.h"
#include "compress/codecs/topk_block.h"

enum {
    PARAM_RATIO,
    PARAM_BLOCK,
    PARAM_SELECT,
    PARAM_INDEX
};
enum {
    SELECT_SAMPLED,
    SELECT_EXACT
};

static const struct wring_codec_param params[] = {
    [PARAM_RATIO] = {"ratio", NULL, "share of the elements that is sent", 0.01, 1e-6, 1, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements to choose among", 65536, 256, 65536, 32},
    [PARAM_SELECT] = {"select", "sampled|exact", "how the threshold is found", SELECT_SAMPLED, 0, 1,
                      0},
    [PARAM_INDEX] = WRING_TOPK_INDEX_PARAM,
};

static uint64_t topk_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status topk_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_topk_tiers, sizeof(wring_topk_tiers[0]));
    return WRING_OK;
}

static bool is_sampled(const struct wring_codec *codec, uint64_t n)
{
    return codec->params[PARAM_SELECT] == SELECT_SAMPLED && wring_topk_is_sampled(n);
}

/** How many elements of a block of n are meant to be sent in a step. */
static uint64_t count_wanted(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return wring_sparse_wanted(wring_sparse_ratio(codec, codec->params[PARAM_RATIO], step), n);
}

static uint64_t count_most(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return wring_topk_most(count_wanted(codec, step, n), is_sampled(codec, n), n);
}

/** In any step: the first one has the largest ratio. */
static uint64_t count_bound(const struct wring_codec *codec, uint64_t n)
{
    return count_most(codec, 0, n);
}

static enum wring_topk_index index_of(const struct wring_codec *codec)
{
    return (enum wring_topk_index)codec->params[PARAM_INDEX];
}

static size_t topk_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_topk_bound(codec, index_of(codec), count_bound, topk_unit(codec), elems);
}

static size_t topk_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_topk_tier *tier = codec->kernels;
    uint64_t unit = codec->info.unit;
    struct wring_topk_hint hint = {0};
    struct wring_values values = {codec->values, context, 0};
    size_t bytes = 0;

    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        struct wring_topk_block block = {
            .src = src + done,
            .residual = residual != NULL ? residual + done : NULL,
            .n = n,
            .wanted = count_wanted(codec, context->step, n),
            .most = count_most(codec, context->step, n),
            .index = index_of(codec),
        };
        values.begin = done;
        bytes += wring_topk_encode_block(tier->kernels, &block, is_sampled(codec, n), &values,
                                         &hint, scratch, (unsigned char *)code + bytes);
    }
    return bytes;
}

static enum wring_status topk_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    return wring_topk_decode(codec, context, index_of(codec), count_bound, code, code_bytes, dst,
                             elems, add);
}

const struct wring_codec_ops wring_codec_topk = {
    .name = "topk",
    .doc = "the largest magnitudes of each block",
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = topk_init,
    .unit = topk_unit,
    .bound = topk_bound,
    .scratch_bytes = sizeof(struct wring_topk_scratch),
    .encode = topk_encode,
    .decode = topk_decode,
};
