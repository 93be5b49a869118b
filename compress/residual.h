/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Residuals in memory: f32, or what "+ef:residual" says. Pointers to them are float * in all cases,
 * and these functions know where elements lie. Private to the library.
 *
 * To nearest, a bf16 would swallow what is less than a 512th of it, step by step; so jobs round at
 * random, and the mean is right. Source: Gupta and others (arXiv:1502.02551).
 */
#ifndef WRING_COMPRESS_RESIDUAL_H
#define WRING_COMPRESS_RESIDUAL_H

#include "compress/codec.h"
#include "compress/kernels/residual.h"

#define WRING_RESIDUAL_PIECE 256 /* elements that are copied at a time, as f32 */

/** Bytes of so many elements from the first one on, in whole blocks. Encodes alone would need no
 *  more than for f32. @param codec  of the bucket or of a way */
static inline size_t wring_residual_size(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t blocks = (elems + WRING_RESIDUAL_BLOCK - 1) / WRING_RESIDUAL_BLOCK;

    switch (codec->residual_form) {
    case WRING_RESIDUAL_F32:
        return (size_t)elems * sizeof(float);
    case WRING_RESIDUAL_BF16:
        return (size_t)elems * sizeof(uint16_t);
    case WRING_RESIDUAL_INT8:
        return (size_t)blocks * WRING_RESIDUAL_BLOCK_BYTES;
    }
    return 0;
}

/** From an element on; of int8, a multiple of 32. */
static inline float *wring_residual_run(const struct wring_codec *codec, const float *residual,
                                        uint64_t element)
{
    return (float *)(uintptr_t)((uintptr_t)residual + wring_residual_size(codec, element));
}

/** out = n elements from that one on. */
void wring_residual_read(const struct wring_codec *codec, const float *residual, uint64_t element,
                         uint64_t n, float *out);

/** The reverse, rounded to nearest, as for a state that is loaded. */
void wring_residual_write(const struct wring_codec *codec, float *residual, uint64_t element,
                          uint64_t n, const float *values);

/**
 * residual = values, rounded at random: what a job leaves.
 * @param context  of the run, which begins at a multiple of 32 elements. Bits: FORMAT.md, "Error
 * feedback"
 */
void wring_residual_round(const struct wring_codec *codec,
                          const struct wring_codec_context *context, float *residual,
                          const float *values, uint64_t n);

#endif
