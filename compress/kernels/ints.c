/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/ints.h"

#include <stdbool.h>

#include "compress/kernels/bits.h"

/* A function of each width and range, whose constants the compiler knows. */
#define ALWAYS static inline __attribute__((always_inline))

struct form {
    unsigned bits;
    bool minmax;
};

/** Of a block. */
struct range {
    struct wring_ints_scale head;
    float inverse;
};

ALWAYS float top_of(struct form form)
{
    return (float)((1 << (form.minmax ? form.bits : form.bits - 1)) - 1);
}

ALWAYS float largest_scale(struct form form)
{
    return form.bits == 4 ? WRING_INTS_ABSMAX_4 : WRING_INTS_ABSMAX_2;
}

ALWAYS struct range absmax_of(float peak, struct form form)
{
    if (peak < WRING_INTS_TINY)
        return (struct range){{0, 0}, 0};
    float scale = peak / top_of(form);
    return (struct range){{scale < largest_scale(form) ? scale : largest_scale(form), 0},
                          top_of(form) / peak};
}

ALWAYS float limited(float value)
{
    value = value < WRING_INTS_LIMIT ? value : WRING_INTS_LIMIT;
    return value > -WRING_INTS_LIMIT ? value : -WRING_INTS_LIMIT;
}

ALWAYS struct range minmax_of(const float *src, const float *residual, uint64_t n, struct form form)
{
    float low = wring_fed(src, residual, 0), high = low;

    for (uint64_t i = 1; i < n; i++) {
        float value = wring_fed(src, residual, i);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    low = limited(low) + 0.0f; /* -0 becomes +0, whichever zero was found first */
    float span = limited(high) - low;
    if (span < WRING_INTS_TINY)
        return (struct range){{0, low}, 0};
    return (struct range){{span / top_of(form), low}, top_of(form) / span};
}

/** To nearest even, for magnitudes below 2^22: the sum has no room for a fraction. */
ALWAYS int32_t round_half_even(float value)
{
    return (int32_t)((value + 0x1.8p23f) - 0x1.8p23f);
}

ALWAYS int32_t step_of(float value, struct range range, struct form form)
{
    if (!form.minmax)
        return round_half_even(value * range.inverse);
    float part = (value - range.head.low) * range.inverse, top = top_of(form);
    part = part < top ? part : top;
    return round_half_even(part > 0 ? part : 0);
}

ALWAYS float value_of(int32_t step, struct wring_ints_scale scale, struct form form)
{
    float part = (float)step * scale.scale;
    return form.minmax ? scale.low + part : part;
}

ALWAYS uint64_t head_bytes(struct form form)
{
    return form.minmax ? 2 * WRING_INTS_HEAD : WRING_INTS_HEAD;
}

ALWAYS uint64_t step_bytes(uint64_t n, struct form form)
{
    return (n * form.bits + 7) / 8;
}

ALWAYS void put_head(uint8_t *code, struct wring_ints_scale scale, struct form form)
{
    wring_put_u32(code, wring_bits_of(scale.scale));
    if (form.minmax)
        wring_put_u32(code + WRING_INTS_HEAD, wring_bits_of(scale.low));
}

ALWAYS void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n,
                         struct form form)
{
    uint32_t peak = wring_peak(src, residual, n);
    uint8_t *steps = code + head_bytes(form);

    memset(steps, 0, step_bytes(n, form));
    if (peak >= WRING_INF_BITS) {
        put_head(code, (struct wring_ints_scale){wring_float_of(WRING_NAN_BITS), 0}, form);
        return;
    }
    struct range range =
        form.minmax ? minmax_of(src, residual, n, form) : absmax_of(wring_float_of(peak), form);
    put_head(code, range.head, form);
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        int32_t step = step_of(value, range, form);
        uint32_t field = (uint32_t)step & ((1u << form.bits) - 1);
        steps[i * form.bits / 8] |= (uint8_t)(field << i * form.bits % 8);
        if (residual != NULL)
            residual[i] = value - value_of(step, range.head, form);
    }
}

ALWAYS void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block,
                       struct form form)
{
    for (uint64_t i = 0; i < n; i += block, code += head_bytes(form) + step_bytes(block, form))
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block, form);
}

/** Of absmax the sign is extended. */
ALWAYS int32_t take_step(const uint8_t *code, uint64_t i, struct form form)
{
    uint32_t field = (uint32_t)code[i * form.bits / 8] >> i * form.bits % 8;
    field <<= 32 - form.bits;
    return form.minmax ? (int32_t)(field >> (32 - form.bits)) : (int32_t)field >> (32 - form.bits);
}

ALWAYS void decode_any(float *dst, const uint8_t *code, uint64_t n, struct wring_ints_scale scale,
                       struct form form, bool add)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = value_of(take_step(code, i, form), scale, form);
        dst[i] = add ? dst[i] + value : value;
    }
}

#define FORM(name, ...)                                                                     \
    static void encode_##name(uint8_t *code, const float *src, float *residual, uint64_t n, \
                              uint64_t block)                                               \
    {                                                                                       \
        encode_any(code, src, residual, n, block, (struct form){__VA_ARGS__});              \
    }                                                                                       \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n,                  \
                              struct wring_ints_scale scale)                                \
    {                                                                                       \
        decode_any(dst, code, n, scale, (struct form){__VA_ARGS__}, false);                 \
    }                                                                                       \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n,              \
                                  struct wring_ints_scale scale)                            \
    {                                                                                       \
        decode_any(dst, code, n, scale, (struct form){__VA_ARGS__}, true);                  \
    }

FORM(absmax_2, 2, false)
FORM(absmax_4, 4, false)
FORM(minmax_2, 2, true)
FORM(minmax_4, 4, true)
FORM(minmax_8, 8, true)

#define ENTRY(name)                                     \
    {                                                   \
        encode_##name, decode_##name, decode_add_##name \
    }

static const struct wring_ints_kernels scalar = {
    {ENTRY(absmax_2), ENTRY(absmax_4)},
    {ENTRY(minmax_2), ENTRY(minmax_4), ENTRY(minmax_8)},
};

const struct wring_ints_tier wring_ints_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_ints){{NULL, 0}, NULL},
};
