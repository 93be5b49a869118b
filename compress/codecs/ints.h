/* SPDX-License-Identifier: Apache-2.0 */
/** Steps of 2, 4 or 8 bits of a block's largest magnitude, or of its range: int2, int4, and int8
 * with range=minmax. */
#ifndef WRING_CODECS_INTS_H
#define WRING_CODECS_INTS_H

#include "compress/codec.h"
#include "compress/kernels/ints.h"

/** What follows from the parameters: a codec's own memory. */
struct wring_ints_plan {
    unsigned bits;
    bool minmax;
    size_t head; /* bytes */
    float scale_max;
    const struct wring_ints_form *form;
};

/** Fill codec->own, and take kernels. @param bits  2, 4, or with minmax 8 */
void wring_ints_init(struct wring_codec *codec, unsigned bits, bool minmax);

/* As entries of the codec's table, whose unit is its block. */
size_t wring_ints_bound(const struct wring_codec *codec, uint64_t elems);
size_t wring_ints_encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, uint64_t elems, float *residual, void *code,
                         void *scratch);
enum wring_status wring_ints_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context, const void *code,
                                    size_t code_bytes, float *dst, uint64_t elems, bool add);

#endif
