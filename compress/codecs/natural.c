/* SPDX-License-Identifier: Apache-2.0 */
/**
 * natural: the sign of each element and a power of two, the next above or below at random, so that
 * the expectation is the input.
 *
 * Source: natural compression, arXiv:1905.10988. Bytes in FORMAT.md, "natural".
 */
#include "compress/codec.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/natural.h"
#include "compress/kernels/streaming.h"
#include "compress/noise.h"

#define UNIT WRING_NATURAL_UNIT
#define LARGEST_8 0x1p40f /* of 8 bits; the least is 2^-86 */

enum {
    PARAM_BITS
};

static const struct wring_codec_param params[] = {
    [PARAM_BITS] = {"bits", "9|8", "9: all exponents of float32; 8: from 2^-86 to 2^40", 0, 0, 1,
                    1},
};

static bool has_nine(const struct wring_codec *codec)
{
    return codec->params[PARAM_BITS] == 0;
}

/** The variance is an eighth of the square at most: a code under feedback is 8/9 of the power. */
static struct wring_natural_scale scale_of(const struct wring_codec *codec)
{
    float keep = codec->info.flags & WRING_CODEC_FEEDBACK ? (float)(1 / 1.125) : 1;
    return has_nine(codec) ? (struct wring_natural_scale){1, keep}
                           : (struct wring_natural_scale){1 / LARGEST_8, keep * LARGEST_8};
}

static const struct wring_natural_form *form_of(const struct wring_codec *codec)
{
    const struct wring_natural_tier *tier = codec->kernels;
    return has_nine(codec) ? &tier->kernels->nine : &tier->kernels->eight;
}

static uint64_t natural_unit(const struct wring_codec *codec)
{
    (void)codec;
    return UNIT;
}

static enum wring_status natural_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (codec->info.flags & WRING_CODEC_FEEDBACK)
        codec->info.flags &= ~(unsigned)WRING_CODEC_UNBIASED;
    wring_codec_take_kernels(codec, wring_natural_tiers, sizeof(wring_natural_tiers[0]));
    return WRING_OK;
}

static size_t natural_bound(const struct wring_codec *codec, uint64_t elems)
{
    return has_nine(codec) ? elems + elems / UNIT * (UNIT / 8) + (elems % UNIT + 7) / 8 : elems;
}

static size_t natural_encode(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch)
{
    unsigned char *at = code;
    struct wring_noise noise;

    (void)scratch;
    wring_noise_begin(&noise, codec, context);
    for (uint64_t done = 0; done < elems; done += WRING_NOISE_WINDOW) {
        uint64_t n = wring_codec_unit_length(WRING_NOISE_WINDOW, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_fetch(src + done, n * sizeof(*src));
        form_of(codec)->encode(at, src + done, residual != NULL ? residual + done : NULL, n,
                               scale_of(codec),
                               wring_noise_of(&noise, context->element + done, n, elems - done));
        at += natural_bound(codec, n);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status natural_decode(const struct wring_codec *codec,
                                        const struct wring_codec_context *context, const void *code,
                                        size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_natural_form *form = form_of(codec);
    const unsigned char *at = code;

    (void)context;
    if (code_bytes != natural_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems; done += WRING_PAGE) {
        uint64_t n = wring_codec_unit_length(WRING_PAGE, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch(dst + done, n * sizeof(*dst));
        (add ? form->decode_add : form->decode)(dst + done, at, n, scale_of(codec).up);
        at += natural_bound(codec, n);
    }
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_natural = {
    .name = "natural",
    .doc = "a sign and a power of two, the next above or below at random",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = natural_init,
    .unit = natural_unit,
    .bound = natural_bound,
    .encode = natural_encode,
    .decode = natural_decode,
};
