/* SPDX-License-Identifier: Apache-2.0 */
/**
 * dgc: momentum of each rank's gradient, collected until it is large, then sent.
 *
 *     u = momentum * u + gradient        v = v + u        send the largest v; there u = v = 0
 *
 * Lin and others, Deep Gradient Compression (arXiv:1712.01887): momentum correction, local
 * clipping, factor masking, and a ratio that is warmed up. Blocks are topk's. Bytes in FORMAT.md,
 * "dgc".
 */
#include "compress/codec.h"

#include <math.h>
#include <stdio.h>

#include "compress/codecs/sparse.h"
#include "compress/codecs/topk_block.h"
#include "compress/kernels/sparse.h"

enum {
    PARAM_RATIO,
    PARAM_MOMENTUM,
    PARAM_CLIP,
    PARAM_WARMUP,
    PARAM_BLOCK,
    PARAM_INDEX
};

static const struct wring_codec_param params[] = {
    [PARAM_RATIO] = {"ratio", NULL, "share of the elements that is sent", 0.001, 1e-6, 1, 0},
    [PARAM_MOMENTUM] = {"momentum", NULL, "of the rank's gradient", 0.9, 0, 1, 0},
    [PARAM_CLIP] = {"clip", NULL, "bound of a block's norm, summed over ranks; 0: none", 0, 0, 1e6,
                    0},
    [PARAM_WARMUP] = {"warmup", NULL, "steps with larger ratios, from a quarter on", 0, 0, 1e9, 1},
    [PARAM_BLOCK] = {"block", NULL, "elements to choose among", 65536, 256, WRING_TOPK_BLOCK_MAX,
                     32},
    [PARAM_INDEX] = WRING_TOPK_INDEX_PARAM,
};

enum {
    STATE_U,
    STATE_V
};

static const struct wring_codec_state states[] = {
    [STATE_U] = {"u", "momentum", WRING_CODEC_PRIVATE, WRING_F32, NULL, NULL},
    [STATE_V] = {"v", "momentum that has not been sent", WRING_CODEC_PRIVATE, WRING_F32, NULL,
                 NULL},
};

/** Its values are f32. */
static const struct wring_values plain = {NULL, NULL, 0};

/** A block: the rank's state of it, and what comes in. */
struct block {
    float *u, *v;
    const float *src;
    uint64_t n;
};

static uint64_t dgc_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status dgc_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    if (codec->info.flags & WRING_CODEC_FEEDBACK) {
        snprintf(why, why_bytes,
                 "dgc+ef: dgc keeps what it has not sent in a state of its own; leave +ef away");
        return WRING_ERR_INVALID;
    }
    wring_codec_take_kernels(codec, wring_sparse_tiers, sizeof(wring_sparse_tiers[0]));
    const struct wring_topk_tier *topk =
        wring_kernels_pick(wring_topk_tiers, sizeof(wring_topk_tiers[0]), codec->tier);
    *(const struct wring_topk_kernels **)wring_codec_own(codec) = topk->kernels;
    return WRING_OK;
}

static double ratio_at(const struct wring_codec *codec, uint64_t step)
{
    return wring_sparse_warmed(codec->params[PARAM_RATIO], codec->params[PARAM_WARMUP], step);
}

/** In any step: the first one has the largest ratio. */
static uint64_t count_most(const struct wring_codec *codec, uint64_t n)
{
    return wring_topk_most(wring_sparse_wanted(ratio_at(codec, 0), n), wring_topk_is_sampled(n), n);
}

static enum wring_topk_index index_of(const struct wring_codec *codec)
{
    return (enum wring_topk_index)codec->params[PARAM_INDEX];
}

static size_t dgc_bound(const struct wring_codec *codec, uint64_t elems)
{
    return wring_topk_bound(codec, index_of(codec), count_most, dgc_unit(codec), elems);
}

/** So that n ranks together stay within the bound. */
static float clip_factor(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const struct block *block)
{
    const struct wring_sparse_tier *tier = codec->kernels;
    double bound = codec->params[PARAM_CLIP] / sqrt((double)context->ranks);

    if (bound == 0)
        return 1;
    double norm = sqrt(tier->kernels->squares(block->src, NULL, block->n));
    return norm > bound ? (float)(bound / norm) : 1;
}

/** @return false: the block is not finite, and nothing has changed */
static bool advance(const struct wring_codec *codec, const struct wring_codec_context *context,
                    const struct block *block)
{
    const struct wring_sparse_kernels *kernels =
        ((const struct wring_sparse_tier *)codec->kernels)->kernels;
    struct wring_sparse_step step = {(float)codec->params[PARAM_MOMENTUM],
                                     clip_factor(codec, context, block)};

    if (kernels->foresee(block->u, block->v, block->src, block->n, step) >= WRING_INF_BITS)
        return false;
    kernels->advance(block->u, block->v, block->src, block->n, step);
    return true;
}

static size_t encode_block(const struct wring_codec *codec,
                           const struct wring_codec_context *context, const struct block *block,
                           struct wring_topk_hint *hint, void *scratch, unsigned char *code)
{
    const struct wring_topk_kernels *topk =
        *(const struct wring_topk_kernels **)wring_codec_own(codec);
    bool sampled = wring_topk_is_sampled(block->n);
    uint64_t wanted = wring_sparse_wanted(ratio_at(codec, context->step), block->n);
    const struct wring_topk_block choice = {
        .src = block->v,
        .n = block->n,
        .wanted = wanted,
        .most = wring_topk_most(wanted, sampled, block->n),
        .index = index_of(codec),
    };

    if (!advance(codec, context, block))
        return wring_topk_put_not_finite(code);
    size_t bytes = wring_topk_encode_block(topk, &choice, sampled, &plain, hint, scratch, code);
    wring_topk_clear_sent(code, bytes, index_of(codec), block->u, block->v, block->n);
    return bytes;
}

static size_t dgc_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch)
{
    uint64_t unit = codec->info.unit;
    struct wring_topk_hint hint = {0};
    size_t bytes = 0;

    (void)residual;
    for (uint64_t done = 0; done < elems; done += unit) {
        const struct block block = {
            .u = (float *)context->states[STATE_U] + context->element + done,
            .v = (float *)context->states[STATE_V] + context->element + done,
            .src = src + done,
            .n = wring_codec_unit_length(unit, elems - done),
        };
        bytes +=
            encode_block(codec, context, &block, &hint, scratch, (unsigned char *)code + bytes);
    }
    return bytes;
}

static enum wring_status dgc_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context, const void *code,
                                    size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    return wring_topk_decode(codec, context, index_of(codec), count_most, code, code_bytes, dst,
                             elems, add);
}

const struct wring_codec_ops wring_codec_dgc = {
    .name = "dgc",
    .doc = "the largest of each rank's momentum, which collects until it is sent",
    .flags = WRING_CODEC_ALTERS | WRING_CODEC_OWN,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_topk_kernels *),
    .scratch_bytes = sizeof(struct wring_topk_scratch),
    .init = dgc_init,
    .unit = dgc_unit,
    .bound = dgc_bound,
    .encode = dgc_encode,
    .decode = dgc_decode,
    .states = states,
    .n_states = sizeof(states) / sizeof(states[0]),
    .way_back = wring_union_name,
};
