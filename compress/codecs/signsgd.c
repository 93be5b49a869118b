/* SPDX-License-Identifier: Apache-2.0 */
/**
 * signsgd: ranks vote on the sign of each element, and the sum is the majority's, +1 or -1.
 *
 * signSGD with majority vote (Bernstein and others, arXiv:1802.04434 and 1810.05291). A zero, and a
 * vote that is a draw, take a random sign that all ranks know: with +1 for draws the result of pure
 * noise would lean to one side. Bytes in FORMAT.md, "signsgd".
 */
#include "compress/codecs/votes.h"

static const struct wring_codec_param params[] = {WRING_VOTES_PARAM_BLOCK};

static size_t signsgd_encode(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)residual, (void)scratch;
    return wring_votes_encode(codec, context, src, elems, code);
}

const struct wring_codec_ops wring_codec_signsgd = {
    .name = "signsgd",
    .doc = "a majority vote on the sign of each element: the result is 1 or -1",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_ALTERS | WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = WRING_VOTES_OWN_BYTES,
    .init = wring_votes_init,
    .unit = wring_votes_unit,
    .bound = wring_votes_bound,
    .encode = signsgd_encode,
    .decode = wring_votes_decode,
};
