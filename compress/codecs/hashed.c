/* SPDX-License-Identifier: Apache-2.0 */
/**
 * hashed: the elements of each block that reach a threshold, each in the slot of a table that its
 * hash names, so that nothing is compacted. Of those that meet in a slot the first one is sent;
 * the others wait for another step, with another hash.
 *
 * After DRAGONN (Wang and others, ICML 2022). The hash is the finalizer of MurmurHash3 (Appleby,
 * 2011), of an index and a random number. Bytes in FORMAT.md, "hashed".
 */
#include "compress/codec.h"

#include <string.h>

#include "compress/codecs/sparse.h"
#include "compress/codecs/topk_block.h"
#include "compress/kernels/bits.h"

#define WORD 64 /* bits of a map's word */

enum {
    PARAM_RATIO,
    PARAM_LOAD,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_RATIO] = {"ratio", NULL, "share of the elements that is chosen", 0.01, 1e-6, 1, 0},
    [PARAM_LOAD] = {"load", NULL, "slots for each of them", 2, 1, 8, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements to choose among", 65536, 256, WRING_TOPK_BLOCK_MAX,
                     32},
};

struct scratch {
    struct wring_topk_room room;
    uint64_t map[WRING_TOPK_WORDS(WRING_TOPK_BLOCK_MAX)];
};
_Static_assert(sizeof(struct scratch) <= WRING_CODEC_SCRATCH_MAX, "executors reserve no more");

/** A block's code: values, then indices. A slot without an element has the value +0. */
struct table {
    unsigned char *values, *indices;
    uint32_t slots;
    uint32_t key; /* of the hash */
};

static uint64_t hashed_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status hashed_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_topk_tiers, sizeof(wring_topk_tiers[0]));
    return WRING_OK;
}

static uint64_t count_wanted(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return wring_sparse_wanted(wring_sparse_ratio(codec, codec->params[PARAM_RATIO], step), n);
}

static uint32_t slots_of(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    uint64_t wanted = count_wanted(codec, step, n);
    return (uint32_t)(codec->params[PARAM_LOAD] * (double)wanted);
}

static size_t block_bytes(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return (6 * (size_t)slots_of(codec, step, n) + 3) / 4 * 4;
}

static size_t code_bytes_of(const struct wring_codec *codec, uint64_t step, uint64_t elems)
{
    uint64_t unit = hashed_unit(codec), tail = elems % unit;
    return elems / unit * block_bytes(codec, step, unit) +
           (tail != 0 ? block_bytes(codec, step, tail) : 0);
}

/** The first step's codes are the longest. */
static size_t hashed_bound(const struct wring_codec *codec, uint64_t elems)
{
    return code_bytes_of(codec, 0, elems);
}

static struct table empty_table(const struct wring_codec *codec,
                                const struct wring_codec_context *context, uint64_t n,
                                unsigned char *code)
{
    uint32_t slots = slots_of(codec, context->step, n), key;

    wring_codec_random(context, WRING_DRAW_SHARED, context->element, &key, 1);
    memset(code, 0, block_bytes(codec, context->step, n));
    return (struct table){code, code + 4 * (size_t)slots, slots, key};
}

static inline uint32_t slot_of(const struct table *table, uint32_t index)
{
    uint32_t hash = table->key ^ index;

    hash = (hash ^ hash >> 16) * 0x85EBCA6B;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35;
    hash ^= hash >> 16;
    return (uint32_t)((uint64_t)hash * table->slots >> 32);
}

/** @return false: an element of lower index is there */
static inline bool put_element(const struct table *table, uint32_t index, float value)
{
    size_t slot = slot_of(table, index);
    uint16_t place = (uint16_t)index;

    if (wring_take_u32(table->values + 4 * slot) != 0)
        return false;
    wring_put_u32(table->values + 4 * slot, wring_bits_of(value));
    memcpy(table->indices + 2 * slot, &place, sizeof(place));
    return true;
}

/** Those that find no room lose their marks. */
static void fill_table(const struct table *table, uint64_t *map, const float *src,
                       const float *residual, uint64_t n)
{
    for (uint64_t word = 0; word < WRING_TOPK_WORDS(n); word++)
        for (uint64_t left = map[word]; left != 0; left &= left - 1) {
            uint64_t i = word * WORD + (unsigned)__builtin_ctzll(left);
            if (!put_element(table, (uint32_t)i, wring_fed(src, residual, i)))
                map[word] &= ~(left & -left);
        }
}

static uint32_t threshold_of(const struct wring_topk_kernels *kernels,
                             const struct wring_topk_block *block, struct scratch *scratch)
{
    uint32_t threshold = wring_topk_is_sampled(block->n)
                             ? wring_topk_threshold(kernels, block, &scratch->room)
                             : kernels->rank(block->src, block->residual, block->n, block->wanted);
    return threshold > 0 ? threshold : 1;
}

static void encode_block(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const struct wring_topk_block *block, struct scratch *scratch,
                         unsigned char *code)
{
    const struct wring_topk_kernels *kernels =
        ((const struct wring_topk_tier *)codec->kernels)->kernels;
    struct table table = empty_table(codec, context, block->n, code);
    uint32_t threshold = threshold_of(kernels, block, scratch);
    struct wring_topk_found found =
        kernels->mark(scratch->map, block->src, block->residual, block->n, threshold);

    if (found.peak >= WRING_INF_BITS) {
        wring_put_u32(code, WRING_NAN_BITS);
        return;
    }
    fill_table(&table, scratch->map, block->src, block->residual, block->n);
    if (block->residual != NULL)
        kernels->retain(block->residual, block->src, scratch->map, block->n);
}

static size_t hashed_encode(const struct wring_codec *codec,
                            const struct wring_codec_context *context, const float *src,
                            uint64_t elems, float *residual, void *code, void *scratch)
{
    struct wring_codec_context at = *context;
    uint64_t unit = codec->info.unit;
    unsigned char *to = code;

    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        const struct wring_topk_block block = {
            .src = src + done,
            .residual = residual != NULL ? residual + done : NULL,
            .n = n,
            .wanted = count_wanted(codec, context->step, n),
        };
        at.element = context->element + done;
        encode_block(codec, &at, &block, scratch, to);
        to += block_bytes(codec, at.step, n);
    }
    return (size_t)(to - (unsigned char *)code);
}

/** @param taken  a bit for each element. @return false: another slot has it */
static inline bool take_element(uint64_t *taken, uint32_t index)
{
    uint64_t *word = taken + index / WORD, bit = 1ull << index % WORD;

    if ((*word & bit) != 0)
        return false;
    *word |= bit;
    return true;
}

/** The hash need not be known: slots tell which elements they have, each one once. */
static enum wring_status decode_block(const struct wring_codec *codec, uint64_t step,
                                      const unsigned char *code, float *dst, uint64_t n, bool add)
{
    uint32_t slots = slots_of(codec, step, n);
    const unsigned char *indices = code + 4 * (size_t)slots;
    uint64_t taken[WRING_TOPK_WORDS(WRING_TOPK_BLOCK_MAX)];

    if (wring_take_u32(code) == WRING_NAN_BITS) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    memset(taken, 0, WRING_TOPK_WORDS(n) * sizeof(*taken));
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t bits = wring_take_u32(code + 4 * (size_t)slot);
        uint32_t at = wring_take_u16(indices + 2 * (size_t)slot);
        if ((bits & WRING_ABS_BITS) == 0)
            continue;
        if (at >= n || (bits & WRING_ABS_BITS) >= WRING_INF_BITS || !take_element(taken, at))
            return WRING_ERR_FRAME;
        dst[at] += wring_float_of(bits);
    }
    return WRING_OK;
}

static enum wring_status hashed_decode(const struct wring_codec *codec,
                                       const struct wring_codec_context *context, const void *code,
                                       size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *from = code;
    enum wring_status status = WRING_OK;

    if (code_bytes != code_bytes_of(codec, context->step, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        status = decode_block(codec, context->step, from, dst + done, n, add);
        from += block_bytes(codec, context->step, n);
    }
    return status;
}

const struct wring_codec_ops wring_codec_hashed = {
    .name = "hashed",
    .doc = "large elements of each block, in a table by their hash",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_OWN,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = sizeof(struct scratch),
    .init = hashed_init,
    .unit = hashed_unit,
    .bound = hashed_bound,
    .encode = hashed_encode,
    .decode = hashed_decode,
    .way_back = wring_union_name,
};
