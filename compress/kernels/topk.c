/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/topk.h"

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

/** Digit by digit, as a radix sort would. */
static uint32_t rank_scalar(const float *src, const float *residual, uint64_t n, uint64_t k)
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

static struct wring_topk_found mark_scalar(uint64_t *map, const float *src, const float *residual,
                                           uint64_t n, uint32_t threshold)
{
    struct wring_topk_found found = {0, 0};

    memset(map, 0, WRING_TOPK_WORDS(n) * sizeof(*map));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = wring_magnitude(wring_fed(src, residual, i));
        found.peak = magnitude > found.peak ? magnitude : found.peak;
        found.count += magnitude >= threshold;
        map[i / 64] |= (uint64_t)(magnitude >= threshold) << i % 64;
    }
    return found;
}

void wring_topk_gather(void *values, void *indices, const uint64_t *map, const float *src,
                       const float *residual, uint64_t n)
{
    char *value = values, *index = indices;

    for (uint64_t word = 0; word < WRING_TOPK_WORDS(n); word++)
        for (uint64_t left = map[word]; left != 0; left &= left - 1) {
            uint16_t at = (uint16_t)(word * 64 + (unsigned)__builtin_ctzll(left));
            wring_put_u32(value, wring_bits_of(wring_fed(src, residual, at)));
            memcpy(index, &at, sizeof(at));
            value += 4;
            index += 2;
        }
}

static void retain_scalar(float *residual, const float *src, const uint64_t *map, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        residual[i] = map[i / 64] >> i % 64 & 1 ? 0 : src[i] + residual[i];
}

static void find_scalar(struct wring_topk_list *list, const float *src, const float *residual,
                        uint64_t n, uint32_t threshold)
{
    list->count = list->peak = 0;
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        uint32_t magnitude = wring_magnitude(value);
        if (magnitude < threshold)
            continue;
        if (list->count++ == WRING_TOPK_LISTED)
            return;
        list->values[list->count - 1] = value;
        list->indices[list->count - 1] = (uint16_t)i;
        list->peak = magnitude > list->peak ? magnitude : list->peak;
    }
}

uint32_t wring_topk_sampled(float *out, const struct wring_topk_list *list, uint64_t n)
{
    uint32_t count = 0, samples = (uint32_t)(n / WRING_TOPK_STRIDE);

    for (uint32_t entry = 0; entry < list->count;
         entry++) { /* no branch: nobody could foresee it */
        uint32_t index = list->indices[entry], sample = index / WRING_TOPK_STRIDE;
        bool is_sample = sample * 0x9E3779B1u >> 28 == index % WRING_TOPK_STRIDE;
        out[count] = list->values[entry];
        count += is_sample & (sample < samples);
    }
    return count;
}

void wring_topk_sift(struct wring_topk_list *list, uint32_t threshold)
{
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry++) {
        float value = list->values[entry];
        list->values[count] = value;
        list->indices[count] = list->indices[entry];
        count += wring_magnitude(value) >= threshold;
    }
    list->count = count;
}

bool wring_topk_take_never(struct wring_topk_list *list, struct wring_topk_undo *undo,
                           const float *src, float *residual, uint64_t n, uint32_t *threshold,
                           uint64_t enough)
{
    (void)undo, (void)src, (void)residual, (void)n, (void)threshold, (void)enough;
    list->count = 0; /* it did not fail for want of room: nobody need try again */
    return false;
}

void wring_topk_give_nothing_back(const struct wring_topk_undo *undo, const float *src,
                                  float *residual)
{
    (void)undo, (void)src, (void)residual; /* as it has never been taken */
}

static void leave_scalar(float *residual, const float *src, uint64_t n, uint32_t threshold)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = src[i] + residual[i];
        residual[i] = wring_magnitude(value) >= threshold ? 0 : value;
    }
}

static const struct wring_topk_kernels scalar = {
    .rank = rank_scalar,
    .mark = mark_scalar,
    .gather = wring_topk_gather,
    .retain = retain_scalar,
    .find = find_scalar,
    .sampled = wring_topk_sampled,
    .sift = wring_topk_sift,
    .take = wring_topk_take_never,
    .give_back = wring_topk_give_nothing_back,
    .leave = leave_scalar,
};

const struct wring_topk_tier wring_topk_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_topk){{NULL, 0}, NULL},
};
