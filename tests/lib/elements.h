/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Arrays of any element type, and what reducing them must give: computed element by element from
 * the definition in compress/FORMAT.md, in another way than the kernels do.
 *
 * Call these with the floating-point mode of base/fpenv.h in force.
 */
#ifndef WRING_TESTS_ELEMENTS_H
#define WRING_TESTS_ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/types.h>

/** Element i, exactly; of complex types its real part. */
long double wring_test_element(enum wring_dtype dtype, const void *data, uint64_t i);

/** Elements of f32, f16 or bf16 as f32, exactly. By one thread at a time. */
void wring_test_widen(enum wring_dtype dtype, float *to, const void *data, uint64_t elems);

/** The nearest elements of f32, f16 or bf16, of two as near the even one; beyond the largest
 *  number infinity; NaN becomes the one NaN. @param to  may be where `data` is */
void wring_test_narrow(enum wring_dtype dtype, void *to, const float *data, uint64_t elems);

/** What random elements look like. */
enum wring_test_kind {
    WRING_TEST_PLAIN,    /* floats in [-1, 1); integers of all magnitudes; bool 0 or 1 */
    WRING_TEST_DENORMAL, /* floats about the denormals; small integers */
    WRING_TEST_LARGE,    /* sums overflow */
    WRING_TEST_BITS,     /* any bits: NaN, infinities, both zeros */
    WRING_TEST_KINDS,
};

/** Fill data, [elems], at any address. */
void wring_test_fill(enum wring_dtype dtype, void *data, uint64_t elems, enum wring_test_kind kind,
                     uint32_t seed);

#define WRING_TEST_SOURCES 80 /* at most, of a reduction */

/** dst = the reduction of src, [n_src] runs of [elems], in the order that FORMAT.md gives to so
 * many; an average is by n_src. */
void wring_test_reduce(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                       uint32_t n_src, uint64_t elems, void *dst);

/** Are so many elements of so many members summed around a ring, where that is wanted? */
bool wring_test_goes_around(uint64_t elems, uint32_t members);

/** The same in a ring's order, of sources as they stand around it: of block b from the left, from
 * source b + 1 on to b itself. */
void wring_test_reduce_ring(enum wring_dtype dtype, enum wring_op op, const void *const *src,
                            uint32_t n_src, uint64_t elems, void *dst);

/** Element i of the sum of float32 in that order, not divided. */
float wring_test_sum(const float *const *src, uint32_t n_src, uint64_t i);

/** Is a source the second operand of its step in that order? */
bool wring_test_is_second(uint32_t source, uint32_t n_src);

/** The largest power of two that is not more than n: the leaves of the tree of n sources. */
uint32_t wring_test_leaves(uint32_t n);

/** data = data / divisor, as an average divides its sum. Not of 16-bit types, whose sums are not
 * yet rounded then. */
void wring_test_divide(enum wring_dtype dtype, void *data, uint64_t elems, uint32_t divisor);

/** data = data * factor, as WRING_PREMUL_SUM does to what it sums. */
void wring_test_scale(enum wring_dtype dtype, void *data, uint64_t elems, double factor);

#endif
