/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a spec adds to a codec: "/values", "+warmup", "+momentum", "+nesterov" and "+ef21". +ef is
 * the codecs' own business. Private to compress/.
 *
 * Suffixes act in the order warm-up of the ratio, momentum, feedback, code, whatever their order in
 * the spec. They make a table of their own around the codec's, with more state and other flags, so
 * that all who run codecs see an ordinary one.
 */
#ifndef WRING_COMPRESS_COMPOSE_H
#define WRING_COMPRESS_COMPOSE_H

#include "compress/codec.h"

/**
 * Make codec->values, if the spec has such a codec. Arguments and errors as of
 * wring_codec_create_way(), and WRING_ERR_INVALID (it cannot code them).
 */
enum wring_status wring_compose_values(struct wring_codec *codec, const char *tier,
                                       const struct wring_codec_ops *const *own, char *why,
                                       size_t why_bytes);

/**
 * Put a codec's suffixes around its table. Its init has run, and its values are made.
 * @param why  out, [why_bytes], one line that names fault and remedy, on failure
 * Errors: WRING_ERR_INVALID.
 */
enum wring_status wring_compose(struct wring_codec *codec, char *why, size_t why_bytes);

/**
 * Fit a codec's ways together. Where owners encode their own contributions as well, and both ways
 * have feedback, sums get a residual of their own, and a bucket's residual is that of contributions
 * alone. Where contributions are differences, so are sums.
 * @param codec  of both ways. Arguments and errors as above
 */
enum wring_status wring_compose_ways(struct wring_codec *codec, char *why, size_t why_bytes);

/**
 * Where sums that come back are differences: add them to the sum that the rank holds, the result.
 * A unit that is NaN stays so, and changes nothing.
 * @param codec    of the way back @param context  of the run, with the bucket's states
 * @param sum      in and out, [n]
 * @return false: they are differences, and some are NaN
 */
bool wring_compose_hold(const struct wring_codec *codec, const struct wring_codec_context *context,
                        float *sum, uint64_t n);

/**
 * Where a sum of differences is NaN, the owner keeps what a source brought: its rank counts that as
 * sent, and will not send it again.
 * @param codec     of the way back
 * @param residual  of the sum, in and out, [n]
 * @param sum       [n]
 * @param source    [n], what its code decodes to @param divisor  of the sum
 */
void wring_compose_keep(const struct wring_codec *codec, float *residual, const float *sum,
                        const float *source, uint64_t n, float divisor);

/** Do residuals and states begin anew with another membership? Then what is left of others'
 *  contributions would stay in the sum for ever. */
static inline bool wring_compose_restarts(const struct wring_codec *codec)
{
    return wring_codec_has_suffix(wring_codec_way(codec, 0), WRING_SUFFIX_EF21);
}

/** Does an encode leave in the residual, as f32, what the code lacks? */
static inline bool wring_compose_leaves_loss(const struct wring_codec *codec, uint32_t phase)
{
    return codec->residual_form == WRING_RESIDUAL_F32 &&
           (phase != 0 || !wring_codec_has_suffix(codec, WRING_SUFFIX_EF21));
}

/**
 * May the codec have a warm-up and differences, if the spec wants them? Runs before init. Arguments
 * and errors as above.
 */
enum wring_status wring_compose_check(const struct wring_codec *codec, char *why, size_t why_bytes);

#endif
