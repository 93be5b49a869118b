/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless: float32 bit for bit, in fewer of them. The exponents of neighbours are much alike, so
 * each block keeps the largest and how far the others lie below it. Bytes in FORMAT.md, "lossless".
 */
#include "compress/codec.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/far.h"
#include "compress/kernels/split.h"

#define HEAD 4
#define FLUSH_BYTES 8192 /* of codes that are stored past the caches together */

#define ROOM(n) (HEAD + WRING_SPLIT_ROOM(n)) /* that a block's code is made in */

enum {
    PARAM_BLOCK
};

/** What a block's first byte says. */
enum layout {
    LAYOUT_ZEROS = 0,                   /* +0 everywhere: nothing follows */
    LAYOUT_NARROW = WRING_SPLIT_NARROW, /* packed with distances of so many bits */
    LAYOUT_WIDE = WRING_SPLIT_WIDE,
    LAYOUT_AS_IS = 8, /* float32 */
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share an exponent", 512, 32,
                     WRING_SPLIT_BLOCK_MAX, 32},
};

/** How a block is laid out. */
struct plan {
    enum layout layout;
    uint32_t top;    /* exponent; 0 where there is none */
    uint32_t others; /* elements whose exponents are written out */
};

static uint64_t lossless_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status lossless_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_split_tiers, sizeof(wring_split_tiers[0]));
    return WRING_OK;
}

static size_t lossless_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = lossless_unit(codec);
    return (elems + unit - 1) / unit * HEAD + elems * sizeof(float);
}

static bool is_packed(const struct plan *plan)
{
    return plan->layout == LAYOUT_NARROW || plan->layout == LAYOUT_WIDE;
}

/** Of the whole code of a block. */
static size_t plan_bytes(const struct plan *plan, uint64_t n)
{
    if (plan->layout == LAYOUT_AS_IS)
        return HEAD + n * sizeof(float);
    if (!is_packed(plan))
        return HEAD;
    return (HEAD + WRING_SPLIT_OTHERS(n, plan->layout) + plan->others + 3) & ~(size_t)3;
}

/** Which layout takes least. */
static struct plan make_plan(struct wring_split_far far, uint32_t top, uint64_t n)
{
    uint64_t narrow = WRING_SPLIT_NARROW * WRING_SPLIT_PLANE(n) + far.narrow;
    uint64_t wide = WRING_SPLIT_WIDE * WRING_SPLIT_PLANE(n) + far.wide;

    if (narrow >= n && wide >= n)
        return (struct plan){LAYOUT_AS_IS, 0, 0};
    if (narrow <= wide)
        return (struct plan){LAYOUT_NARROW, top, far.narrow};
    return (struct plan){LAYOUT_WIDE, top, far.wide};
}

/** Pack as the block before was, and again where another layout takes less. */
static struct plan pack_block(const struct wring_split_kernels *kernels, const float *src,
                              uint64_t n, unsigned char *packed, enum layout *guess)
{
    uint32_t peak = kernels->peak(src, n), top = peak >> 24;

    if (peak == 0)
        return (struct plan){LAYOUT_ZEROS, 0, 0};
    struct plan plan = make_plan(kernels->pack(packed, src, n, *guess, top), top, n);
    if (plan.layout == LAYOUT_AS_IS) {
        memcpy(packed, src, n * sizeof(*src));
        return plan;
    }
    if (plan.layout != *guess)
        kernels->pack(packed, src, n, plan.layout, top);
    *guess = plan.layout;
    return plan;
}

/**
 * @param at     out, ROOM(n) bytes
 * @param guess  inout: a layout that is packed, of the block before
 * @return bytes of the code
 */
static size_t put_block(const struct wring_split_kernels *kernels, const float *src, uint64_t n,
                        unsigned char *at, enum layout *guess)
{
    struct plan plan = pack_block(kernels, src, n, at + HEAD, guess);
    size_t bytes = plan_bytes(&plan, n);

    wring_put_u32(at, (uint32_t)plan.layout | plan.top << 8 | plan.others << 16);
    if (is_packed(&plan))
        memset(at + HEAD + WRING_SPLIT_OTHERS(n, plan.layout) + plan.others, 0, 3);
    return bytes;
}

/** Codes that stay in a near cache until they are sent. @param room  bytes of code */
static size_t encode_near(const struct wring_codec *codec, const float *src, uint64_t elems,
                          unsigned char *code, size_t room)
{
    const struct wring_split_kernels *kernels =
        ((const struct wring_split_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    enum layout guess = LAYOUT_NARROW;
    unsigned char piece[ROOM(WRING_SPLIT_BLOCK_MAX)];
    size_t bytes = 0;

    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        bool fits = room - bytes >= ROOM(n);
        size_t more = put_block(kernels, src + done, n, fits ? code + bytes : piece, &guess);
        if (!fits)
            memcpy(code + bytes, piece, more);
        bytes += more;
    }
    return bytes;
}

/** Codes on their way past the caches, in whole lines. */
struct outflow {
    unsigned char *to;   /* where the first of the pending bytes belongs */
    size_t pending;      /* bytes */
    unsigned char *from; /* as far from a line's begin as `to` */
    _Alignas(
        WRING_LINE) unsigned char buffer[WRING_LINE + FLUSH_BYTES + ROOM(WRING_SPLIT_BLOCK_MAX)];
};

/** Store what is pending up to the end of a line, or with `all` altogether. */
static void flush(struct outflow *out, bool all)
{
    size_t bytes =
        all ? out->pending : out->pending - ((uintptr_t)out->to + out->pending) % WRING_LINE;

    wring_far_stream(out->to, out->from, bytes);
    out->to += bytes;
    out->pending -= bytes;
    memmove(out->buffer, out->from + bytes, out->pending);
    out->from = out->buffer;
}

static size_t encode_far(const struct wring_codec *codec, const float *src, uint64_t elems,
                         unsigned char *code)
{
    const struct wring_split_kernels *kernels =
        ((const struct wring_split_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    enum layout guess = LAYOUT_NARROW;
    struct outflow out;

    out.to = code;
    out.pending = 0;
    out.from = out.buffer + (uintptr_t)code % WRING_LINE;
    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        out.pending += put_block(kernels, src + done, n, out.from + out.pending, &guess);
        if (out.pending >= FLUSH_BYTES)
            flush(&out, false);
    }
    flush(&out, true);
    wring_far_settle();
    return (size_t)(out.to - code);
}

static size_t lossless_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code)
{
    (void)context, (void)residual; /* nothing is lost, so nothing remains */
    if (WRING_IS_LONG(elems))
        return encode_far(codec, src, elems, code);
    return encode_near(codec, src, elems, code, lossless_bound(codec, elems));
}

/** @return false where the head or what it says of the length is wrong */
static bool take_plan(const unsigned char *code, size_t left, uint64_t n, struct plan *plan)
{
    if (left < HEAD)
        return false;
    uint32_t head = wring_take_u32(code);
    *plan = (struct plan){head & 0xFF, head >> 8 & 0xFF, head >> 16};
    bool known = is_packed(plan) ? plan->others <= n
                                 : (plan->layout == LAYOUT_ZEROS || plan->layout == LAYOUT_AS_IS) &&
                                       head >> 8 == 0;
    return known && plan_bytes(plan, n) <= left;
}

/** As they are, or added; a NaN's payload comes back only where nothing is added. */
static void take_as_is(float *dst, const unsigned char *code, uint64_t n, bool add)
{
    if (!add)
        memcpy(dst, code, n * sizeof(*dst));
    for (uint64_t i = 0; add && i < n; i++)
        dst[i] += wring_float_of(wring_take_u32(code + i * sizeof(*dst)));
}

/** The others in memory of our own: whatever a peer makes of the planes, they end inside it. */
static enum wring_status take_packed(const struct wring_split_kernels *kernels,
                                     const struct plan *plan, float *dst,
                                     const unsigned char *packed, uint64_t n, bool add)
{
    unsigned char others[WRING_SPLIT_BLOCK_MAX + WRING_SPLIT_SLACK];
    unsigned width = plan->layout;

    memcpy(others, packed + WRING_SPLIT_OTHERS(n, width), plan->others);
    memset(others + plan->others, 0, n + WRING_SPLIT_SLACK - plan->others);
    uint64_t taken =
        (add ? kernels->unpack_add : kernels->unpack)(dst, packed, others, n, width, plan->top);
    return taken == plan->others ? WRING_OK : WRING_ERR_FRAME;
}

static enum wring_status take_block(const struct wring_split_kernels *kernels,
                                    const struct plan *plan, float *dst, const unsigned char *code,
                                    uint64_t n, bool add)
{
    if (is_packed(plan))
        return take_packed(kernels, plan, dst, code, n, add);
    if (plan->layout == LAYOUT_AS_IS)
        take_as_is(dst, code, n, add);
    for (uint64_t i = 0; plan->layout == LAYOUT_ZEROS && i < n; i++)
        dst[i] = add ? dst[i] + 0.0f : 0.0f;
    return WRING_OK;
}

static enum wring_status lossless_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    const struct wring_split_kernels *kernels =
        ((const struct wring_split_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;
    struct plan plan;

    (void)context;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (!take_plan(at, code_bytes, n, &plan))
            return WRING_ERR_FRAME;
        size_t bytes = plan_bytes(&plan, n);
        if (WRING_IS_LONG(elems)) { /* streams that take turns are fetched more slowly */
            wring_far_read(at, bytes);
            wring_far_read(dst + done, add ? n * sizeof(*dst) : 0);
        }
        status = take_block(kernels, &plan, dst + done, at + HEAD, n, add);
        at += bytes;
        code_bytes -= bytes;
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}

const struct wring_codec_ops wring_codec_lossless = {
    .name = "lossless",
    .doc = "float32 bit for bit, with the exponents of each block packed",
    .flags = WRING_CODEC_EXACT | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = lossless_init,
    .unit = lossless_unit,
    .bound = lossless_bound,
    .encode = lossless_encode,
    .decode = lossless_decode,
};
