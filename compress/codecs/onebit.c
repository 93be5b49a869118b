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
#include "compress/kernels/sign.h"

enum {
    PARAM_BLOCK,
    PARAM_MEANS
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share a mean", 1024, 32, 65536, 32},
    [PARAM_MEANS] = {"means", NULL, "1: of magnitudes; 2: of each sign", 1, 1, 2, 1},
};

/** What a block's two kinds of element decode to. */
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
    wring_codec_take_kernels(codec, wring_sign_tiers, sizeof(wring_sign_tiers[0]));
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
    const struct wring_sign_tier *tier = codec->kernels;
    struct wring_sign_split split;

    if (codec->params[PARAM_MEANS] == 1) {
        float mean = mean_of(tier->kernels->signs(bits, src, residual, n), n);
        return (struct levels){mean, -mean};
    }
    tier->kernels->signs_split(bits, src, residual, n, &split);
    return (struct levels){mean_of(split.positive, n - split.negatives),
                           -mean_of(split.negative, split.negatives)};
}

static bool is_finite(struct levels levels)
{
    return wring_magnitude(levels.positive) < WRING_INF_BITS &&
           wring_magnitude(levels.negative) < WRING_INF_BITS;
}

/** The means before a block's sign bits; a block that is not finite loses its bits. */
static void put_means(const struct wring_codec *codec, struct levels levels, uint64_t n,
                      unsigned char *code)
{
    size_t head = head_bytes(codec);
    bool finite = is_finite(levels);

    wring_put_u32(code, finite ? wring_magnitude(levels.positive) : WRING_NAN_BITS);
    if (head > 4)
        wring_put_u32(code + 4, finite ? wring_magnitude(levels.negative) : WRING_NAN_BITS);
    if (!finite)
        memset(code + head, 0, (n + 7) / 8);
}

static void encode_block(const struct wring_codec *codec, const float *src, uint64_t n,
                         float *residual, unsigned char *code)
{
    const struct wring_sign_tier *tier = codec->kernels;
    struct levels levels = encode_signs(codec, src, n, residual, code + head_bytes(codec));

    put_means(codec, levels, n, code);
    if (residual != NULL && is_finite(levels))
        tier->kernels->keep(residual, src, n, levels.positive, levels.negative);
}

/**
 * Whole blocks under error feedback, of one mean: a block's residual is written while the next
 * block's signs are taken, so that neither memory nor arithmetic waits for the other.
 */
static void encode_whole(const struct wring_codec *codec, const float *src, uint64_t blocks,
                         float *residual, unsigned char *code)
{
    const struct wring_sign_kernels *kernels =
        ((const struct wring_sign_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    bool behind = false; /* is the residual of the block before yet to be written? */
    float mean = 0;

    for (; blocks > 0; blocks--, src += unit, residual += unit, code += 4 + unit / 8) {
        float sum = behind ? kernels->signs_keep(code + 4, residual, src, unit, mean, -mean)
                           : kernels->signs(code + 4, src, residual, unit);
        mean = mean_of(sum, unit);
        struct levels levels = {mean, -mean};
        put_means(codec, levels, unit, code);
        behind = is_finite(levels);
    }
    if (behind)
        kernels->keep(residual - unit, src - unit, unit, mean, -mean);
}

static size_t onebit_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code)
{
    uint64_t unit = codec->info.unit, done = 0;
    unsigned char *at = code;

    (void)context;
    if (residual != NULL && codec->params[PARAM_MEANS] == 1) {
        encode_whole(codec, src, elems / unit, residual, at);
        done = elems - elems % unit;
        at += elems / unit * block_bytes(codec, unit);
    }
    for (; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        encode_block(codec, src + done, n, residual != NULL ? residual + done : NULL, at);
        at += block_bytes(codec, n);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_block(const struct wring_codec *codec, const unsigned char *code,
                                      float *dst, uint64_t n, bool add)
{
    const struct wring_sign_tier *tier = codec->kernels;
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
