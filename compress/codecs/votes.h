/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What signsgd and signum share: a rank's vote on each element is a sign, and the owner sends the
 * majority's back as another. Bytes in FORMAT.md, "signsgd". Private to compress/codecs.
 */
#ifndef WRING_CODECS_VOTES_H
#define WRING_CODECS_VOTES_H

#include "compress/codec.h"

#define WRING_VOTES_BLOCK_MAX 4096

/** Of each object. */
struct wring_votes_own;
#define WRING_VOTES_OWN_BYTES (2 * sizeof(void *))

/** For the table: a codec of votes has this parameter first. */
#define WRING_VOTES_PARAM_BLOCK                                                  \
    {                                                                            \
        "block", NULL, "elements of a unit", 1024, 32, WRING_VOTES_BLOCK_MAX, 32 \
    }

/** Entries of struct wring_codec_ops. Refuses +ef, as signs alone have no scale. */
enum wring_status wring_votes_init(struct wring_codec *codec, char *why, size_t why_bytes);
uint64_t wring_votes_unit(const struct wring_codec *codec);
size_t wring_votes_bound(const struct wring_codec *codec, uint64_t elems);
enum wring_status wring_votes_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add);

/** The bytes of n elements' votes, up to a unit. */
size_t wring_votes_bytes(uint64_t n);

/**
 * Encode one unit.
 * @param element  of the bucket, at which it begins
 * @return whether all of it is finite; else the code says that it is not
 */
bool wring_votes_encode_unit(const struct wring_codec *codec,
                             const struct wring_codec_context *context, uint64_t element,
                             const float *src, uint64_t n, unsigned char *code);

/** Encode a run of units as it is. */
size_t wring_votes_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, unsigned char *code);

/** out = keep * momentum + take * src. */
void wring_votes_mix(const struct wring_codec *codec, float *out, const float *momentum,
                     const float *src, uint64_t n, float keep, float take);

#endif
