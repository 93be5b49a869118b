/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Does a codec keep the contract of <wring/codec.h>? One suite for the library's codecs and for a
 * program's own, with rounds, state and codes that add up.
 *
 *     char why[300];
 *     CHECK(codec_conform(my_codecs, "mine:block=64+ef", NULL, why, sizeof(why)), "%s", why);
 *
 * The codec runs in every kernel tier that the processor has, over memory that ends at an unmapped
 * page. What is held against it, by the names that a line gives:
 *
 *     bound      a code takes at most bound() bytes, and as many with FIXED
 *     stray      nothing is read past a buffer, nothing written outside of it, and no input changed
 *     tiers      every tier makes the same bytes, and leaves the same residual and state
 *     units      a run of units is encoded and decoded as if it were alone, in whatever order
 *     adding     decode with `add` is decode, and an addition
 *     exact      EXACT: what is decoded is the input
 *     feedback   the residual is what the code lacks; residual and input are encoded as their sum
 *     length     a code that is too long or too short is refused
 *     damage     so is one of other bytes, or it is decoded to something
 *     finite     what is finite stays so, zeros stay zeros, or the unit is NaN and lacks nothing
 *     nan        a unit with NaN or infinity decodes to NaN and leaves its residual
 *     rounds     statistics do not depend on how runs are cut, and all ranks find the same
 *     sums       codes add up in any order, and to what their sum stands for where nothing of it is
 *                cut off; runs add up and end as the whole does
 *     states     equal from the start, moved to other memory, and with another object of the codec
 *     mode       the caller's floating-point mode changes nothing, and the codec leaves it alone
 *     halves     elements of 16 bits are encoded as the float32 that they are; by encode16 instead,
 *                their bits come back, and no code of another length is taken
 *
 * "tiers" to "length" are tried at each of many lengths, for codes on the way in; all others, and
 * codes on the way back, at one. ALTERS takes a codec out of exact, feedback, finite and nan, and
 * EXACT out of feedback and nan. UNBIASED need not keep zeros.
 */
#ifndef WRING_TESTS_CODEC_CONFORM_H
#define WRING_TESTS_CODEC_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/codec.h>

/** How much is tried. */
struct codec_conform_limits {
    const uint64_t *lengths; /* [n_lengths] in elements */
    size_t n_lengths;
    uint64_t deep; /* elements of what is tried at one length; 0: it is not */
    uint32_t seed; /* of input; not 0 */
    bool quick;    /* gradients alone, by the scalar tier and the best, without `length` */
};

/** 17 lengths up to 140001, and 10007. */
extern const struct codec_conform_limits codec_conform_defaults;

/**
 * Try one codec; the first fault ends it.
 *
 * @param own     a program's own codecs, as for wring_codec_create(); NULL: none
 * @param spec    one codec: of two, as in "a>b", name each by itself
 * @param limits  NULL: codec_conform_defaults
 * @param why     out, [why_bytes], one line that names spec, rule, length, phase, tier and seed
 *
 * Frees the thread's guarded memory. Catches SIGSEGV and SIGBUS for the while, so one thread of a
 * process at a time; leaves the floating-point mode as it was.
 */
bool codec_conform(const struct wring_codec_ops *const *own, const char *spec,
                   const struct codec_conform_limits *limits, char *why, size_t why_bytes);

#endif
