/* SPDX-License-Identifier: Apache-2.0 */
/** "in>out": one codec towards whoever adds, another for the sum's way back. */
#ifndef WRING_COMPRESS_PAIR_H
#define WRING_COMPRESS_PAIR_H

#include "compress/codec.h"

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
