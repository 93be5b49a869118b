/* SPDX-License-Identifier: Apache-2.0 */
/**
 * fp8: floats of 8 bits times a step of each block, whose largest magnitude is the format's.
 *
 * Source: FP8 formats for deep learning, arXiv:2209.05433; gradients of FP8 with a scale, FP8-LM,
 * arXiv:2310.18313, and with one of each block, DeepSeek-V3, arXiv:2412.19437. Bytes in FORMAT.md,
 * "fp8".
 */
#include "compress/codecs/minifloat.h"

#include "compress/kernels/bits.h"

#define TINY 0x1p-100f /* a smaller peak counts as 0: no step is a denormal */

enum {
    PARAM_FORMAT,
    PARAM_ROUND,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_FORMAT] = {"format", "e4m3|e5m2", "bits of exponent and fraction", 0, 0, 1, 1},
    [PARAM_ROUND] = {"round", "even|random", "to the nearest, or up or down at random", 0, 0, 1, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a step", 512, 32, 65536, 32},
};

static void scale(const struct wring_minifloat_plan *plan, const uint32_t *peaks, uint32_t largest,
                  uint64_t blocks, float *head, uint8_t *bytes, float *inverse, float *step)
{
    float peak = wring_float_of(largest);
    bool tiny = peak < TINY;
    float found = peak * plan->keep / plan->largest;

    (void)peaks, (void)blocks, (void)bytes;
    *head = *step = tiny ? 0 : found < plan->top ? found : plan->top;
    *inverse = tiny ? 0 : plan->largest / peak;
}

static void steps(const struct wring_minifloat_plan *plan, float head, const uint8_t *bytes,
                  uint64_t blocks, float *step)
{
    (void)plan, (void)bytes, (void)blocks;
    *step = head;
}

static const struct wring_minifloat_scaling by_peak = {true, false, scale, steps};

static enum wring_status fp8_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    bool wide = codec->params[PARAM_FORMAT] != 0;
    struct wring_minifloat_plan *plan = codec->own;

    (void)why, (void)why_bytes;
    plan->scaling = &by_peak;
    plan->unit = plan->block = (uint64_t)codec->params[PARAM_BLOCK];
    plan->omega = wide ? 0x1p-6 : 0x1p-8;
    wring_minifloat_init(codec, wide ? WRING_E5M2 : WRING_E4M3, codec->params[PARAM_ROUND] != 0,
                         wide ? 0x1.249248p112f : 0x1.249248p119f);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_fp8 = {
    .name = "fp8",
    .doc = "floats of 8 bits, e4m3 or e5m2, and a step for each block",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_minifloat_plan),
    .init = fp8_init,
    .unit = wring_minifloat_unit,
    .bound = wring_minifloat_bound,
    .encode = wring_minifloat_encode,
    .decode = wring_minifloat_decode,
};
