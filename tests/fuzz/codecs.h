/* SPDX-License-Identifier: Apache-2.0 */
/** The codecs that the codec targets know by number, in every tier that runs here. */
#ifndef WRING_TESTS_FUZZ_CODECS_H
#define WRING_TESTS_FUZZ_CODECS_H

#include "base/cpu.h"
#include "tests/fuzz/fuzz.h"
#include <wring/codec.h>

#define FUZZ_CODECS 128 /* numbers that an input can name; more than there are */

/** One codec by its tiers; NULL for those that this processor lacks. The scalar one is first. */
struct fuzz_codec {
    struct wring_codec *tiers[WRING_CPU_TIERS];
};

/** The codec of a number, made once and kept; NULL for numbers without one. */
const struct fuzz_codec *fuzz_codec(uint32_t number);

#endif
