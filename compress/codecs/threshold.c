/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/threshold.h"

#include "compress/kernels/bits.h"

#define DIGIT_BINS 2048

/** The digits of a 31-bit magnitude, highest first. */
static const struct {
    unsigned shift, bits;
} digits[] = {{20, 11}, {10, 10}, {0, 10}};

/** Count by one digit the magnitudes whose higher digits are those of `prefix`. */
static void count_digit(uint32_t bins[DIGIT_BINS], const float *src, const float *residual,
                        uint64_t n, uint32_t prefix, size_t digit)
{
    unsigned shift = digits[digit].shift, above = shift + digits[digit].bits;
    uint32_t mask = (1u << digits[digit].bits) - 1;

    memset(bins, 0, DIGIT_BINS * sizeof(*bins));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        if (magnitude >> above == prefix >> above)
            bins[magnitude >> shift & mask]++;
    }
}

uint32_t wring_threshold_exact(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    uint32_t bins[DIGIT_BINS];
    uint32_t prefix = 0;

    for (size_t digit = 0; digit < sizeof(digits) / sizeof(digits[0]); digit++) {
        count_digit(bins, src, residual, n, prefix, digit);
        uint32_t bin = (1u << digits[digit].bits) - 1;
        for (; k > bins[bin]; bin--) /* ends: the bins hold at least k */
            k -= bins[bin];
        prefix |= bin << digits[digit].shift;
    }
    return prefix;
}

uint32_t wring_threshold_sampled(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    float sample[WRING_SAMPLE_MAX];
    uint64_t count = n / WRING_SAMPLE_STRIDE;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t offset = (uint32_t)i * 0x9E3779B1u >> 28; /* so that no column is favoured */
        sample[i] = wring_fed(src, residual, i * WRING_SAMPLE_STRIDE + offset);
    }
    uint64_t rank = (k * count + n - 1) / n;
    return wring_threshold_exact(sample, NULL, count, rank);
}
