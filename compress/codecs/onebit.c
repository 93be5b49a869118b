/* SPDX-License-Identifier: Apache-2.0 */
/**
 * onebit: the sign of each element, and per block the mean magnitude.
 *
 * One mean is the scaled sign of EF-SignSGD (arXiv:1901.09847); two are those of 1-bit SGD (Seide
 * and others, 2014). Bytes in FORMAT.md, "onebit".
 */
#include "compress/codec.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/onebit.h"
#include "compress/kernels/streaming.h"

enum {
    PARAM_BLOCK,
    PARAM_MEANS
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share a mean", 1024, 32, 65536, 32},
    [PARAM_MEANS] = {"means", NULL, "1: of magnitudes; 2: of each sign", 1, 1, 2, 1},
};

/** The two values that a block's elements decode to. */
struct levels {
    float positive, negative;
};

static size_t head_bytes(const struct wring_codec *codec)
{
    return 4 * (size_t)codec->params[PARAM_MEANS];
}

static size_t block_bytes(const struct wring_codec *codec, uint64_t n)
{
    return head_bytes(codec) + (n + 7) / 8;
}

static uint64_t onebit_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status onebit_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_onebit_tiers, sizeof(wring_onebit_tiers[0]));
    return WRING_OK;
}

static size_t onebit_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = onebit_unit(codec);
    return elems / unit * block_bytes(codec, unit) +
           (elems % unit != 0 ? block_bytes(codec, elems % unit) : 0);
}

static float mean_of(float sum, uint64_t count)
{
    return count == 0 ? 0 : sum / (float)count;
}

/** Write the sign bits; the levels are not finite when the block is not. */
static struct levels encode_signs(const struct wring_codec *codec, const float *src, uint64_t n,
                                  const float *residual, uint8_t *bits)
{
    const struct wring_onebit_tier *tier = codec->kernels;
    struct wring_onebit_split split;

    if (codec->params[PARAM_MEANS] == 1) {
        float mean = mean_of(tier->kernels->signs(bits, src, residual, n), n);
        return (struct levels){mean, -mean};
    }
    tier->kernels->signs_split(bits, src, residual, n, &split);
    return (struct levels){mean_of(split.positive, n - split.negatives),
                           -mean_of(split.negative, split.negatives)};
}

static void encode_block(const struct wring_codec *codec, const float *src, uint64_t n,
                         float *residual, unsigned char *code)
{
    const struct wring_onebit_tier *tier = codec->kernels;
    size_t head = head_bytes(codec);
    struct levels levels = encode_signs(codec, src, n, residual, code + head);
    uint32_t means[2] = {wring_magnitude(levels.positive), wring_magnitude(levels.negative)};

    if (means[0] >= WRING_INF_BITS || means[1] >= WRING_INF_BITS) {
        means[0] = means[1] = WRING_NAN_BITS;
        memset(code + head, 0, (n + 7) / 8);
    } else if (residual != NULL) {
        tier->kernels->keep(residual, src, n, levels.positive, levels.negative);
    }
    wring_put_u32(code, means[0]);
    if (head > 4)
        wring_put_u32(code + 4, means[1]);
}

static size_t onebit_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t unit = codec->info.unit;
    unsigned char *at = code;

    (void)context, (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems) && residual == NULL)
            wring_streaming_enter(src + done + n);
        encode_block(codec, src + done, n, residual != NULL ? residual + done : NULL, at);
        at += block_bytes(codec, n);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_block(const struct wring_codec *codec, const unsigned char *code,
                                      float *dst, uint64_t n, bool add)
{
    const struct wring_onebit_tier *tier = codec->kernels;
    size_t head = head_bytes(codec);
    uint32_t positive = wring_take_u32(code);
    uint32_t negative = head == 4 ? positive : wring_take_u32(code + 4);

    if (positive == WRING_NAN_BITS && negative == WRING_NAN_BITS)
        wring_codec_fill_nan(dst, n);
    else if (positive >= WRING_INF_BITS || negative >= WRING_INF_BITS)
        return WRING_ERR_FRAME; /* below zero, or not finite */
    else
        (add ? tier->kernels->spread_add
             : tier->kernels->spread)(dst, code + head, n, wring_float_of(positive),
                                      wring_float_of(negative | WRING_SIGN_BITS));
    return WRING_OK;
}

static enum wring_status onebit_decode(const struct wring_codec *codec,
                                       const struct wring_codec_context *context, const void *code,
                                       size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != onebit_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(dst + done, n);
        status = decode_block(codec, at, dst + done, n, add);
        at += block_bytes(codec, n);
    }
    return status;
}

const struct wring_codec_ops wring_codec_onebit = {
    .name = "onebit",
    .doc = "signs, and the mean magnitude of each block",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = onebit_init,
    .unit = onebit_unit,
    .bound = onebit_bound,
    .encode = onebit_encode,
    .decode = onebit_decode,
};
