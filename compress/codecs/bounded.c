/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bounded: no number is off by more than an error that the user names. Steps of nearly twice that,
 * in as few bits as most of a block's need; the others travel as they are.
 *
 * Blocks of a fixed width are after SZx (arXiv:2201.13020) and cuSZp (2023). That no rounding
 * breaks the bound is what "Lessons Learned on the Path to Guaranteeing the Error Bound in Lossy
 * Quantizers" asks for: here steps are so much smaller than twice the error that none can. Bytes in
 * FORMAT.md, "bounded".
 */
#include "compress/codec.h"

#include <math.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/bounded.h"
#include "compress/kernels/streaming.h"

#define HEAD 4
#define VALUE_BYTES 4
#define INDEX_BYTES 2
#define OTHER_BYTES (VALUE_BYTES + INDEX_BYTES) /* of a number that travels as it is */
#define WIDTH_RAW 32u                           /* all do */
#define WIDTH_NAN 255u
#define STEP_SHARE 1.96875f /* of the error; from there to 2 is room for the rounding of steps */

enum {
    PARAM_ERROR,
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_ERROR] = {"error", NULL, "the most that a number may be off", 0.0001, 0.000000001,
                     1000000, 0},
    [PARAM_BLOCK] = {"block", NULL, "elements that share a width", 256, 32, WRING_BOUNDED_BLOCK_MAX,
                     32},
};

/** What follows from the parameters. */
struct plan {
    float size, inverse; /* of a step */
};

/** What an encode works in. */
struct scratch {
    int32_t steps[WRING_BOUNDED_BLOCK_MAX];
    uint64_t map[WRING_BOUNDED_BLOCK_MAX / 64]; /* of the others */
};

/** A block's form. */
struct shape {
    unsigned width;
    uint64_t others;
};

static const struct wring_bounded_kernels *kernels_of(const struct wring_codec *codec)
{
    return ((const struct wring_bounded_tier *)codec->kernels)->kernels;
}

static const struct plan *plan_of(const struct wring_codec *codec)
{
    return codec->own;
}

static uint64_t bounded_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status bounded_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct plan *plan = codec->own;
    float error = (float)codec->params[PARAM_ERROR];

    (void)why, (void)why_bytes;
    if ((double)error > codec->params[PARAM_ERROR])
        error = nextafterf(error, 0);
    plan->size = error * STEP_SHARE;
    plan->inverse = 1 / plan->size;
    wring_codec_take_kernels(codec, wring_bounded_tiers, sizeof(wring_bounded_tiers[0]));
    return WRING_OK;
}

static size_t bounded_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = bounded_unit(codec);
    return (elems + unit - 1) / unit * HEAD + elems * VALUE_BYTES;
}

static size_t planes_bytes(uint64_t n, unsigned width)
{
    return (n + 7) / 8 * width;
}

static size_t block_bytes(uint64_t n, struct shape shape)
{
    if (shape.width == WIDTH_RAW)
        return HEAD + n * VALUE_BYTES;
    return (HEAD + planes_bytes(n, shape.width) + shape.others * OTHER_BYTES + 3) / 4 * 4;
}

/**
 * The width whose bits and others take the fewest bytes. Narrower ones have more others: they are
 * tried until those alone take more.
 */
static struct shape choose_shape(const struct wring_bounded_kernels *kernels,
                                 struct scratch *scratch, uint64_t n, unsigned widest)
{
    unsigned width = widest < WRING_BOUNDED_WIDTH_MAX ? widest : WRING_BOUNDED_WIDTH_MAX;
    struct shape best = {width, 0}; /* all steps fit the widest that is needed */
    if (width < widest)
        best.others = kernels->mark(scratch->map, scratch->steps, n, width);
    uint64_t least = planes_bytes(n, width) + best.others * OTHER_BYTES, others = best.others;

    while (width > 0 && others * OTHER_BYTES < least) {
        others = kernels->mark(scratch->map, scratch->steps, n, --width);
        uint64_t bytes = planes_bytes(n, width) + others * OTHER_BYTES;
        if (bytes < least) {
            least = bytes;
            best = (struct shape){width, others};
        }
    }
    if (block_bytes(n, best) >= HEAD + n * VALUE_BYTES)
        return (struct shape){WIDTH_RAW, 0};
    return best;
}

static void put_u16(unsigned char *code, uint16_t value)
{
    memcpy(code, &value, sizeof(value));
}

static void put_head(unsigned char *code, struct shape shape)
{
    code[0] = (unsigned char)shape.width;
    code[1] = 0;
    put_u16(code + 2, (uint16_t)shape.others);
}

/** Values and indices of those that are marked, whose steps become 0. */
static void put_others(struct scratch *scratch, const float *src, const float *residual, uint64_t n,
                       unsigned char *values, unsigned char *indices)
{
    for (uint64_t word = 0; word < (n + 63) / 64; word++)
        for (uint64_t bits = scratch->map[word]; bits != 0; bits &= bits - 1) {
            uint64_t i = 64 * word + (uint64_t)__builtin_ctzll(bits);
            wring_put_u32(values, wring_bits_of(wring_fed(src, residual, i)));
            put_u16(indices, (uint16_t)i);
            scratch->steps[i] = 0;
            values += VALUE_BYTES;
            indices += INDEX_BYTES;
        }
}

/** Numbers that travel as they are leave nothing. */
static void keep_none_of_others(const struct scratch *scratch, float *residual, uint64_t n)
{
    for (uint64_t word = 0; word < (n + 63) / 64; word++)
        for (uint64_t bits = scratch->map[word]; bits != 0; bits &= bits - 1)
            residual[64 * word + (uint64_t)__builtin_ctzll(bits)] = 0;
}

static void encode_raw(const float *src, float *residual, uint64_t n, unsigned char *values)
{
    for (uint64_t i = 0; i < n; i++) {
        wring_put_u32(values + VALUE_BYTES * i, wring_bits_of(wring_fed(src, residual, i)));
        if (residual != NULL)
            residual[i] = 0;
    }
}

static size_t encode_block(const struct wring_codec *codec, const float *src, float *residual,
                           uint64_t n, unsigned char *code, struct scratch *scratch)
{
    const struct wring_bounded_kernels *kernels = kernels_of(codec);
    struct wring_bounded_found found =
        kernels->quantise(scratch->steps, src, residual, n, plan_of(codec)->inverse);

    if (found.peak >= WRING_INF_BITS) {
        put_head(code, (struct shape){WIDTH_NAN, 0});
        return HEAD;
    }
    struct shape shape = choose_shape(kernels, scratch, n, found.width);
    size_t bytes = block_bytes(n, shape);
    put_head(code, shape);
    if (shape.width == WIDTH_RAW) {
        encode_raw(src, residual, n, code + HEAD);
        return bytes;
    }
    unsigned char *planes = code + HEAD + shape.others * VALUE_BYTES;
    unsigned char *indices = planes + planes_bytes(n, shape.width);
    unsigned char *end = indices + shape.others * INDEX_BYTES;
    if (shape.others > 0) {
        kernels->mark(scratch->map, scratch->steps, n, shape.width);
        put_others(scratch, src, residual, n, code + HEAD, indices);
    }
    kernels->pack(planes, scratch->steps, n, shape.width);
    memset(end, 0, (size_t)(code + bytes - end));
    if (residual != NULL)
        kernels->keep(residual, src, scratch->steps, n, plan_of(codec)->size);
    if (residual != NULL && shape.others > 0)
        keep_none_of_others(scratch, residual, n);
    return bytes;
}

/** Whole units of about a page, or one that is longer: what a long call works on at a time. */
static uint64_t stretch_of(uint64_t unit)
{
    return unit < WRING_PAGE ? WRING_PAGE / unit * unit : unit;
}

static size_t bounded_encode(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch)
{
    uint64_t unit = codec->info.unit, stretch = stretch_of(unit);
    unsigned char *at = code;

    (void)context;
    for (uint64_t done = 0; done < elems; done += unit) {
        if (WRING_IS_LONG(elems) && done % stretch == 0)
            wring_streaming_fetch(src + done,
                                  wring_codec_unit_length(stretch, elems - done) * sizeof(*src));
        at += encode_block(codec, src + done, residual != NULL ? residual + done : NULL,
                           wring_codec_unit_length(unit, elems - done), at, scratch);
    }
    return (size_t)(at - (unsigned char *)code);
}

/** What is left of a code while it is decoded. */
struct reader {
    const unsigned char *at;
    size_t bytes;
};

static enum wring_status decode_raw(const unsigned char *values, float *dst, uint64_t n, bool add)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = wring_take_u32(values + VALUE_BYTES * i);
        if ((bits & WRING_ABS_BITS) >= WRING_INF_BITS)
            return WRING_ERR_FRAME;
        dst[i] = add ? dst[i] + wring_float_of(bits) : wring_float_of(bits);
    }
    return WRING_OK;
}

/** Has it a bit set in some plane? */
static bool has_step(const unsigned char *planes, uint64_t n, unsigned width, uint64_t i)
{
    for (unsigned j = 0; j < width; j++)
        if (planes[(n + 7) / 8 * j + i / 8] >> i % 8 & 1)
            return true;
    return false;
}

/** On top of the steps, which are 0 there. */
static enum wring_status decode_others(const unsigned char *values, const unsigned char *planes,
                                       float *dst, uint64_t n, struct shape shape, bool add)
{
    const unsigned char *indices = planes + planes_bytes(n, shape.width);
    uint64_t first = 0;

    for (uint64_t k = 0; k < shape.others; k++) {
        uint32_t bits = wring_take_u32(values + VALUE_BYTES * k);
        uint32_t i = wring_take_u16(indices + INDEX_BYTES * k);
        if ((bits & WRING_ABS_BITS) >= WRING_INF_BITS || i < first || i >= n ||
            has_step(planes, n, shape.width, i))
            return WRING_ERR_FRAME;
        dst[i] = add ? dst[i] + wring_float_of(bits) : wring_float_of(bits);
        first = (uint64_t)i + 1;
    }
    return WRING_OK;
}

static enum wring_status take_head(struct reader *in, uint64_t n, struct shape *shape)
{
    if (in->bytes < HEAD)
        return WRING_ERR_FRAME;
    uint32_t head = wring_take_u32(in->at);
    *shape = (struct shape){head & 0xFF, head >> 16};
    bool packed = shape->width <= WRING_BOUNDED_WIDTH_MAX;
    if ((head >> 8 & 0xFF) != 0 || shape->others > (packed ? n : 0))
        return WRING_ERR_FRAME;
    if (!packed && shape->width != WIDTH_RAW && shape->width != WIDTH_NAN)
        return WRING_ERR_FRAME;
    return WRING_OK;
}

static enum wring_status decode_block(const struct wring_codec *codec, struct reader *in,
                                      float *dst, uint64_t n, bool add)
{
    const struct wring_bounded_kernels *kernels = kernels_of(codec);
    const unsigned char *code = in->at;
    struct shape shape;
    enum wring_status status = take_head(in, n, &shape);

    if (status != WRING_OK)
        return status;
    size_t bytes = shape.width == WIDTH_NAN ? HEAD : block_bytes(n, shape);
    if (in->bytes < bytes)
        return WRING_ERR_FRAME;
    in->at += bytes;
    in->bytes -= bytes;
    if (shape.width == WIDTH_NAN) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (shape.width == WIDTH_RAW)
        return decode_raw(code + HEAD, dst, n, add);
    const unsigned char *planes = code + HEAD + shape.others * VALUE_BYTES;
    (add ? kernels->unpack_add : kernels->unpack)(dst, planes, n, shape.width,
                                                  plan_of(codec)->size);
    return decode_others(code + HEAD, planes, dst, n, shape, add);
}

static enum wring_status bounded_decode(const struct wring_codec *codec,
                                        const struct wring_codec_context *context, const void *code,
                                        size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit, stretch = stretch_of(unit);
    struct reader in = {code, code_bytes};
    enum wring_status status = WRING_OK;

    (void)context;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        if (add && WRING_IS_LONG(elems) && done % stretch == 0)
            wring_streaming_fetch(dst + done,
                                  wring_codec_unit_length(stretch, elems - done) * sizeof(*dst));
        status =
            decode_block(codec, &in, dst + done, wring_codec_unit_length(unit, elems - done), add);
    }
    return status == WRING_OK && in.bytes != 0 ? WRING_ERR_FRAME : status;
}

const struct wring_codec_ops wring_codec_bounded = {
    .name = "bounded",
    .doc = "as few bits as keep each number's error below a bound",
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .scratch_bytes = sizeof(struct scratch),
    .own_bytes = sizeof(struct plan),
    .init = bounded_init,
    .unit = bounded_unit,
    .bound = bounded_bound,
    .encode = bounded_encode,
    .decode = bounded_decode,
};
