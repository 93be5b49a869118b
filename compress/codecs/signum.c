/* SPDX-License-Identifier: Apache-2.0 */
/**
 * signum: ranks vote on the sign of their momentum, as signsgd's do on that of their gradients.
 *
 * Signum with majority vote (Bernstein and others, arXiv:1802.04434 and 1810.05291). The momentum
 * is the rank's own; the optimizer's has to be 0. Bytes in FORMAT.md, "signum".
 */
#include <string.h>

#include "compress/codecs/votes.h"

enum {
    PARAM_BLOCK,
    PARAM_BETA
};

enum {
    STATE_MOMENTUM
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = WRING_VOTES_PARAM_BLOCK,
    [PARAM_BETA] = {"beta", NULL, "of the momentum, what stays of it at each step", 0.9, 0, 1, 0},
};

static const struct wring_codec_state states[] = {
    [STATE_MOMENTUM] = {.name = "momentum",
                        .doc = "momentum of the rank's gradients",
                        .holder = WRING_CODEC_PRIVATE,
                        .dtype = WRING_F32},
};

/** A unit that is not finite leaves its momentum. */
static void encode_unit(const struct wring_codec *codec, const struct wring_codec_context *context,
                        uint64_t element, const float *src, uint64_t n, unsigned char *code,
                        float *mixed)
{
    float *momentum = (float *)context->states[STATE_MOMENTUM] + element;
    float beta = (float)codec->params[PARAM_BETA];

    wring_votes_mix(codec, mixed, momentum, src, n, beta, 1 - beta);
    if (wring_votes_encode_unit(codec, context, element, mixed, n, code))
        memcpy(momentum, mixed, n * sizeof(*mixed));
}

static size_t signum_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t unit = codec->info.unit;
    unsigned char *at = code;

    (void)residual;
    if (context->phase != 0)
        return wring_votes_encode(codec, context, src, elems, code);
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        encode_unit(codec, context, context->element + done, src + done, n, at, scratch);
        at += wring_votes_bytes(n);
    }
    return (size_t)(at - (unsigned char *)code);
}

const struct wring_codec_ops wring_codec_signum = {
    .name = "signum",
    .doc = "a majority vote on the sign of each rank's momentum: the result is 1 or -1",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = WRING_VOTES_BLOCK_MAX * sizeof(float),
    .own_bytes = WRING_VOTES_OWN_BYTES,
    .init = wring_votes_init,
    .unit = wring_votes_unit,
    .bound = wring_votes_bound,
    .encode = signum_encode,
    .decode = wring_votes_decode,
    .states = states,
    .n_states = sizeof(states) / sizeof(states[0]),
};
