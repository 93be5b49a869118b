/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Residuals in memory: f32, or bf16 for "+ef:residual=bf16". Pointers to them are float * in either
 * case, and these functions know how far apart elements are. Private to the library.
 *
 * To nearest, a bf16 would swallow what is less than a 512th of it, step by step; so jobs round at
 * random, and the mean is right. Source: Gupta and others (arXiv:1502.02551).
 */
#ifndef WRING_COMPRESS_RESIDUAL_H
#define WRING_COMPRESS_RESIDUAL_H

#include "compress/codec.h"

#define WRING_RESIDUAL_PIECE 256 /* elements that are copied at a time, as f32 */

/** Bytes of an element. @param codec  of the bucket or of a way */
static inline size_t wring_residual_elem_bytes(const struct wring_codec *codec)
{
    return codec->short_residual ? sizeof(uint16_t) : sizeof(float);
}

/** From an element on. */
static inline float *wring_residual_run(const struct wring_codec *codec, const float *residual,
                                        uint64_t element)
{
    return (float *)(uintptr_t)((uintptr_t)residual + element * wring_residual_elem_bytes(codec));
}

/** out = n elements from that one on. */
void wring_residual_read(const struct wring_codec *codec, const float *residual, uint64_t element,
                         uint64_t n, float *out);

/** The reverse, rounded to nearest, as for a state that is loaded. */
void wring_residual_write(const struct wring_codec *codec, float *residual, uint64_t element,
                          uint64_t n, const float *values);

/**
 * residual = values, rounded to bf16 at random: what a job leaves.
 * @param context  of the run, which begins at a multiple of 32 elements. Bits: FORMAT.md, "Error
 * feedback"
 */
void wring_residual_round(const struct wring_codec *codec,
                          const struct wring_codec_context *context, float *residual,
                          const float *values, uint64_t n);

#endif
