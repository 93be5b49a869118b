/* SPDX-License-Identifier: Apache-2.0 */
/** The generator below wring_codec_random(). */
#ifndef WRING_COMPRESS_PHILOX_H
#define WRING_COMPRESS_PHILOX_H

#include <stdint.h>

#define WRING_PHILOX_WORDS 4

/** Philox4x32-10: a bijection of the counter that looks random, another one for each key. */
void wring_philox(const uint32_t counter[WRING_PHILOX_WORDS], const uint32_t key[2],
                  uint32_t out[WRING_PHILOX_WORDS]);

#endif
