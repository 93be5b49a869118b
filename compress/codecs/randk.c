/* SPDX-License-Identifier: Apache-2.0 */
/**
 * randk: k elements of each block, drawn without replacement. All ranks draw the same ones, from
 * the job's seed, and the sum has values nowhere else; or each draws its own. Whoever decodes draws
 * them again, so no index travels.
 *
 * Stich and others, Sparsified SGD with Memory (arXiv:1809.07599); by a shared seed, Konečný and
 * Richtárik (arXiv:1611.07555). The draw is Floyd's, in Bentley, Programming Pearls: A Sample of
 * Brilliance (CACM 30, 1987). Bytes in FORMAT.md, "randk".
 */
#include "compress/codec.h"

#include <stdio.h>
#include <string.h>

#include "compress/codecs/sparse.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/sparse.h"
#include "compress/kernels/streaming.h"
#include "compress/philox.h"

#define BLOCK_MAX 65536
#define WORD 64
#define WORDS(n) (((n) + WORD - 1) / WORD)
#define DRAWN 256 /* random numbers at a time: whole blocks of them, as those of a unit are */
#define PIECE 32  /* words of a map whose bits are listed at a time */

enum {
    PARAM_RATIO,
    PARAM_BLOCK,
    PARAM_SEED
};
enum {
    SEED_SHARED,
    SEED_PRIVATE
};

static const struct wring_codec_param params[] = {
    [PARAM_RATIO] = {"ratio", NULL, "share of the elements that is sent", 0.01, 1e-6, 1, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements to draw among", 4096, 32, BLOCK_MAX, 32},
    [PARAM_SEED] = {"seed", "shared|private", "whether all ranks draw the same", SEED_SHARED, 0, 1,
                    0},
};

/** Of n elements of a block those that are sent have their bit set. */
struct chosen {
    uint64_t map[WORDS(BLOCK_MAX)];
    uint64_t n, count;
};

/** Those of some words, as places behind the first. */
struct piece {
    uint64_t first, count;
    uint16_t places[PIECE * WORD + WRING_SPARSE_SLACK];
};

static uint64_t randk_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

/** Under feedback a value goes as it is: n/k times it would overtake its residual. */
static enum wring_status randk_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    if (codec->info.flags & WRING_CODEC_FEEDBACK)
        codec->info.flags &= ~(unsigned)WRING_CODEC_UNBIASED;
    wring_codec_take_kernels(codec, wring_sparse_tiers, sizeof(wring_sparse_tiers[0]));
    const struct wring_philox_tier *philox =
        wring_kernels_pick(wring_philox_tiers, sizeof(wring_philox_tiers[0]), codec->tier);
    *(const struct wring_philox_kernels **)wring_codec_own(codec) = philox->kernels;
    return WRING_OK;
}

static uint64_t count_of(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return wring_sparse_wanted(wring_sparse_ratio(codec, codec->params[PARAM_RATIO], step), n);
}

static size_t block_bytes(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return 4 * (size_t)count_of(codec, step, n);
}

static size_t code_bytes_of(const struct wring_codec *codec, uint64_t step, uint64_t elems)
{
    uint64_t unit = randk_unit(codec), tail = elems % unit;
    return elems / unit * block_bytes(codec, step, unit) +
           (tail != 0 ? block_bytes(codec, step, tail) : 0);
}

/** The first step's codes are the longest. */
static size_t randk_bound(const struct wring_codec *codec, uint64_t elems)
{
    return code_bytes_of(codec, 0, elems);
}

static bool is_private(const struct wring_codec *codec)
{
    return codec->params[PARAM_SEED] == SEED_PRIVATE;
}

/** By a shared seed the sum is at those elements of which contributions were: it goes back as it
 *  is. */
static void randk_way_back(const struct wring_codec *codec, char *spec)
{
    if (is_private(codec))
        wring_union_name(codec, spec);
    else
        wring_sparse_name(codec, spec);
}

/** A sample of the elements 0 … last, of which `last` is new, takes one more. */
static inline uint64_t take_one(uint64_t *map, uint64_t last, uint32_t number)
{
    uint64_t at = number * (last + 1) >> 32;

    at = map[at / WORD] >> at % WORD & 1 ? last : at;
    map[at / WORD] |= UINT64_C(1) << at % WORD;
    return at;
}

/** Where a call's random numbers come from. */
static struct wring_philox_stream stream_of(const struct wring_codec *codec,
                                            struct wring_codec_context context)
{
    if (codec->returns)
        context.phase = 0;
    return wring_codec_stream(&context, is_private(codec) ? WRING_DRAW_PRIVATE : WRING_DRAW_SHARED);
}

/** @param near  the block, which is asked for where elements are chosen; NULL: it is there */
static void choose(const struct wring_codec *codec, const struct wring_philox_stream *stream,
                   uint64_t element, uint64_t n, const float *near, struct chosen *chosen)
{
    const struct wring_philox_kernels *philox =
        *(const struct wring_philox_kernels **)wring_codec_own(codec);
    uint64_t count = count_of(codec, stream->step, n), block = element / WRING_PHILOX_WORDS;
    uint32_t numbers[DRAWN];

    chosen->n = n;
    chosen->count = count;
    memset(chosen->map, 0, WORDS(n) * sizeof(chosen->map[0]));
    for (uint64_t done = 0; done < count; done += DRAWN, block += DRAWN / WRING_PHILOX_WORDS) {
        uint64_t some = count - done < DRAWN ? count - done : DRAWN;
        philox->words(numbers, stream, block, (some + WRING_PHILOX_WORDS - 1) / WRING_PHILOX_WORDS);
        for (uint64_t i = 0; i < some; i++) {
            uint64_t at = take_one(chosen->map, n - count + done + i, numbers[i]);
            if (near != NULL)
                __builtin_prefetch(near + at, 1);
        }
    }
}

/** What a value is multiplied by. */
static float scale_of(const struct wring_codec *codec, const struct chosen *chosen)
{
    bool fed = codec->info.flags & WRING_CODEC_FEEDBACK;
    return fed || codec->returns ? 1 : (float)chosen->n / (float)chosen->count;
}

static const struct wring_sparse_kernels *kernels_of(const struct wring_codec *codec)
{
    return ((const struct wring_sparse_tier *)codec->kernels)->kernels;
}

/** The next places, ascending. @param word  inout, the first word of the map that is not listed */
static bool next_piece(const struct wring_codec *codec, const struct chosen *chosen, uint64_t *word,
                       struct piece *piece)
{
    uint64_t words = WORDS(chosen->n) - *word;

    if (words == 0)
        return false;
    words = words < PIECE ? words : PIECE;
    piece->first = *word * WORD;
    piece->count = kernels_of(codec)->list(piece->places, chosen->map + *word, words);
    *word += words;
    return true;
}

/** @return whether all that is sent is finite */
static bool put_values(const struct wring_codec *codec, unsigned char *code,
                       const struct chosen *chosen, const float *src, const float *residual,
                       float scale)
{
    uint32_t peak = 0;
    struct piece piece;

    for (uint64_t word = 0; next_piece(codec, chosen, &word, &piece);)
        for (uint64_t i = 0; i < piece.count; i++, code += 4) {
            uint64_t at = piece.first + piece.places[i];
            uint32_t bits = wring_bits_of(wring_fed(src, residual, at) * scale);
            peak = (bits & WRING_ABS_BITS) > peak ? bits & WRING_ABS_BITS : peak;
            wring_put_u32(code, bits);
        }
    return peak < WRING_INF_BITS;
}

/** The residual less what has been sent of it. */
static void take_values(const struct wring_codec *codec, const struct chosen *chosen,
                        float *residual, float scale)
{
    struct piece piece;

    for (uint64_t word = 0; next_piece(codec, chosen, &word, &piece);)
        for (uint64_t i = 0; i < piece.count; i++) {
            uint64_t at = piece.first + piece.places[i];
            residual[at] -= residual[at] * scale + 0.0f; /* decoders add to 0: to -0, too */
        }
}

static void encode_block(const struct wring_codec *codec, const struct wring_philox_stream *stream,
                         uint64_t element, const float *src, float *residual, uint64_t n,
                         unsigned char *code)
{
    struct chosen chosen;

    choose(codec, stream, element, n, NULL, &chosen);
    float scale = scale_of(codec, &chosen);
    if (kernels_of(codec)->peak(src, residual, n) >= WRING_INF_BITS ||
        !put_values(codec, code, &chosen, src, residual, scale)) {
        memset(code, 0, 4 * chosen.count);
        wring_put_u32(code, WRING_NAN_BITS);
        return;
    }
    if (residual == NULL)
        return;
    kernels_of(codec)->feed(residual, src, n);
    take_values(codec, &chosen, residual, scale);
}

static size_t randk_encode(const struct wring_codec *codec,
                           const struct wring_codec_context *context, const float *src,
                           uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_philox_stream stream = stream_of(codec, *context);
    uint64_t unit = codec->info.unit;
    unsigned char *to = code;

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems)) /* comes while this unit's elements are drawn */
            wring_streaming_fetch_unit(src + done + n, n);
        encode_block(codec, &stream, context->element + done, src + done,
                     residual != NULL ? residual + done : NULL, n, to);
        to += block_bytes(codec, context->step, n);
    }
    return (size_t)(to - (unsigned char *)code);
}

static enum wring_status add_values(const struct wring_codec *codec, float *dst,
                                    const struct chosen *chosen, const unsigned char *code)
{
    struct piece piece;

    for (uint64_t word = 0; next_piece(codec, chosen, &word, &piece);)
        for (uint64_t i = 0; i < piece.count; i++, code += 4) {
            uint32_t bits = wring_take_u32(code);
            if ((bits & WRING_ABS_BITS) >= WRING_INF_BITS)
                return WRING_ERR_FRAME;
            dst[piece.first + piece.places[i]] += wring_float_of(bits);
        }
    return WRING_OK;
}

static enum wring_status decode_block(const struct wring_codec *codec,
                                      const struct wring_philox_stream *stream, uint64_t element,
                                      const unsigned char *code, float *dst, uint64_t n, bool add)
{
    struct chosen chosen;

    if (wring_take_u32(code) == WRING_NAN_BITS) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    choose(codec, stream, element, n, add ? dst : NULL, &chosen);
    return add_values(codec, dst, &chosen, code);
}

static enum wring_status randk_decode(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, const void *code,
                                      size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    const struct wring_philox_stream stream = stream_of(codec, *context);
    uint64_t unit = codec->info.unit;
    const unsigned char *from = code;
    enum wring_status status = WRING_OK;

    if (code_bytes != code_bytes_of(codec, context->step, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        status = decode_block(codec, &stream, context->element + done, from, dst + done, n, add);
        from += block_bytes(codec, context->step, n);
    }
    return status;
}

const struct wring_codec_ops wring_codec_randk = {
    .name = "randk",
    .doc = "elements of each block that are drawn at random",
    .flags = WRING_CODEC_UNBIASED | WRING_CODEC_FIXED | WRING_CODEC_OWN,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_philox_kernels *),
    .init = randk_init,
    .unit = randk_unit,
    .bound = randk_bound,
    .encode = randk_encode,
    .decode = randk_decode,
    .way_back = randk_way_back,
};
