/* SPDX-License-Identifier: Apache-2.0 */
/** A codec that loses nothing and trusts nobody: its decoder wants the encoder's very context. */
#ifndef WRING_TESTS_SEALED_H
#define WRING_TESTS_SEALED_H

#include <wring/codec.h>

/**
 * Make this codec of one that was created from any spec of one way. Each unit of 32 elements
 * travels as it is, after 8 bytes that depend on all of the context; under another one it is
 * malformed.
 */
void wring_test_seal(struct wring_codec *codec);

#endif
