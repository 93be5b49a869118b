/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The text form of one codec, or of a pair:
 *
 *     spec    one | one ">" one
 *     one     name {":" param "=" value} ["/" name {":" param "=" value}] {suffix}
 *     suffix  "+" name [":" param "=" value]
 *
 * Suffixes may be in any order; the canonical one is that of enum wring_suffix.
 */
#ifndef WRING_COMPRESS_SPEC_H
#define WRING_COMPRESS_SPEC_H

#include "compress/codec.h"

/**
 * Fill codec->ops, its parameters, suffixes and the spec of its values from a spec.
 *
 * @param own  a program's own codecs, which wring_codec_check_own() has seen; NULL: none
 * @param why  out, [why_bytes], one line that names fault and remedy, on failure
 *
 * Errors: WRING_ERR_INVALID.
 */
enum wring_status wring_spec_parse(struct wring_codec *codec, const char *spec,
                                   const struct wring_codec_ops *const *own, char *why,
                                   size_t why_bytes);

/** Write codec->spec: parameters in the table's order, defaults left out. Errors:
 *  WRING_ERR_INVALID (it is too long). */
enum wring_status wring_spec_write(struct wring_codec *codec, char *why, size_t why_bytes);

/* "in>out": one codec towards the member that adds, another for the sum's way back. */

/**
 * Make a codec from a spec that holds a '>'. Two ways that mean the same give a plain codec.
 *
 * Arguments and errors as of wring_codec_create().
 */
enum wring_status wring_pair_create(const char *spec, const char *tier,
                                    const struct wring_codec_ops *const *own, char *why,
                                    size_t why_bytes, struct wring_codec **out);

/** Destroy what a pair is made of; a plain codec has nothing such. */
void wring_pair_finish(struct wring_codec *codec);

#endif
