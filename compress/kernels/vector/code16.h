/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The kernels of 16-bit codes: a call consists of a lead up to a line, pages, steps and a rest. A
 * file that includes this defines the format, declared first.
 */
#ifndef WRING_KERNELS_CODE16_H
#define WRING_KERNELS_CODE16_H

#include "compress/kernels/vector/noise.h"

#define STEP (2 * LANES) /* elements at a time: a vector of codes, two of values */

struct pair {
    floats low, high;
};

/** A pair's codes, and the values for which they stand. */
struct coded {
    shorts codes;
    struct pair sent;
};

/** Quickly, which is right unless is_special() objects: the codes, without their values or with
 *  them. */
INLINE shorts codes_of(struct pair value);
INLINE struct coded code_pair(struct pair value);

/** May one of the values be not finite, or its code? */
INLINE bool is_special(struct pair value, shorts codes);

/** What codes stand for: quickly, which is right unless is_marked() objects; and of any codes. */
INLINE floats widen_unmarked(half_shorts codes);
INLINE bool is_marked(shorts codes);
INLINE floats widen(half_shorts codes);

/** Rounded by noise: a number that codes have, or the one NaN; and the codes of such numbers. */
INLINE floats round_by(floats value, words noise, uint32_t top);
INLINE shorts exact_codes(struct pair value);

INLINE struct pair load_pair(const float *at)
{
    return (struct pair){load(at), load(at + LANES)};
}

INLINE void put_pair(float *at, struct pair value, bool streaming)
{
    put(at, (words)value.low, streaming);
    put(at + LANES, (words)value.high, streaming);
}

/** The first n of a pair; 0 elsewhere. */
INLINE struct pair load_rest(const float *at, uint64_t n)
{
    return (struct pair){load_first(at, rest_from(n, 0)),
                         load_first(at + LANES, rest_from(n, LANES))};
}

INLINE void store_rest(float *at, struct pair value, uint64_t n)
{
    store_first(at, value.low, rest_from(n, 0));
    store_first(at + LANES, value.high, rest_from(n, LANES));
}

INLINE shorts load_codes(const uint16_t *code, uint64_t n)
{
    shorts codes = {0};
    memcpy(&codes, code, n < STEP ? n * sizeof(*code) : sizeof(codes));
    return codes;
}

INLINE void store_codes(uint16_t *code, shorts codes, uint64_t n)
{
    memcpy(code, &codes, n < STEP ? n * sizeof(*code) : sizeof(codes));
}

INLINE struct pair add_pair(struct pair a, struct pair b)
{
    return (struct pair){a.low + b.low, a.high + b.high};
}

INLINE struct pair lost(struct pair value, struct pair sent)
{
    return (struct pair){value.low - sent.low, value.high - sent.high};
}

INLINE lanes finite_lanes(floats value)
{
    return above(all_words(WRING_INF_BITS), magnitude_of(value));
}

/** A value that code_pair() takes: not beyond `top`, or the one NaN for all that is not finite. */
INLINE floats tame(floats value, uint32_t top)
{
    words capped = smaller(magnitude_of(value), all_words(top)) | ((words)value & WRING_SIGN_BITS);
    return choose(finite_lanes(value), (floats)capped, (floats)all_words(WRING_NAN_BITS));
}

/** Of any values. */
INLINE struct coded code_tamed(struct pair value, uint32_t top)
{
    return code_pair((struct pair){tame(value.low, top), tame(value.high, top)});
}

/** Any number of any values. */
static void encode_any(uint16_t *code, const float *src, uint64_t n, uint32_t top)
{
    for (uint64_t i = 0; i < n; i += STEP)
        store_codes(code + i, code_tamed(load_rest(src + i, n - i), top).codes, n - i);
}

/** Whole steps. @return how many of n are done; likewise all `_steps` and `_pages` */
INLINE uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, uint32_t top,
                             bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        struct pair value = load_pair(src + i);
        shorts codes = codes_of(value);
        if (__builtin_expect(is_special(value, codes), 0))
            codes = code_tamed(value, top).codes;
        put(code + i, (words)codes, streaming);
    }
    return i;
}

static uint64_t encode_pages(uint16_t *code, const float *src, uint64_t n, uint32_t top)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(src + i, WRING_PAGE * sizeof(*src));
        encode_steps(code + i, src + i, WRING_PAGE, top, true);
    }
    wring_streaming_settle();
    return i;
}

static void encode_to(void *code, const float *src, uint64_t n, uint32_t top)
{
    uint64_t i = WRING_LEAD(code, 2, n);
    uint16_t *out = code;

    encode_any(out, src, i, top);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2))
        i += encode_pages(out + i, src + i, n - i, top);
    i += encode_steps(out + i, src + i, n - i, top, false);
    encode_any(out + i, src + i, n - i, top);
}

/** Of any values: a residual of those that are not finite stays. */
INLINE struct coded feed_tamed(struct pair value, struct pair *residual, uint32_t top)
{
    struct coded coded = code_tamed(value, top);
    struct pair left = lost(value, coded.sent);

    residual->low = choose(finite_lanes(value.low), left.low, residual->low);
    residual->high = choose(finite_lanes(value.high), left.high, residual->high);
    return coded;
}

static void feed_any(uint16_t *code, const float *src, float *residual, uint64_t n, uint32_t top)
{
    for (uint64_t i = 0; i < n; i += STEP) {
        struct pair left = load_rest(residual + i, n - i);
        struct pair value = add_pair(load_rest(src + i, n - i), left);
        store_codes(code + i, feed_tamed(value, &left, top).codes, n - i);
        store_rest(residual + i, left, n - i);
    }
}

INLINE uint64_t feed_steps(uint16_t *code, const float *src, float *residual, uint64_t n,
                           uint32_t top, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        struct pair value = add_pair(load_pair(src + i), load_pair(residual + i));
        struct coded coded = code_pair(value);
        if (__builtin_expect(is_special(value, coded.codes), 0)) {
            feed_any(code + i, src + i, residual + i, STEP, top);
            continue;
        }
        put(code + i, (words)coded.codes, streaming);
        put_pair(residual + i, lost(value, coded.sent), false);
    }
    return i;
}

static uint64_t feed_pages(uint16_t *code, const float *src, float *residual, uint64_t n,
                           uint32_t top)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_read(src + i, WRING_PAGE * sizeof(*src));
        feed_steps(code + i, src + i, residual + i, WRING_PAGE, top, true);
    }
    wring_streaming_settle();
    return i;
}

static void feed_to(void *code, const float *src, float *residual, uint64_t n, uint32_t top)
{
    uint64_t i = WRING_LEAD(code, 2, n);
    uint16_t *out = code;

    feed_any(out, src, residual, i, top);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2))
        i += feed_pages(out + i, src + i, residual + i, n - i, top);
    i += feed_steps(out + i, src + i, residual + i, n - i, top, false);
    feed_any(out + i, src + i, residual + i, n - i, top);
}

/** @param residual  or NULL, which is known where this is inlined, as `far` is */
INLINE void round_steps(uint16_t *code, const float *src, float *residual, uint64_t n,
                        const uint32_t *noise, uint32_t top, bool far)
{
    for (uint64_t i = 0; i < n; i += STEP) {
        bool whole = n - i >= STEP;
        struct pair value = whole ? load_pair(src + i) : load_rest(src + i, n - i), left = value;
        if (residual != NULL) {
            left = whole ? load_pair(residual + i) : load_rest(residual + i, n - i);
            value = add_pair(value, left);
        }
        struct pair sent = {round_by(value.low, (words)noise_at(noise, (unsigned)i), top),
                            round_by(value.high, (words)noise_at(noise, (unsigned)i + LANES), top)};
        if (whole)
            put(code + i, (words)exact_codes(sent), far);
        else
            store_codes(code + i, exact_codes(sent), n - i);
        if (residual == NULL)
            continue;
        struct pair lacks = lost(value, sent);
        left.low = choose(finite_lanes(value.low), lacks.low, left.low);
        left.high = choose(finite_lanes(value.high), lacks.high, left.high);
        if (whole)
            put_pair(residual + i, left, false);
        else
            store_rest(residual + i, left, n - i);
    }
}

static void encode_random(void *code, const float *src, float *residual, uint64_t n,
                          const uint32_t *noise, uint32_t top, bool far)
{
    if (residual == NULL && far) /* each way inlined for itself */
        round_steps(code, src, NULL, n, noise, top, true);
    else if (residual == NULL)
        round_steps(code, src, NULL, n, noise, top, false);
    else if (far)
        round_steps(code, src, residual, n, noise, top, true);
    else
        round_steps(code, src, residual, n, noise, top, false);
}

INLINE struct pair widen_pair(shorts codes)
{
    return (struct pair){widen(lower_part(codes)), widen(upper_part(codes))};
}

static void decode_any(float *dst, const uint16_t *code, uint64_t n, bool add)
{
    for (uint64_t i = 0; i < n; i += STEP) {
        struct pair value = widen_pair(load_codes(code + i, n - i));
        if (add)
            value = add_pair(load_rest(dst + i, n - i), value);
        store_rest(dst + i, value, n - i);
    }
}

INLINE uint64_t decode_steps(float *dst, const uint16_t *code, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        put_pair(dst + i,
                 (struct pair){widen(load_part(code + i)), widen(load_part(code + i + LANES))},
                 streaming);
    return i;
}

static uint64_t decode_pages(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(code + i, WRING_PAGE * sizeof(*code));
        decode_steps(dst + i, code + i, WRING_PAGE, true);
    }
    wring_streaming_settle();
    return i;
}

static void decode(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, false);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(dst, 4) && VECTOR_BYTES == WRING_LINE)
        i += decode_pages(dst + i, in + i, n - i);
    i += decode_steps(dst + i, in + i, n - i, false);
    decode_any(dst + i, in + i, n - i, false);
}

INLINE uint64_t add_steps(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        shorts codes = (shorts)load_words(code + i); /* once: it may change meanwhile */
        struct pair value = {widen_unmarked(lower_part(codes)), widen_unmarked(upper_part(codes))};
        if (__builtin_expect(is_marked(codes), 0))
            value = widen_pair(codes);
        put_pair(dst + i, add_pair(load_pair(dst + i), value), false);
    }
    return i;
}

static uint64_t add_pages(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(code + i, WRING_PAGE * sizeof(*code));
        wring_streaming_fetch(dst + i, WRING_PAGE * sizeof(*dst));
        add_steps(dst + i, code + i, WRING_PAGE);
    }
    return i;
}

static void decode_add(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, true);
    if (WRING_IS_LONG(n))
        i += add_pages(dst + i, in + i, n - i);
    i += add_steps(dst + i, in + i, n - i);
    decode_any(dst + i, in + i, n - i, true);
}

#endif
