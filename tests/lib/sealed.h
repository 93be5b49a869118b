/* SPDX-License-Identifier: Apache-2.0 */
/** A codec that loses nothing and trusts nobody: its decoder wants the encoder's very context. */
#ifndef WRING_TESTS_SEALED_H
#define WRING_TESTS_SEALED_H

#include <wring/codec.h>

/**
 * "sealed", for wring_session_params.codecs. Each unit of 32 elements travels as it is, after 8
 * bytes that depend on all of the context; under another one it is malformed.
 */
extern const struct wring_codec_ops *const wring_test_sealed[];

#endif
