/* SPDX-License-Identifier: Apache-2.0 */
/** What the tests of codecs share: the specs that are tested, and calls that are checked. */
#ifndef WRING_TESTS_CODEC_CHECK_H
#define WRING_TESTS_CODEC_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/test.h"
#include <wring/codec.h>

struct codec_spec {
    const char *spec;
    const struct wring_codec_ops *const *own; /* a program's, which it names one of; NULL: none */
};

/** What is tested; {NULL} after the last. A codec of the library that is not among them fails a
 *  test. */
extern const struct codec_spec codec_specs[];

/** A job of one rank. */
extern const struct wring_codec_context codec_alone;

/** The caller destroys it. @param tier  NULL: the best @param own  NULL: none */
struct wring_codec *codec_make(const char *spec, const char *tier,
                               const struct wring_codec_ops *const *own);

/** Call a function for every spec without rounds and state, every tier that runs here, and one of
 *  the lengths of codec_conform() or all. */
void codec_for_each(void (*check)(const struct wring_codec *codec, uint64_t n), bool all_lengths);

/** Encode and decode into memory that ends at an unmapped page. @param residual may be NULL */
unsigned char *codec_encode(const struct wring_codec *codec, const float *src, uint64_t n,
                            float *residual, size_t *bytes);
float *codec_decode(const struct wring_codec *codec, const void *code, size_t bytes, uint64_t n);

bool codec_is_named(const struct wring_codec *codec, const char *name);

/** wring_test_main() under the floating-point mode of jobs. */
int codec_test_main(int argc, char **argv, const struct wring_test_case *cases);

#endif
