/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Two codecs of a program's own, as a researcher would write them: integers under a scale that all
 * ranks share, which a round finds as the largest magnitude that any rank has in a unit.
 *
 *     shared8    codes of 8 bits; what an owner has added is encoded anew
 *     shared16   codes of 16 bits, small enough that the sum of all ranks' fits: owners add codes
 */
#ifndef WRING_TESTS_SHARED_SCALE_H
#define WRING_TESTS_SHARED_SCALE_H

#include <wring/codec.h>

#define SHARED_UNIT 64

extern const struct wring_codec_ops shared8, shared16;

/** Both, for wring_session_params.codecs. */
extern const struct wring_codec_ops *const shared_codecs[];

/** Gradient units in a step of shared16's codes. @param largest  of any rank in the unit */
float shared16_scale(float largest, uint32_t ranks);

#endif
