/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What fuzz targets share. A target is one file with one function, LLVMFuzzerTestOneInput(), and
 * the same file serves twice: linked with driver.c, which replays a corpus as an ordinary test and
 * mutates it for some seconds (any compiler), or with libFuzzer (clang, -Dfuzzing=enabled), which
 * is guided by coverage.
 *
 * A target aborts through FUZZ_CHECK when a property does not hold; memory errors are left to
 * ASan, so inputs and outputs lie in allocations of exactly their size.
 */
#ifndef WRING_TESTS_FUZZ_H
#define WRING_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_BYTES_MAX (64u << 10) /* of one input */

/** Returns 0, whatever the input was. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition, ...)                                          \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fputc('\n', stderr);                                            \
            abort();                                                        \
        }                                                                   \
    } while (0)

/** The input, from front to back; past its end come zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

static inline uint32_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint32_t value = 0;
    for (size_t i = 0; i < bytes && input->left > 0; i++, input->left--)
        value |= (uint32_t)*input->data++ << 8 * i;
    return value;
}

/** A copy that ends where its allocation ends, and begins `skew` bytes after where it began. */
static inline uint8_t *fuzz_copy(const void *data, size_t bytes, size_t skew, void **allocation)
{
    uint8_t *copy = malloc(bytes + skew + (bytes + skew == 0));
    FUZZ_CHECK(copy != NULL, "out of memory");
    if (bytes > 0)
        memcpy(copy + skew, data, bytes);
    *allocation = copy;
    return copy + skew;
}

/** The whole input as text, cut at its first NUL. The caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL, "out of memory");
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
