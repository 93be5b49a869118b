/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a spec adds to a codec: "/values", "+warmup", "+momentum" and "+nesterov". +ef is the
 * codecs' own business. Private to compress/.
 *
 * Suffixes act in the order warm-up of the ratio, momentum, residual, code, whatever their order in
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
 * Give sums a residual of their own, where owners encode their own contributions as well, and both
 * ways have feedback: a bucket's residual is that of contributions alone then. Else do nothing.
 * @param codec  of both ways. Arguments and errors as above
 */
enum wring_status wring_compose_owed(struct wring_codec *codec, char *why, size_t why_bytes);

/**
 * Can the codec's ratio be warmed up, if the spec wants that? Runs before init. Arguments and
 * errors as above.
 */
enum wring_status wring_compose_check(const struct wring_codec *codec, char *why, size_t why_bytes);

#endif
