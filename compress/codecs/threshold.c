/* SPDX-License-Identifier: Apache-2.0 */
/**
 * threshold: the elements of each block whose magnitude is at least a value that the user names.
 * A cap bounds how many: of more than that, the largest are sent.
 *
 * Strom, "Scalable distributed DNN training using commodity GPU cloud computing" (Interspeech 2015)
 * has the threshold and the residual; it sends signs alone. Values pass whole, as in Dutta and
 * others (arXiv:1911.08250). Blocks are topk's. Bytes in FORMAT.md, "threshold".
 */
#include "compress/codec.h"

#include "compress/codecs/sparse.h"
#include "compress/codecs/topk_block.h"
#include "compress/kernels/bits.h"

enum {
    PARAM_VALUE,
    PARAM_CAP,
    PARAM_BLOCK,
    PARAM_INDEX
};

static const struct wring_codec_param params[] = {
    [PARAM_VALUE] = {"value", NULL, "the least magnitude that is sent", 0.01, 0.000000001, 1000000,
                     0},
    [PARAM_CAP] = {"cap", NULL, "the largest share of the elements that is sent", 0.1, 1e-6, 1, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a cap", 65536, 256, WRING_TOPK_BLOCK_MAX,
                     32},
    [PARAM_INDEX] = WRING_TOPK_INDEX_PARAM,
};

static uint64_t threshold_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status threshold_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_topk_tiers, sizeof(wring_topk_tiers[0]));
    return WRING_OK;
}

/** The least float that is not below the value, as bits: of floats no other one is as good. */
static uint32_t least_sent(const struct wring_codec *codec)
{
    float value = (float)codec->params[PARAM_VALUE];
    uint32_t bits = wring_bits_of(value);

    return (double)value < codec->params[PARAM_VALUE] ? bits + 1 : bits;
}

static uint64_t count_most(const struct wring_codec *codec, uint64_t n)
{
    return wring_sparse_wanted(codec->params[PARAM_CAP], n);
}

static enum wring_topk_index index_of(const struct wring_codec *codec)
{
    return (enum wring_topk_index)codec->params[PARAM_INDEX];
}

static size_t threshold_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_topk_bound(codec, index_of(codec), count_most, threshold_unit(codec), elems);
}

static size_t threshold_encode(const struct wring_codec *codec,
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
        const struct wring_topk_block block = {
            .src = src + done,
            .residual = residual != NULL ? residual + done : NULL,
            .n = n,
            .most = count_most(codec, n),
            .threshold = least_sent(codec),
            .index = index_of(codec),
        };
        values.begin = done;
        bytes += wring_topk_encode_block(tier->kernels, &block, false, &values, &hint, scratch,
                                         (unsigned char *)code + bytes);
    }
    return bytes;
}

static enum wring_status threshold_decode(const struct wring_codec *codec,
                                          const struct wring_codec_context *context,
                                          const void *code, size_t code_bytes, float *dst,
                                          uint64_t elems, bool add)
{
    return wring_topk_decode(codec, context, index_of(codec), count_most, code, code_bytes, dst,
                             elems, add);
}

const struct wring_codec_ops wring_codec_threshold = {
    .name = "threshold",
    .doc = "the elements of each block that reach a value",
    .flags = WRING_CODEC_OWN,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = sizeof(struct wring_topk_scratch),
    .init = threshold_init,
    .unit = threshold_unit,
    .bound = threshold_bound,
    .encode = threshold_encode,
    .decode = threshold_decode,
    .way_back = wring_union_name,
};
