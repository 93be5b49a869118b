/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Rounds and state of a codec outside of a job, for measurements and tests: those of one rank of a
 * group whose other members add nothing to the rounds. Private to the library and its tools.
 */
#ifndef WRING_COMPRESS_SOLO_H
#define WRING_COMPRESS_SOLO_H

#include <wring/codec.h>

struct wring_solo {
    const struct wring_codec *codec; /* of the way in, which alone has rounds or state */
    void *states[WRING_CODEC_STATES_MAX];
    void *statistics[WRING_CODEC_ROUNDS_MAX];
    void *scratch; /* of rounds; NULL: there are none */
};

/**
 * Make the arrays, states as they are before the first step and statistics as of no input, and name
 * them in the context, which says elements, shape and ranks.
 *
 * @param solo  out; stays where it is until wring_solo_finish(), as the context points into it
 * Errors: WRING_ERR_NO_MEMORY; then there is nothing to finish.
 */
enum wring_status wring_solo_init(struct wring_solo *solo, const struct wring_codec *codec,
                                  struct wring_codec_context *context);

/** Take part in all rounds. @param src, residual  [context->elems], from element 0 on */
void wring_solo_rounds(struct wring_solo *solo, const struct wring_codec_context *context,
                       const float *src, const float *residual);

/** States as they are before the first step. */
void wring_solo_restart(struct wring_solo *solo, const struct wring_codec_context *context);

void wring_solo_finish(struct wring_solo *solo);

/** The bytes of a state, and of a round's statistics. @param codec  of the way in */
size_t wring_solo_state_bytes(const struct wring_codec *codec, size_t state,
                              const struct wring_codec_context *context);
size_t wring_solo_statistics_bytes(const struct wring_codec *codec, size_t round,
                                   const struct wring_codec_context *context);

/**
 * The bytes of statistics that a rank gives to all rounds together.
 * @param codec  of the way in @param context  elements, shape and ranks
 */
uint64_t wring_solo_round_bytes(const struct wring_codec *codec,
                                const struct wring_codec_context *context);

/**
 * The bytes in which a sum of codes goes back from its owner.
 *
 * @param codec  adds codes: wring_codec_adds_codes()
 * @param out    of the sum of elems elements, as its owner sends it
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_solo_sum_bytes(const struct wring_codec *codec, uint64_t elems,
                                       size_t *out);

#endif
