/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Codecs of a program's own that keep state beside the residual. What travels is float32, so that
 * results are exact where the numbers are.
 *
 *     mom     each rank's momentum of its own contributions: m = factor m + x, and m is sent
 *     ownmom  momentum of the sums, which their owners keep; needs the divisible scheme
 *     warm    all ranks alike count steps down from a table: x is sent `table[0]` times
 */
#ifndef WRING_TESTS_MOMENTUM_H
#define WRING_TESTS_MOMENTUM_H

#include <wring/codec.h>

/** All of them, for wring_session_params.codecs. */
extern const struct wring_codec_ops *const momentum_codecs[];

#endif
