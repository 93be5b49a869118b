/* SPDX-License-Identifier: Apache-2.0 */
/** Codes of 16 bits, rounded up or down at random: bf16 and fp16 with round=random. */
#ifndef WRING_CODECS_CASTS_H
#define WRING_CODECS_CASTS_H

#include "compress/codec.h"

/** Encode any number of elements, of which the first is that of a run of noise. See bf16.h. */
typedef void (*wring_cast_random_fn)(void *code, const float *src, float *residual, uint64_t n,
                                     const uint32_t *noise, uint32_t top, bool far);

/** As an encode of the codec's table. @param top  goes to `encode` as it is */
size_t wring_cast_random(const struct wring_codec *codec, const struct wring_codec_context *context,
                         wring_cast_random_fn encode, uint32_t top, const float *src,
                         uint64_t elems, float *residual, void *code);

#endif
