/* SPDX-License-Identifier: Apache-2.0 */
/**
 * union: all elements of each block that are not zero. It takes back sums of sparse codes, whose
 * elements are those that any rank sent. Bytes in FORMAT.md, "union".
 */
#include "compress/codec.h"

#include <stdio.h>
#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/topk.h"

#define HEAD 4                 /* bytes of the count */
#define NOT_FINITE 0xFFFFFFFFu /* in place of a count: the block decodes to NaN */
#define WORD 64                /* bits of a map's word */

enum {
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements of a block", 4096, 32, WRING_TOPK_BLOCK_MAX, 32},
};

/** How the places of a block's elements are written: what takes the fewest bytes. */
enum places {
    PLACES_LISTED,
    PLACES_MAPPED,
    PLACES_ALL,
};

struct scratch {
    uint64_t map[WRING_TOPK_WORDS(WRING_TOPK_BLOCK_MAX)];
};

static uint64_t union_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status union_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    if (codec->info.flags & WRING_CODEC_FEEDBACK) {
        snprintf(why, why_bytes,
                 "union+ef: union loses nothing that could be fed back; leave +ef away");
        return WRING_ERR_INVALID;
    }
    wring_codec_take_kernels(codec, wring_topk_tiers, sizeof(wring_topk_tiers[0]));
    return WRING_OK;
}

static size_t map_bytes(uint64_t n)
{
    return ((size_t)n + 31) / 32 * 4;
}

static size_t list_bytes(uint64_t count)
{
    return (2 * (size_t)count + 3) / 4 * 4;
}

/** A function of the count, so that it need not be written. */
static enum places places_of(uint64_t count, uint64_t n)
{
    size_t listed = list_bytes(count), mapped = map_bytes(n);
    size_t least = listed < mapped ? listed : mapped;

    if (4 * (size_t)count + least >= 4 * (size_t)n)
        return PLACES_ALL;
    return listed < mapped ? PLACES_LISTED : PLACES_MAPPED;
}

static size_t block_bytes(uint64_t count, uint64_t n)
{
    switch (places_of(count, n)) {
    case PLACES_LISTED:
        return HEAD + 4 * (size_t)count + list_bytes(count);
    case PLACES_MAPPED:
        return HEAD + 4 * (size_t)count + map_bytes(n);
    case PLACES_ALL:
        break;
    }
    return HEAD + 4 * (size_t)n;
}

static size_t union_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = union_unit(codec);
    return (elems + unit - 1) / unit * HEAD + 4 * elems;
}

static void put_value(unsigned char *to, const float *src, const float *residual, uint64_t i)
{
    wring_put_u32(to, wring_bits_of(wring_fed(src, residual, i)));
}

static void put_values(unsigned char *to, const uint64_t *map, const float *src,
                       const float *residual, uint64_t n)
{
    for (uint64_t word = 0; word < WRING_TOPK_WORDS(n); word++)
        for (uint64_t left = map[word]; left != 0; left &= left - 1, to += 4)
            put_value(to, src, residual, word * WORD + (unsigned)__builtin_ctzll(left));
}

static size_t encode_block(const struct wring_codec *codec, const float *src, float *residual,
                           uint64_t n, uint64_t *map, unsigned char *code)
{
    const struct wring_topk_kernels *kernels =
        ((const struct wring_topk_tier *)codec->kernels)->kernels;
    struct wring_topk_found found = kernels->mark(map, src, residual, n, 1);
    unsigned char *values = code + HEAD, *places = values + 4 * (size_t)found.count;

    if (found.peak >= WRING_INF_BITS) {
        wring_put_u32(code, NOT_FINITE);
        return HEAD;
    }
    wring_put_u32(code, found.count);
    switch (places_of(found.count, n)) {
    case PLACES_LISTED:
        memset(places + 2 * (size_t)found.count, 0,
               list_bytes(found.count) - 2 * (size_t)found.count);
        kernels->gather(values, places, map, src, residual, n);
        break;
    case PLACES_MAPPED:
        put_values(values, map, src, residual, n);
        memcpy(places, map, map_bytes(n));
        break;
    case PLACES_ALL:
        for (uint64_t i = 0; i < n; i++)
            put_value(values + 4 * i, src, residual, i);
        break;
    }
    if (residual != NULL)
        kernels->retain(residual, src, map, n);
    return block_bytes(found.count, n);
}

static size_t union_encode(const struct wring_codec *codec,
                           const struct wring_codec_context *context, const float *src,
                           uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t unit = codec->info.unit, *map = ((struct scratch *)scratch)->map;
    size_t bytes = 0;

    (void)context;
    for (uint64_t done = 0; done < elems; done += unit)
        bytes += encode_block(codec, src + done, residual != NULL ? residual + done : NULL,
                              wring_codec_unit_length(unit, elems - done), map,
                              (unsigned char *)code + bytes);
    return bytes;
}

/** @return false: it is not finite, which no encoder writes */
static bool add_value(float *dst, const unsigned char *value)
{
    uint32_t bits = wring_take_u32(value);

    *dst += wring_float_of(bits);
    return (bits & WRING_ABS_BITS) < WRING_INF_BITS;
}

static enum wring_status add_listed(float *dst, uint64_t n, const unsigned char *values,
                                    uint32_t count)
{
    const unsigned char *places = values + 4 * (size_t)count;
    uint32_t next = 0; /* the lowest index that may follow */

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = wring_take_u16(places + 2 * (size_t)i);
        if (at < next || at >= n || !add_value(&dst[at], values + 4 * (size_t)i))
            return WRING_ERR_FRAME;
        next = at + 1;
    }
    return WRING_OK;
}

/** Bits from n on are looked at, too: they are 0 in a good map. */
static enum wring_status add_mapped(float *dst, uint64_t n, const unsigned char *values,
                                    uint32_t count)
{
    const unsigned char *map = values + 4 * (size_t)count;
    uint32_t taken = 0;

    for (uint64_t word = 0; word < map_bytes(n) / 4; word++)
        for (uint32_t left = wring_take_u32(map + 4 * word); left != 0; left &= left - 1) {
            uint64_t at = word * 32 + (unsigned)__builtin_ctz(left);
            if (at >= n || taken == count || !add_value(&dst[at], values + 4 * (size_t)taken))
                return WRING_ERR_FRAME;
            taken++;
        }
    return taken == count ? WRING_OK : WRING_ERR_FRAME;
}

static enum wring_status add_all(float *dst, uint64_t n, const unsigned char *values)
{
    for (uint64_t i = 0; i < n; i++)
        if (!add_value(&dst[i], values + 4 * i))
            return WRING_ERR_FRAME;
    return WRING_OK;
}

static enum wring_status add_values(float *dst, uint64_t n, const unsigned char *values,
                                    uint32_t count)
{
    switch (places_of(count, n)) {
    case PLACES_LISTED:
        return add_listed(dst, n, values, count);
    case PLACES_MAPPED:
        return add_mapped(dst, n, values, count);
    case PLACES_ALL:
        break;
    }
    return add_all(dst, n, values);
}

/** Decode one block off [*code, *code + *left) and advance both. */
static enum wring_status decode_block(const unsigned char **code, size_t *left, float *dst,
                                      uint64_t n, bool add)
{
    uint32_t count = *left >= HEAD ? wring_take_u32(*code) : 0;
    bool finite = count != NOT_FINITE;

    if (finite && count > n)
        return WRING_ERR_FRAME;
    size_t bytes = finite ? block_bytes(count, n) : HEAD;
    if (*left < bytes)
        return WRING_ERR_FRAME;
    const unsigned char *values = *code + HEAD;
    *code += bytes;
    *left -= bytes;
    if (!finite) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    return add_values(dst, n, values, count);
}

static enum wring_status union_decode(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, const void *code,
                                      size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit)
        status = decode_block(&at, &code_bytes, dst + done,
                              wring_codec_unit_length(unit, elems - done), add);
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}

const struct wring_codec_ops wring_codec_union = {
    .name = "union",
    .doc = "all elements that are not zero",
    .flags = WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = sizeof(struct scratch),
    .init = union_init,
    .unit = union_unit,
    .bound = union_bound,
    .encode = union_encode,
    .decode = union_decode,
};
