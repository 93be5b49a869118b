/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sealed.h"

#include <string.h>

#define UNIT 32
#define SEAL_BYTES sizeof(uint64_t)

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static uint64_t seal(const struct wring_codec_context *context, uint64_t element)
{
    uint64_t hash = mix(0, context->seed);
    hash = mix(hash, context->bucket);
    hash = mix(hash, context->rank);
    hash = mix(hash, context->ranks);
    hash = mix(hash, context->phase);
    hash = mix(hash, context->step);
    hash = mix(hash, context->first);
    hash = mix(hash, context->elems);
    hash = mix(hash, context->rows);
    hash = mix(hash, context->columns);
    return mix(hash, context->element + element);
}

/** The last unit may be short. */
static uint64_t length(uint64_t left)
{
    return left < UNIT ? left : UNIT;
}

static uint64_t unit(const struct wring_codec *codec)
{
    (void)codec;
    return UNIT;
}

static size_t bound(const struct wring_codec *codec, uint64_t elems)
{
    (void)codec;
    return (elems + UNIT - 1) / UNIT * SEAL_BYTES + elems * sizeof(float);
}

static size_t encode(const struct wring_codec *codec, const struct wring_codec_context *context,
                     const float *src, uint64_t elems, float *residual, void *code, void *scratch)
{
    unsigned char *to = code;
    (void)codec, (void)residual, (void)scratch;
    for (uint64_t i = 0; i < elems; i += UNIT) {
        uint64_t n = length(elems - i), sealed = seal(context, i);
        memcpy(to, &sealed, SEAL_BYTES);
        memcpy(to + SEAL_BYTES, src + i, n * sizeof(float));
        to += SEAL_BYTES + n * sizeof(float);
    }
    return (size_t)(to - (unsigned char *)code);
}

static enum wring_status decode(const struct wring_codec *codec,
                                const struct wring_codec_context *context, const void *code,
                                size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const unsigned char *from = code;
    if (code_bytes != bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t i = 0; i < elems; i += UNIT) {
        uint64_t n = length(elems - i), sealed = seal(context, i);
        if (memcmp(from, &sealed, SEAL_BYTES) != 0)
            return WRING_ERR_FRAME;
        for (uint64_t k = 0; k < n; k++) {
            float x;
            memcpy(&x, from + SEAL_BYTES + k * sizeof(x), sizeof(x));
            dst[i + k] = add ? dst[i + k] + x : x;
        }
        from += SEAL_BYTES + n * sizeof(float);
    }
    return WRING_OK;
}

static const struct wring_codec_ops sealed_ops = {
    .struct_bytes = sizeof(struct wring_codec_ops),
    .name = "sealed",
    .doc = "float32 under a seal",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_EXACT,
    .unit = unit,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};

const struct wring_codec_ops *const wring_test_sealed[] = {&sealed_ops, NULL};
