/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/minifloat.h"
#include "compress/kernels/vector/noise.h"
#include "compress/kernels/vector/peak.h"
#include "compress/kernels/vector/small.h"

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
#define STEP_BLOCKS (STEP_OF_RUNS / SHORTEST_BLOCK)

/* ---- peaks ---- */

/** The largest of each lane of a whole block. @param block  known where this is inlined */
INLINE words largest_lanes(const float *src, const float *residual, unsigned block)
{
    words most = magnitude_of(fed(src, residual, 0));

    for (unsigned at = LANES; at < block; at += LANES)
        most = larger(most, magnitude_of(fed(src, residual, at)));
    return most;
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
        store_words(peaks, largest_of_each(most));
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
    shorts low = pack_shorts(codes[0], codes[1]) - excess_of(shape);
    shorts high = pack_shorts(codes[2], codes[3]) - excess_of(shape);
    bytes magnitude = smaller_bytes((bytes)pack_short_bytes(low, high), shape.top);

    return (words)magnitude | (sign_bytes(values) >> (8 - shape.bits));
}

INLINE void encode_four(uint8_t *code, const float *src, float *residual, const float *inverse,
                        const float *step, const uint32_t *noise, unsigned from, struct shape shape)
{
    words codes[4], values[4];

    for (unsigned v = 0; v < 4; v++) {
        unsigned at = from + v * LANES;
        floats value = fed(src, residual, at), decoded;
        floats x = (floats)magnitude_of(value) * scale_at(inverse, at, shape);
        ints drawn = {0};
        if (shape.random)
            drawn = noise_at(noise, at);
        codes[v] = codes_of(x, drawn, shape, &decoded);
        values[v] = (words)value;
        if (residual != NULL) {
            decoded = min_f32(decoded, all(shape.largest));
            decoded = (floats)((words)decoded | (values[v] & WRING_SIGN_BITS));
            store(residual + at, value - decoded * scale_at(step, at, shape));
        }
    }
    put_codes(code + from * shape.bits / 8, in_order(join_codes(codes, values, shape)), shape.bits);
}

/** @param noise  NULL where nothing is rounded at random */
INLINE void encode_step(uint8_t *code, const float *src, float *residual, const float *inverse,
                        const float *step, const uint32_t *noise, struct shape shape)
{
    for (unsigned from = 0; from < STEP_OF_RUNS; from += STEP)
        encode_four(code, src, residual, inverse, step, noise, from, shape);
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
    float rest[STEP_OF_RUNS] = {0}, left[STEP_OF_RUNS] = {0}, inverses[STEP_BLOCKS],
          steps[STEP_BLOCKS];
    uint32_t drawn[STEP_OF_RUNS / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS] = {0};
    uint8_t codes[STEP_OF_RUNS];
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

    for (; i + STEP_OF_RUNS <= n; i += STEP_OF_RUNS)
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

/** Is one of a step's codes no number? */
INLINE bool has_odd(const uint8_t *code, struct shape shape)
{
    return any_byte_above(load_words(code) & 0x7F7F7F7F, shape.top);
}

/** Of a step. By binary16, which has e5m2's bits in its upper byte, and e4m3's numbers as 256th
 *  parts. */
INLINE void take_values(floats value[4], const uint8_t *code, struct shape shape)
{
    if (shape.bits == 4) {
        take_e2m1(value, code);
    } else if (shape.fraction == 2) {
        widen_bytes(value, code, 8, 0xFFFF);
    } else {
        widen_bytes(value, code, 7, 0xBFFF);
        for (unsigned v = 0; v < 4; v++)
            value[v] *= all(256);
    }
}

/** @param odd  some may be no numbers; known where this is inlined */
INLINE floats scaled(floats value, floats step, struct shape shape, bool odd)
{
    uint32_t largest;

    if (!odd)
        return value * step;
    memcpy(&largest, &shape.largest, sizeof(largest));
    return choose(above(magnitude_of(value), all_words(largest)), (floats)all_words(WRING_NAN_BITS),
                  value * step);
}

INLINE void decode_four(float *dst, const uint8_t *code, const float *step, struct shape shape,
                        bool add, bool odd)
{
    floats values[4];

    take_values(values, code, shape);
    for (unsigned v = 0; v < 4; v++) {
        unsigned at = v * LANES;
        floats value = scaled(values[v], scale_at(step, at, shape), shape, odd);
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
