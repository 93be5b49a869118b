/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The values that a sparse codec sends, coded by another codec, as in "topk/int8". They are coded
 * as a run of their own, in the order of their indices. Private to the codecs.
 */
#ifndef WRING_CODECS_VALUES_H
#define WRING_CODECS_VALUES_H

#include "compress/codec.h"

#define WRING_VALUES_PIECE 1024 /* the most values that are coded at a time */

/** How the values of a block are coded. */
struct wring_values {
    const struct wring_codec *codec;           /* NULL: they are f32, as they are */
    const struct wring_codec_context *context; /* of the run */
    uint64_t begin;                            /* of the block, within the run */
};

/** A walk along the marks of a block. */
struct wring_values_walk {
    const uint64_t *map;
    uint64_t n, word, left; /* elements; the word that is looked at, and what is left of it */
};

/** Bytes of so many values. @param codec  NULL: f32 */
size_t wring_values_bytes(const struct wring_codec *codec, uint64_t count);

struct wring_values_walk wring_values_walk(const uint64_t *map, uint64_t n);

/** @param index  out, of the next marked element. @return false: there is none */
bool wring_values_next(struct wring_values_walk *walk, uint64_t *index);

/**
 * Code the marked elements of src + residual.
 * @param code  out, [wring_values_bytes(values->codec, count)]
 * @return false: some value, which is finite, does not decode to a finite one
 */
bool wring_values_encode(const struct wring_values *values, const uint64_t *map, const float *src,
                         const float *residual, uint64_t n, uint64_t count, unsigned char *code);

/** Take from the marked elements what their code decodes to. @param fed  inout, [n] */
void wring_values_take(const struct wring_values *values, const uint64_t *map, float *fed,
                       uint64_t n, uint64_t count, const unsigned char *code);

/**
 * Decode `count` values from value `done` on, at most WRING_VALUES_PIECE of them.
 * @param out  [WRING_VALUES_PIECE]
 * @return how many; 0: the code is malformed, or some value is not finite
 */
uint64_t wring_values_decode(const struct wring_values *values, const unsigned char *code,
                             uint64_t count, uint64_t done, float *out);

#endif
