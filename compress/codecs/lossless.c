/* SPDX-License-Identifier: Apache-2.0 */
/** lossless: what the codec is (lossless.h). */
#include "compress/codecs/lossless.h"

#include "compress/codecs/lossless_outflow.h"

enum {
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share an exponent", WRING_LOSSLESS_BLOCK_USUAL,
                     32, WRING_LOSSLESS_BLOCK_MAX, 32},
};

static uint64_t lossless_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status lossless_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_lossless_tiers, sizeof(wring_lossless_tiers[0]));
    return WRING_OK;
}

size_t wring_lossless_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = lossless_unit(codec);
    return (elems + unit - 1) / unit * WRING_LOSSLESS_HEAD + elems * sizeof(float);
}

const struct wring_codec_ops wring_codec_lossless = {
    .name = "lossless",
    .doc = "float32 bit for bit, with the exponents of each block packed",
    .flags = WRING_CODEC_EXACT | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = lossless_init,
    .unit = lossless_unit,
    .bound = wring_lossless_bound,
    .scratch_bytes = sizeof(struct wring_lossless_outflow), /* longer than a block's code */
    .encode = wring_lossless_encode,
    .decode = wring_lossless_decode,
};
