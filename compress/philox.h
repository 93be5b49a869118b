/* SPDX-License-Identifier: Apache-2.0 */
/** What wring_codec_random() draws from, for codecs that take many numbers at a time. */
#ifndef WRING_COMPRESS_PHILOX_H
#define WRING_COMPRESS_PHILOX_H

#include "compress/kernels/philox.h"
#include <wring/codec.h>

/**
 * The numbers of a context, for the kernels of wring_philox_tiers: word i of block b is the number
 * of element 4 · b + i, as wring_codec_random() gives it.
 */
struct wring_philox_stream wring_codec_stream(const struct wring_codec_context *context,
                                              enum wring_codec_draw draw);

#endif
