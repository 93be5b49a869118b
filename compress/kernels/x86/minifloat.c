/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/minifloat.h"
#include "compress/kernels/vector/fields.h"
#include "compress/kernels/vector/noise.h"
#include "compress/kernels/vector/peak.h"

/** What a function is inlined for. */
struct shape {
    unsigned bits, fraction;
    int least; /* the exponent of the least normal */
    float largest;
    uint8_t top;    /* the code of that */
    unsigned block; /* 0: one for all */
    bool random;
};

#define E4M3(block, random) ((struct shape){8, 3, -6, 448, 0x7E, block, random})
#define E5M2(block, random) ((struct shape){8, 2, -14, 57344, 0x7B, block, random})
#define E2M1(block, random) ((struct shape){4, 1, 0, 6, 7, block, random})

#define SHORTEST_BLOCK 16
#define STEP_BLOCKS (STEP / SHORTEST_BLOCK)

/* ---- peaks ---- */

/** The largest of each lane of a whole block. @param block  known where this is inlined */
INLINE words largest_lanes(const float *src, const float *residual, unsigned block)
{
    words most = magnitude_of(fed(src, residual, 0));

    for (unsigned at = LANES; at < block; at += LANES)
        most = larger(most, magnitude_of(fed(src, residual, at)));
    return most;
}

/** The largest of each of four vectors, one after the other, in each quarter of its lanes: of 256
 *  bits in each half. */
INLINE words fold_four(const words of[4])
{
    words ab = larger((words)WIDE(unpacklo_epi32)((raw)of[0], (raw)of[1]),
                      (words)WIDE(unpackhi_epi32)((raw)of[0], (raw)of[1]));
    words cd = larger((words)WIDE(unpacklo_epi32)((raw)of[2], (raw)of[3]),
                      (words)WIDE(unpackhi_epi32)((raw)of[2], (raw)of[3]));
    return larger((words)WIDE(unpacklo_epi64)((raw)ab, (raw)cd),
                  (words)WIDE(unpackhi_epi64)((raw)ab, (raw)cd));
}

/** The largest of each of so many vectors as one has lanes. */
INLINE words fold_each(const words of[LANES])
{
#ifdef __AVX512F__
    raw a = (raw)fold_four(of), b = (raw)fold_four(of + 4);
    raw c = (raw)fold_four(of + 8), d = (raw)fold_four(of + 12);
    raw ab = (raw)larger((words)_mm512_shuffle_i32x4(a, b, 0x44),
                         (words)_mm512_shuffle_i32x4(a, b, 0xEE));
    raw cd = (raw)larger((words)_mm512_shuffle_i32x4(c, d, 0x44),
                         (words)_mm512_shuffle_i32x4(c, d, 0xEE));
    return larger((words)_mm512_shuffle_i32x4(ab, cd, 0x88),
                  (words)_mm512_shuffle_i32x4(ab, cd, 0xDD));
#else
    raw a = (raw)fold_four(of), b = (raw)fold_four(of + 4);
    return larger((words)_mm256_permute2x128_si256(a, b, 0x20),
                  (words)_mm256_permute2x128_si256(a, b, 0x31));
#endif
}

/** Of whole blocks. @return elements of blocks whose peaks are found */
INLINE uint64_t find_short_peaks(uint32_t *peaks, const float *src, const float *residual,
                                 uint64_t n, unsigned block)
{
    uint64_t i = 0;

    for (; i + LANES * block <= n; i += LANES * block, peaks += LANES) {
        words most[LANES];
        for (unsigned b = 0; b < LANES; b++)
            most[b] = largest_lanes(src + i + b * block,
                                    residual == NULL ? NULL : residual + i + b * block, block);
        store_words(peaks, fold_each(most));
    }
    for (; i + block <= n; i += block)
        *peaks++ =
            largest_of(largest_lanes(src + i, residual == NULL ? NULL : residual + i, block));
    return i;
}

INLINE void find_peaks(uint32_t *peaks, const float *src, const float *residual, uint64_t n,
                       uint64_t block)
{
    uint64_t i = 0;

    if (block == 16)
        i = find_short_peaks(peaks, src, residual, n, 16);
    else if (block == 32)
        i = find_short_peaks(peaks, src, residual, n, 32);
    for (; i < n; i += block)
        peaks[i / block] = find_peak(src + i, residual == NULL ? NULL : residual + i,
                                     n - i < block ? n - i : block);
}

static void peaks(uint32_t *peaks, const float *src, const float *residual, uint64_t n,
                  uint64_t block)
{
    if (residual == NULL) /* each way inlined for itself */
        find_peaks(peaks, src, NULL, n, block);
    else
        find_peaks(peaks, src, residual, n, block);
}

INLINE floats inverse_of(floats step)
{
    return (floats)((words)(all(1) / step) & (words)(step > 0)); /* all bits of a lane, or none */
}

static void invert(float *inverse, const float *step, uint64_t n)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(inverse + i, inverse_of(load(step + i)));
    if (i < n)
        store_first(inverse + i, inverse_of(load_first(step + i, (unsigned)(n - i))),
                    (unsigned)(n - i));
}

/* ---- codes ---- */

/** What the vector that begins with element `at` is multiplied by. */
INLINE floats scale_at(const float *scale, unsigned at, struct shape shape)
{
    return all(scale[shape.block == 0 ? 0 : at / shape.block]);
}

/** The bits of the least normal. */
INLINE uint32_t least_of(struct shape shape)
{
    return (uint32_t)(shape.least + 127) << 23;
}

/**
 * The codes of x, without signs, and all too large by excess_of(). Beside a number that is large
 * enough, x has just the places that its neighbours have: adding it rounds, and counts them in the
 * lowest bits.
 * @param value  out, what they stand for
 */
INLINE words codes_of(floats x, ints noise, struct shape shape, floats *value)
{
    const unsigned places = 23 - shape.fraction;
    words power = larger((words)x & WRING_INF_BITS, all_words(least_of(shape))), q;

    if (shape.random) {
        floats beside = (floats)(power + ((places - 16) << 23));
        q = ((words)(x + beside) - (words)beside + (words)noise) >> 16;
        *value = floats_of_ints(q) * (floats)(power - (shape.fraction << 23));
    } else {
        floats beside = (floats)(power + (places << 23)), sum = x + beside;
        q = (words)sum - (words)beside;
        *value = sum - beside;
    }
    return q + (power >> places);
}

INLINE uint16_t excess_of(struct shape shape)
{
    return (uint16_t)(least_of(shape) >> (23 - shape.fraction));
}

/** Codes of four vectors as bytes, which end at the largest number's, with their values' signs. */
INLINE words join_codes(const words codes[4], const words values[4], struct shape shape)
{
    shorts low = (shorts)WIDE(packs_epi32)((raw)codes[0], (raw)codes[1]) - excess_of(shape);
    shorts high = (shorts)WIDE(packs_epi32)((raw)codes[2], (raw)codes[3]) - excess_of(shape);
    raw bytes = WIDE(packs_epi16)((raw)low, (raw)high);
    words signs = pack_bytes(values) & 0x80808080; /* which packing leaves where they are */

    return (words)WIDE(min_epu8)(bytes, WIDE(set1_epi8)((char)shape.top)) |
           (signs >> (8 - shape.bits));
}

/** @param noise  NULL where nothing is rounded at random */
INLINE void encode_step(uint8_t *code, const float *src, float *residual, const float *inverse,
                        const float *step, const uint32_t *noise, struct shape shape)
{
    words codes[4], values[4];

    for (unsigned v = 0; v < 4; v++) {
        unsigned at = v * LANES;
        floats value = fed(src, residual, at), decoded;
        floats x = (floats)magnitude_of(value) * scale_at(inverse, at, shape);
        ints drawn = {0};
        if (shape.random)
            drawn = noise_at(noise, at);
        codes[v] = codes_of(x, drawn, shape, &decoded);
        values[v] = (words)value;
        if (residual != NULL) {
            decoded = (floats)WIDE(min_ps)(decoded, all(shape.largest));
            decoded = (floats)((words)decoded | (values[v] & WRING_SIGN_BITS));
            store(residual + at, value - decoded * scale_at(step, at, shape));
        }
    }
    put_codes(code, in_order(join_codes(codes, values, shape)), shape.bits);
}

/** Those of the blocks that n elements have; none behind them. */
INLINE void copy_scales(float to[STEP_BLOCKS], const float *from, unsigned n, struct shape shape)
{
    unsigned blocks = shape.block == 0 ? 1 : (n + shape.block - 1) / shape.block;

    memset(to, 0, STEP_BLOCKS * sizeof(*to));
    memcpy(to, from, blocks * sizeof(*to));
}

/** The last elements: zeros behind them have the code 0. */
INLINE void encode_rest(uint8_t *code, const float *src, float *residual, unsigned n,
                        const float *inverse, const float *step, const uint32_t *noise,
                        struct shape shape)
{
    float rest[STEP] = {0}, left[STEP] = {0}, inverses[STEP_BLOCKS], steps[STEP_BLOCKS];
    uint32_t drawn[STEP / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS] = {0};
    uint8_t codes[STEP];
    unsigned runs = (n + WRING_NOISE_RUN - 1) / WRING_NOISE_RUN;

    memcpy(rest, src, n * sizeof(*src));
    copy_scales(inverses, inverse, n, shape);
    if (shape.random)
        memcpy(drawn, noise, runs * WRING_NOISE_RUN_WORDS * sizeof(*noise));
    if (residual != NULL) {
        memcpy(left, residual, n * sizeof(*residual));
        copy_scales(steps, step, n, shape);
    }
    encode_step(codes, rest, residual == NULL ? NULL : left, inverses, steps, drawn, shape);
    memcpy(code, codes, (n * shape.bits + 7) / 8);
    if (residual != NULL)
        memcpy(residual, left, n * sizeof(*residual));
}

INLINE const float *scales_from(const float *scale, uint64_t i, struct shape shape)
{
    return shape.block == 0 ? scale : scale + i / shape.block;
}

INLINE void encode_fed(uint8_t *code, const float *src, float *residual, uint64_t n,
                       const float *inverse, const float *step, const uint32_t *noise,
                       struct shape shape)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        encode_step(code + i * shape.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    scales_from(inverse, i, shape),
                    residual == NULL ? NULL : scales_from(step, i, shape),
                    shape.random ? noise + i / 2 : NULL, shape);
    if (i < n)
        encode_rest(code + i * shape.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    (unsigned)(n - i), scales_from(inverse, i, shape),
                    residual == NULL ? NULL : scales_from(step, i, shape),
                    shape.random ? noise + i / 2 : NULL, shape);
}

INLINE void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       const float *inverse, const float *step, const uint32_t *noise,
                       struct shape shape)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_fed(code, src, NULL, n, inverse, NULL, noise, shape);
    else
        encode_fed(code, src, residual, n, inverse, step, noise, shape);
}

/* ---- values ---- */

/** Bytes, each with its sign in all upper bits. */
INLINE half_shorts widen_bytes(const uint8_t *code)
{
#ifdef __AVX512F__
    return (half_shorts)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)code));
#else
    return (half_shorts)_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)code));
#endif
}

/** Is one of a step's codes no number? */
INLINE bool has_odd(const uint8_t *code, struct shape shape)
{
    raw magnitude = (raw)(load_words(code) & 0x7F7F7F7F), top = WIDE(set1_epi8)((char)shape.top);
#ifdef __AVX512F__
    return _mm512_cmpgt_epi8_mask(magnitude, top) != 0;
#else
    return _mm256_movemask_epi8(_mm256_cmpgt_epi8(magnitude, top)) != 0;
#endif
}

/** By binary16, which has e5m2's bits in its upper byte, and e4m3's numbers as 256th parts.
 *  @param odd  some may be no numbers; known where this is inlined */
INLINE floats values_of_8(const uint8_t *code, floats step, struct shape shape, bool odd)
{
    half_shorts wide = widen_bytes(code);
    floats value =
        shape.fraction == 2 ? widen_f16(wide << 8) : widen_f16(wide << 7 & 0xBFFF) * all(256);
    uint32_t largest;

    if (!odd)
        return value * step;
    memcpy(&largest, &shape.largest, sizeof(largest));
    return choose(above(magnitude_of(value), all_words(largest)), (floats)all_words(WRING_NAN_BITS),
                  value * step);
}

INLINE floats values_of_4(const uint8_t *code, floats step)
{
    words fields = take_codes(code, 4);
#ifdef __AVX512F__
    const floats table = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return (floats)_mm512_permutexvar_ps((raw)fields, table) * step;
#else
    const floats table = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    words magnitude = (words)_mm256_permutevar8x32_ps(table, (raw)fields);
    return (floats)(magnitude | (fields << 28 & WRING_SIGN_BITS)) * step;
#endif
}

INLINE void decode_four(float *dst, const uint8_t *code, const float *step, struct shape shape,
                        bool add, bool odd)
{
    for (unsigned v = 0; v < 4; v++) {
        unsigned at = v * LANES;
        const uint8_t *from = code + at * shape.bits / 8;
        floats scale = scale_at(step, at, shape);
        floats value =
            shape.bits == 8 ? values_of_8(from, scale, shape, odd) : values_of_4(from, scale);
        store(dst + at, add ? load(dst + at) + value : value);
    }
}

INLINE void decode_step(float *dst, const uint8_t *code, const float *step, struct shape shape,
                        bool add)
{
    if (shape.bits == 8 && has_odd(code, shape)) /* each way inlined for itself */
        decode_four(dst, code, step, shape, add, true);
    else
        decode_four(dst, code, step, shape, add, false);
}

INLINE void decode_any(float *dst, const uint8_t *code, uint64_t n, const float *step,
                       struct shape shape, bool add)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        decode_step(dst + i, code + i * shape.bits / 8, scales_from(step, i, shape), shape, add);
    if (i < n) {
        float rest[STEP] = {0}, steps[STEP_BLOCKS];
        uint8_t codes[STEP] = {0};
        copy_scales(steps, scales_from(step, i, shape), (unsigned)(n - i), shape);
        memcpy(codes, code + i * shape.bits / 8, ((n - i) * shape.bits + 7) / 8);
        if (add)
            memcpy(rest, dst + i, (n - i) * sizeof(*dst));
        decode_step(rest, codes, steps, shape, add);
        memcpy(dst + i, rest, (n - i) * sizeof(*dst));
    }
}

#define FORM(name, element, block)                                                                \
    static void even_##name(uint8_t *code, const float *src, float *residual, uint64_t n,         \
                            const float *inverse, const float *step, const uint32_t *noise)       \
    {                                                                                             \
        encode_any(code, src, residual, n, inverse, step, noise, element(block, false));          \
    }                                                                                             \
    static void random_##name(uint8_t *code, const float *src, float *residual, uint64_t n,       \
                              const float *inverse, const float *step, const uint32_t *noise)     \
    {                                                                                             \
        encode_any(code, src, residual, n, inverse, step, noise, element(block, true));           \
    }                                                                                             \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n, const float *step)     \
    {                                                                                             \
        decode_any(dst, code, n, step, element(block, false), false);                             \
    }                                                                                             \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n, const float *step) \
    {                                                                                             \
        decode_any(dst, code, n, step, element(block, false), true);                              \
    }

FORM(e4m3, E4M3, 0)
FORM(e5m2, E5M2, 0)
FORM(e4m3_by_32, E4M3, 32)
FORM(e5m2_by_32, E5M2, 32)
FORM(e2m1_by_32, E2M1, 32)
FORM(e2m1_by_16, E2M1, 16)

#define ENTRY(name)                                                    \
    {                                                                  \
        {even_##name, random_##name}, decode_##name, decode_add_##name \
    }

const struct wring_minifloat_kernels OF_TIER(wring_minifloat) = {
    peaks,
    invert,
    {ENTRY(e4m3), ENTRY(e5m2), ENTRY(e4m3_by_32), ENTRY(e5m2_by_32), ENTRY(e2m1_by_32),
     ENTRY(e2m1_by_16)},
};
