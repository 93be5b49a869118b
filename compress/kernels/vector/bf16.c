/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bf16.h"
#include "compress/kernels/vector/code16.h"

#define CODE_BITS 0xFFFF0000u

INLINE shorts codes_of(struct pair value)
{
    return round_shorts((words)value.low, (words)value.high);
}

INLINE struct coded code_pair(struct pair value)
{
    words low = round_up((words)value.low), high = round_up((words)value.high);
    return (struct coded){upper_shorts(low, high),
                          {(floats)(low & CODE_BITS), (floats)(high & CODE_BITS)}};
}

INLINE bool is_special(struct pair value, shorts codes)
{
    (void)codes;
    return any_near((words)value.low, (words)value.high, WRING_BF16_TOP);
}

INLINE floats widen_unmarked(half_shorts codes)
{
    return (floats)(widen_shorts(codes) << 16);
}

INLINE bool is_marked(shorts codes)
{
    return any_reaches(codes + codes, 2 * (WRING_INF_BITS >> 16)); /* without the signs */
}

INLINE floats widen(half_shorts codes)
{
    floats value = widen_unmarked(codes);
    return choose(finite_lanes(value), value, (floats)all_words(WRING_NAN_BITS));
}

INLINE floats round_by(floats value, words noise, uint32_t top)
{
    words sum = smaller((magnitude_of(value) + noise) & CODE_BITS, all_words(top));
    return choose(finite_lanes(value), (floats)(sum | ((words)value & WRING_SIGN_BITS)),
                  (floats)all_words(WRING_NAN_BITS));
}

INLINE shorts exact_codes(struct pair value)
{
    return upper_shorts((words)value.low, (words)value.high);
}

static void encode(void *code, const float *src, uint64_t n)
{
    encode_to(code, src, n, WRING_BF16_TOP);
}

static void encode_feedback(void *code, const float *src, float *residual, uint64_t n)
{
    feed_to(code, src, residual, n, WRING_BF16_TOP);
}

const struct wring_bf16_kernels OF_TIER(wring_bf16) = {
    encode, encode_feedback, encode_random, decode, decode_add,
};
