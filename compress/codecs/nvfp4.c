/* SPDX-License-Identifier: Apache-2.0 */
/**
 * nvfp4: blocks of 16 floats of 4 bits, each with a step in e4m3, and a second step above those.
 *
 * The second step belongs to a unit here, not to the whole tensor: so units need nothing of each
 * other, no round finds a scale for all, and a unit of small values keeps its own range.
 *
 * Source: Pretraining large language models with NVFP4, arXiv:2509.25149. Bytes in FORMAT.md,
 * "nvfp4".
 */
#include "compress/codecs/minifloat.h"

#include <string.h>

#include "compress/kernels/bits.h"

#define BLOCK 16
#define TINY 0x1p-100f     /* a smaller peak counts as 0: no step is a denormal */
#define STEP_MAX 448       /* of a block */
#define TOP 0x1.86186p116f /* 448 · 6 times this is finite */

enum {
    PARAM_ROUND,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_ROUND] = {"round", "even|random", "to the nearest, or up or down at random", 0, 0, 1, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements that share the step of steps", 1024, 64,
                     WRING_MINIFLOAT_WINDOW, 64},
};

/** Of any bytes, without their signs. */
static void steps(const struct wring_minifloat_plan *plan, float head, const uint8_t *bytes,
                  uint64_t blocks, float *step)
{
    uint8_t sizes[WRING_MINIFLOAT_WINDOW / BLOCK];

    for (uint64_t b = 0; b < blocks; b++)
        sizes[b] = bytes[b] & 0x7F;
    plan->kernels->forms[WRING_E4M3].decode(step, sizes, blocks, &head);
}

/** Steps that are too small for the largest of their block become the next. */
static void raise_bytes(const uint32_t *peaks, uint64_t blocks, const float *step, float largest,
                        uint8_t *bytes)
{
    for (uint64_t b = 0; b < blocks; b++)
        bytes[b] +=
            step[b] * largest < wring_float_of(peaks[b]) && bytes[b] < WRING_MINIFLOAT_TOP_8;
}

static void scale(const struct wring_minifloat_plan *plan, const uint32_t *peaks, uint32_t largest,
                  uint64_t blocks, float *head, uint8_t *bytes, float *inverse, float *step)
{
    const struct wring_minifloat_form *form = &plan->kernels->forms[WRING_E4M3];
    float sizes[WRING_MINIFLOAT_WINDOW / BLOCK], peak = wring_float_of(largest);
    bool tiny = peak < TINY;
    float whole = tiny ? 0 : peak / (STEP_MAX * plan->largest),
          to_bytes = tiny ? 0 : STEP_MAX / peak;

    memcpy(sizes, peaks, blocks * sizeof(*sizes)); /* as numbers */
    whole = whole < plan->top ? whole : plan->top;
    *head = whole * plan->keep;
    form->encode[WRING_ROUND_EVEN](bytes, sizes, NULL, blocks, &to_bytes, NULL, NULL);
    form->decode(step, bytes, blocks, &whole);
    if (plan->random && !tiny) {
        raise_bytes(peaks, blocks, step, plan->largest, bytes);
        form->decode(step, bytes, blocks, &whole);
    }
    plan->kernels->invert(inverse, step, blocks);
    if (plan->keep < 1)
        form->decode(step, bytes, blocks, head);
}

static const struct wring_minifloat_scaling by_bytes = {true, true, scale, steps};

/**
 * The largest of a block is at least 6 · 8/9 steps, and what is below 1 has a variance of 1/16.
 * Blocks whose steps are denormals are too small beside the unit to count.
 */
static enum wring_status nvfp4_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct wring_minifloat_plan *plan = codec->own;

    (void)why, (void)why_bytes;
    plan->scaling = &by_bytes;
    plan->unit = (uint64_t)codec->params[PARAM_BLOCK];
    plan->block = BLOCK;
    plan->omega = 0x1p-4 + (BLOCK - 1) * 0x1p-4 * 9 / 256;
    wring_minifloat_init(codec, WRING_E2M1_BY_16, codec->params[PARAM_ROUND] != 0, TOP);
    return WRING_OK;
}

const struct wring_codec_ops wring_codec_nvfp4 = {
    .name = "nvfp4",
    .doc = "floats of 4 bits, a step of 8 bits for each 16, and a second one for a block",
    .flags = WRING_CODEC_FIXED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_minifloat_plan),
    .init = nvfp4_init,
    .unit = wring_minifloat_unit,
    .bound = wring_minifloat_bound,
    .encode = wring_minifloat_encode,
    .decode = wring_minifloat_decode,
};
