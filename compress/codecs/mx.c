/* SPDX-License-Identifier: Apache-2.0 */
/**
 * mxfp8 and mxfp4: blocks of 32 floats of 8 or 4 bits, and a power of two for each.
 *
 * Source: OCP Microscaling formats (MX) specification 1.0, 2023; arXiv:2310.10537. Rounded at
 * random, blocks take the next power where the largest element would else be cut off: so did
 * arXiv:2502.20586 by another way. Bytes in FORMAT.md, "mxfp8, mxfp4".
 */
#include "compress/codecs/minifloat.h"

#include "compress/kernels/bits.h"

#define BLOCK 32
#define UNIT 128
#define FIELD_MAX 254 /* beyond it the largest number might round to infinity */

enum {
    PARAM_ROUND, /* of both codecs */
    PARAM_FORMAT
};

#define ROUND                                                                         \
    {                                                                                 \
        "round", "even|random", "to the nearest, or up or down at random", 0, 0, 1, 1 \
    }

static const struct wring_codec_param params_8[] = {
    [PARAM_ROUND] = ROUND,
    [PARAM_FORMAT] = {"format", "e4m3|e5m2", "bits of exponent and fraction", 0, 0, 1, 1},
};

static const struct wring_codec_param params_4[] = {
    [PARAM_ROUND] = ROUND,
};

/** The exponent of the largest, less the format's: a byte of 127 stands for 1. */
static void scale(const struct wring_minifloat_plan *plan, const uint32_t *peaks, uint32_t largest,
                  uint64_t blocks, float *head, uint8_t *bytes, float *inverse, float *step)
{
    uint32_t fraction = wring_bits_of(plan->largest) & 0x7FFFFF, most = (uint32_t)plan->exponent;
    uint32_t up = plan->random ? 0x7FFFFF - fraction : 0; /* carries from a larger fraction */

    (void)head, (void)largest;
    for (uint64_t b = 0; b < blocks; b++) {
        uint32_t field = (peaks[b] + up) >> 23; /* of the exponent */
        field = field < FIELD_MAX ? field : FIELD_MAX;
        uint32_t byte = field > most ? field - most : 0;
        bytes[b] = (uint8_t)byte;
        inverse[b] = wring_float_of((254 - byte) << 23);
        step[b] = plan->table[byte];
    }
}

static void steps(const struct wring_minifloat_plan *plan, float head, const uint8_t *bytes,
                  uint64_t blocks, float *step)
{
    (void)head;
    for (uint64_t b = 0; b < blocks; b++)
        step[b] = plan->table[bytes[b]];
}

static const struct wring_minifloat_scaling by_power = {false, true, scale, steps};

static void init(struct wring_codec *codec, enum wring_minifloat format, double omega)
{
    struct wring_minifloat_plan *plan = codec->own;

    plan->scaling = &by_power;
    plan->unit = UNIT;
    plan->block = BLOCK;
    plan->omega = omega;
    wring_minifloat_init(codec, format, codec->params[PARAM_ROUND] != 0, 0);
    plan->table[0] = 0x1p-127f * plan->keep;
    for (uint32_t byte = 1; byte < 255; byte++)
        plan->table[byte] = wring_float_of(byte << 23) * plan->keep;
    plan->table[255] = wring_float_of(WRING_NAN_BITS);
}

static enum wring_status mxfp8_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    bool wide = codec->params[PARAM_FORMAT] != 0;

    (void)why, (void)why_bytes;
    init(codec, wide ? WRING_E5M2_BY_32 : WRING_E4M3_BY_32, wide ? 0x1p-6 : 0x1p-8);
    return WRING_OK;
}

/** The largest of a block is at least 3 steps, and what is below 1 has a variance of 1/16. */
static enum wring_status mxfp4_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    init(codec, WRING_E2M1_BY_32, 0x1p-4 + (BLOCK - 1) * 0x1p-4 / 9);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_mxfp8 = {
    .name = "mxfp8",
    .doc = "floats of 8 bits, e4m3 or e5m2, and a power of two for each 32 (OCP MX)",
    .flags = WRING_CODEC_FIXED,
    .params = params_8,
    .n_params = sizeof(params_8) / sizeof(params_8[0]),
    .own_bytes = sizeof(struct wring_minifloat_plan),
    .init = mxfp8_init,
    .unit = wring_minifloat_unit,
    .bound = wring_minifloat_bound,
    .encode = wring_minifloat_encode,
    .decode = wring_minifloat_decode,
};

const struct wring_codec_ops wring_codec_mxfp4 = {
    .name = "mxfp4",
    .doc = "floats of 4 bits, and a power of two for each 32 (OCP MX)",
    .flags = WRING_CODEC_FIXED,
    .params = params_4,
    .n_params = sizeof(params_4) / sizeof(params_4[0]),
    .own_bytes = sizeof(struct wring_minifloat_plan),
    .init = mxfp4_init,
    .unit = wring_minifloat_unit,
    .bound = wring_minifloat_bound,
    .encode = wring_minifloat_encode,
    .decode = wring_minifloat_decode,
};
