/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topkc: the chunks of each block that matter most to all ranks together. A round sums the norms of
 * chunks, so all ranks send the same ones: no index travels, and the sum has values nowhere else.
 *
 * After TopKC of Beyond Throughput and Compression Ratios (Han and others, arXiv:2407.01378).
 * Bytes in FORMAT.md, "topkc".
 */
#include "compress/codec.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compress/codecs/sparse.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/sparse.h"
#include "compress/kernels/streaming.h"
#include "compress/kernels/topk.h"

#define BLOCK_MAX 65536
#define CHUNK_LEAST 32
#define CHUNKS_MAX (BLOCK_MAX / CHUNK_LEAST)

enum {
    PARAM_RATIO,
    PARAM_CHUNK,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_RATIO] = {"ratio", NULL, "share of the chunks that is sent", 0.01, 1e-6, 1, 0},
    [PARAM_CHUNK] = {"chunk", NULL, "elements that are sent together", 128, CHUNK_LEAST, 4096,
                     CHUNK_LEAST},
    [PARAM_BLOCK] = {"block", NULL, "elements to choose among, a multiple of chunk", BLOCK_MAX,
                     CHUNK_LEAST, BLOCK_MAX, CHUNK_LEAST},
};

static uint64_t topkc_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static uint64_t chunk_of(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_CHUNK];
}

static enum wring_status topkc_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    if (topkc_unit(codec) % chunk_of(codec) != 0) {
        snprintf(why, why_bytes,
                 "topkc: blocks of %" PRIu64 " elements have no whole chunks of %" PRIu64
                 "; make block a multiple of chunk",
                 topkc_unit(codec), chunk_of(codec));
        return WRING_ERR_INVALID;
    }
    wring_codec_take_kernels(codec, wring_sparse_tiers, sizeof(wring_sparse_tiers[0]));
    const struct wring_topk_tier *topk =
        wring_kernels_pick(wring_topk_tiers, sizeof(wring_topk_tiers[0]), codec->tier);
    *(const struct wring_topk_kernels **)wring_codec_own(codec) = topk->kernels;
    return WRING_OK;
}

static uint64_t chunks_of(const struct wring_codec *codec, uint64_t n)
{
    return (n + chunk_of(codec) - 1) / chunk_of(codec);
}

/** How many chunks of a block are sent. */
static uint64_t count_of(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    return wring_sparse_wanted(wring_sparse_ratio(codec, codec->params[PARAM_RATIO], step),
                               chunks_of(codec, n));
}

/** A short chunk takes as much as any, but no block more than raw. */
static size_t block_bytes(const struct wring_codec *codec, uint64_t step, uint64_t n)
{
    uint64_t elems = count_of(codec, step, n) * chunk_of(codec);
    return 4 * (size_t)(elems < n ? elems : n);
}

static size_t code_bytes_of(const struct wring_codec *codec, uint64_t step, uint64_t elems)
{
    uint64_t unit = topkc_unit(codec), tail = elems % unit;
    return elems / unit * block_bytes(codec, step, unit) +
           (tail != 0 ? block_bytes(codec, step, tail) : 0);
}

/** The first step's codes are the longest. */
static size_t topkc_bound(const struct wring_codec *codec, uint64_t elems)
{
    return code_bytes_of(codec, 0, elems);
}

/* ---- the round ---- */

static uint64_t count_norms(const struct wring_codec *codec,
                            const struct wring_codec_context *context)
{
    return chunks_of(codec, context->elems);
}

static void add_norms(const struct wring_codec *codec, const struct wring_codec_context *context,
                      const float *src, uint64_t elems, const float *residual, void *statistics,
                      void *scratch)
{
    const struct wring_sparse_tier *tier = codec->kernels;
    uint64_t chunk = chunk_of(codec);
    float *norms = (float *)statistics + (context->element - context->first) / chunk;

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += chunk, norms++) {
        uint64_t n = wring_codec_unit_length(chunk, elems - done);
        const float *kept = residual != NULL ? residual + done : NULL;
        *norms += (float)sqrt(tier->kernels->squares(src + done, kept, n));
    }
}

static const struct wring_codec_round round_of_norms = {
    .name = "norms",
    .dtype = WRING_F32,
    .op = WRING_SUM,
    .count = count_norms,
    .begin = add_norms,
};

/* ---- choosing ---- */

/** Chunks of a block that are sent: in a map, as of elements. */
struct chosen {
    uint64_t map[WRING_TOPK_WORDS(CHUNKS_MAX)];
    uint64_t chunks;
    bool finite; /* all norms are */
};

/** Of chunks that only equal the least norm those of lower index stay. */
static void drop_ties(struct chosen *chosen, const float *norms, uint32_t least, uint64_t surplus)
{
    for (uint64_t i = chosen->chunks; surplus > 0; i--) {
        uint64_t bit = UINT64_C(1) << (i - 1) % 64;
        if ((chosen->map[(i - 1) / 64] & bit) != 0 && wring_magnitude(norms[i - 1]) == least) {
            chosen->map[(i - 1) / 64] &= ~bit;
            surplus--;
        }
    }
}

static void choose(const struct wring_codec *codec, const struct wring_codec_context *context,
                   uint64_t n, struct chosen *chosen)
{
    const struct wring_topk_kernels *topk =
        *(const struct wring_topk_kernels **)wring_codec_own(codec);
    const float *norms = (const float *)context->statistics[0] +
                         (context->element - context->first) / chunk_of(codec);
    uint64_t count = count_of(codec, context->step, n);

    chosen->chunks = chunks_of(codec, n);
    uint32_t least = topk->rank(norms, NULL, chosen->chunks, count);
    struct wring_topk_found found = topk->mark(chosen->map, norms, NULL, chosen->chunks, least);
    chosen->finite = found.peak < WRING_INF_BITS;
    if (found.count > count)
        drop_ties(chosen, norms, least, found.count - count);
}

/** The first element of each chosen chunk, and how many there are. */
#define FOR_CHOSEN(chosen, chunk, n, i, length)                                         \
    for (uint64_t word = 0; word < WRING_TOPK_WORDS((chosen)->chunks); word++)          \
        for (uint64_t left = (chosen)->map[word], i = 0, length = 0;                    \
             left != 0 && (i = (word * 64 + (unsigned)__builtin_ctzll(left)) * (chunk), \
                          length = wring_codec_unit_length(chunk, (n)-i), true);        \
             left &= left - 1)

/* ---- codes ---- */

/** What is left of values that are sent: nothing, but of a zero below zero its sign, as decoders
 * add to a zero above it. */
static void leave_nothing(float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        residual[i] -= residual[i] + 0.0f;
}

static void put_not_finite(unsigned char *code, size_t bytes)
{
    memset(code, 0, bytes);
    wring_put_u32(code, WRING_NAN_BITS);
}

/** What is sent, and zeros behind it. @return whether all of it is finite */
static bool put_chunks(const struct wring_sparse_kernels *kernels, const struct chosen *chosen,
                       uint64_t chunk, const float *value, uint64_t n, unsigned char *code,
                       size_t bytes)
{
    size_t done = 0;
    uint32_t peak = 0;

    FOR_CHOSEN(chosen, chunk, n, i, length)
    {
        uint32_t most = kernels->peak(value + i, NULL, length);
        peak = most > peak ? most : peak;
        memcpy(code + done, value + i, length * sizeof(*value));
        done += length * sizeof(*value);
    }
    memset(code + done, 0, bytes - done);
    return peak < WRING_INF_BITS;
}

/**
 * Of a rank's input all is finite where the norms are, as its own are among them, so it is not read
 * again. A sum may have grown beyond, but only in the chunks that all ranks sent. A residual is in
 * no norm when sums go back.
 */
static void encode_block(const struct wring_codec *codec, const struct wring_codec_context *context,
                         const float *src, float *residual, uint64_t n, unsigned char *code)
{
    const struct wring_sparse_kernels *kernels =
        ((const struct wring_sparse_tier *)codec->kernels)->kernels;
    size_t bytes = block_bytes(codec, context->step, n);
    uint64_t chunk = chunk_of(codec);
    struct chosen chosen;

    choose(codec, context, n, &chosen);
    bool finite =
        chosen.finite && (residual == NULL || kernels->peak(src, residual, n) < WRING_INF_BITS);
    if (finite && residual != NULL)
        kernels->feed(residual, src, n);
    if (!finite ||
        !put_chunks(kernels, &chosen, chunk, residual != NULL ? residual : src, n, code, bytes)) {
        put_not_finite(code, bytes);
        return;
    }
    if (residual == NULL)
        return;
    FOR_CHOSEN(&chosen, chunk, n, i, length)
    {
        leave_nothing(residual + i, length);
    }
}

static size_t topkc_encode(const struct wring_codec *codec,
                           const struct wring_codec_context *context, const float *src,
                           uint64_t elems, float *residual, void *code, void *scratch)
{
    struct wring_codec_context at = *context;
    uint64_t unit = codec->info.unit;
    unsigned char *to = code;

    (void)scratch;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        at.element = context->element + done;
        encode_block(codec, &at, src + done, residual != NULL ? residual + done : NULL, n, to);
        to += block_bytes(codec, at.step, n);
    }
    return (size_t)(to - (unsigned char *)code);
}

/** A peer may change the values meanwhile: each is read and checked once. */
static bool add_values(float *dst, const unsigned char *code, uint64_t n)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = wring_take_u32(code + 4 * i), magnitude = bits & WRING_ABS_BITS;
        peak = magnitude > peak ? magnitude : peak;
        dst[i] += wring_float_of(bits);
    }
    return peak < WRING_INF_BITS;
}

static enum wring_status decode_block(const struct wring_codec *codec,
                                      const struct wring_codec_context *context,
                                      const unsigned char *code, float *dst, uint64_t n, bool add)
{
    uint64_t chunk = chunk_of(codec);
    struct chosen chosen;

    if (wring_take_u32(code) == WRING_NAN_BITS) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    choose(codec, context, n, &chosen);
    FOR_CHOSEN(&chosen, chunk, n, i, length)
    {
        if (!add_values(dst + i, code, length))
            return WRING_ERR_FRAME;
        code += length * sizeof(*dst);
    }
    return WRING_OK;
}

static enum wring_status topkc_decode(const struct wring_codec *codec,
                                      const struct wring_codec_context *context, const void *code,
                                      size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    struct wring_codec_context at = *context;
    uint64_t unit = codec->info.unit;
    const unsigned char *from = code;
    enum wring_status status = WRING_OK;

    if (code_bytes != code_bytes_of(codec, context->step, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        at.element = context->element + done;
        status = decode_block(codec, &at, from, dst + done, n, add);
        from += block_bytes(codec, at.step, n);
    }
    return status;
}

const struct wring_codec_ops wring_codec_topkc = {
    .name = "topkc",
    .doc = "the chunks of each block that have the largest norms on all ranks together",
    .flags = WRING_CODEC_FIXED | WRING_CODEC_OWN,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .own_bytes = sizeof(struct wring_topk_kernels *),
    .init = topkc_init,
    .unit = topkc_unit,
    .bound = topkc_bound,
    .encode = topkc_encode,
    .decode = topkc_decode,
    .rounds = &round_of_norms,
    .n_rounds = 1,
    .way_back = wring_sparse_name,
};
