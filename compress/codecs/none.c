/* SPDX-License-Identifier: Apache-2.0 */
/** none: float32 as it is. The honest baseline, and what small messages travel as. */
#include <string.h>

#include "compress/codec.h"
#include "compress/kernels/reduce.h"
#include "compress/kernels/streaming.h"

static enum wring_status none_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_reduce_tiers, sizeof(wring_reduce_tiers[0]));
    return WRING_OK;
}

static uint64_t none_unit(const struct wring_codec *codec)
{
    (void)codec;
    return 1;
}

static size_t none_bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return elems * sizeof(float);
}

static size_t none_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)codec, (void)context, (void)scratch,
        (void)residual; /* nothing is lost, so nothing remains */
    if (WRING_IS_LONG(elems))
        wring_streaming_copy(code, src, elems * sizeof(*src));
    else
        memcpy(code, src, elems * sizeof(*src));
    return elems * sizeof(*src);
}

static enum wring_status none_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_reduce_tier *tier = codec->kernels;
    const void *runs[] = {add ? dst : code, code};

    (void)context;
    if (code_bytes != elems * sizeof(*dst))
        return WRING_ERR_FRAME;
    tier->kernels->sum(dst, runs, add ? 2 : 1, elems, 1);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_none = {
    .name = "none",
    .doc = "float32 as it is",
    .flags = WRING_CODEC_RAW | WRING_CODEC_SUMMABLE | WRING_CODEC_UNBIASED | WRING_CODEC_FIXED |
             WRING_CODEC_EXACT,
    .init = none_init,
    .unit = none_unit,
    .bound = none_bound,
    .encode = none_encode,
    .decode = none_decode,
};
