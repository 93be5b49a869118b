/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/residual.h"
#include "compress/kernels/x86/noise.h"

#define RUN WRING_NOISE_RUN

INLINE void narrow_run(uint16_t *halves, const float *values, const uint32_t *noise)
{
    for (unsigned at = 0; at < RUN; at += LANES) {
        floats value = load(values + at);
        words upper = (magnitude_of(value) + (words)noise_at(noise, at)) >> 16;
        words sign = (words)value >> 31 << 15;
        upper = smaller(upper, all_words(WRING_RESIDUAL_BF16_TOP));
        store_part(halves + at, lower_shorts(upper | sign));
    }
}

static void widen(float *out, const uint16_t *halves, uint64_t n)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, (floats)(widen_shorts(load_part(halves + i)) << 16));
    if (i < n) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, halves + i, (n - i) * sizeof(*halves));
        store_first(out + i, (floats)(widen_shorts(load_part(rest)) << 16), (unsigned)(n - i));
    }
}

static void narrow(uint16_t *halves, const float *values, uint64_t n, const uint32_t *noise)
{
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN)
        narrow_run(halves + i, values + i, noise + i / 2);
    if (i < n) {
        float rest[RUN] = {0};
        uint16_t codes[RUN];
        memcpy(rest, values + i, (n - i) * sizeof(*values));
        narrow_run(codes, rest, noise + i / 2);
        memcpy(halves + i, codes, (n - i) * sizeof(*halves));
    }
}

const struct wring_residual_kernels OF_TIER(wring_residual) = {
    widen,
    narrow,
};
