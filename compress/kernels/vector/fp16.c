/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/fp16.h"
#include "compress/kernels/vector/code16.h"

/** As the processor does it. */
INLINE struct coded code_pair(struct pair value)
{
    half_shorts low = narrow_f16(value.low), high = narrow_f16(value.high);
    return (struct coded){join_parts(low, high), {widen_f16(low), widen_f16(high)}};
}

INLINE shorts codes_of(struct pair value)
{
    return code_pair(value).codes;
}

INLINE bool is_special(struct pair value, shorts codes)
{
    (void)value;
    return any_reaches(codes + codes, 2 * WRING_FP16_INF); /* without the signs */
}

/** A NaN may keep its payload. */
INLINE floats widen_unmarked(half_shorts codes)
{
    return widen_f16(codes);
}

INLINE bool is_marked(shorts codes)
{
    (void)codes;
    return false;
}

INLINE floats widen(half_shorts codes)
{
    floats value = widen_f16(codes);
    return choose(unordered(value), (floats)all_words(WRING_NAN_BITS), value);
}

INLINE floats round_by(floats value, words noise, uint32_t top)
{
    const words largest = all_words(WRING_FP16_SATURATE & WRING_FP16_CUT);
    words magnitude = magnitude_of(value);
    lanes small = above(all_words(WRING_FP16_LEAST), magnitude);
    lanes beyond = above(magnitude, all_words(WRING_FP16_SATURATE));
    floats base = choose(small, (floats)all_words(WRING_FP16_LEAST), (floats){0});
    words sum = (words)((floats)magnitude + base) + (noise >> 3);
    words rounded = smaller((words)((floats)(sum & WRING_FP16_CUT) - base), largest);

    rounded = (words)choose(beyond, (floats)all_words(top & WRING_FP16_CUT), (floats)rounded);
    return choose(finite_lanes(value), (floats)(rounded | ((words)value & WRING_SIGN_BITS)),
                  (floats)all_words(WRING_NAN_BITS));
}

INLINE shorts exact_codes(struct pair value)
{
    return join_parts(narrow_f16(value.low), narrow_f16(value.high));
}

static void encode(void *code, const float *src, uint64_t n, uint32_t top)
{
    encode_to(code, src, n, top);
}

static void encode_feedback(void *code, const float *src, float *residual, uint64_t n)
{
    feed_to(code, src, residual, n, WRING_FP16_SATURATE);
}

const struct wring_fp16_kernels OF_TIER(wring_fp16) = {
    encode, encode_feedback, encode_random, decode, decode_add,
};
