/* SPDX-License-Identifier: Apache-2.0 */
/** lossless: what the codec is (lossless.h). */
#include "compress/codecs/lossless.h"

#include <string.h>

#include "compress/kernels/bits.h"

/* Distance in a page from a block's elements to its code. Of a block that goes straight only the
 * begin and the end lie there. Neither may lie at the place in its page where the next block's
 * elements begin, or the sample behind those. */
#define APART (WRING_OUTFLOW_PAGE / 8 * 5)
#define APART_STRAIGHT (WRING_OUTFLOW_PAGE / 16 * 5)

/** @param code  out, borrowed until the end; lines that it shares with others keep what they have
 */
static void lossless_outflow_begin(struct wring_lossless_outflow *out, unsigned char *code)
{
    out->code = code;
    out->skip = out->rest = (uintptr_t)code % WRING_LINE;
    out->to = code - out->skip;
    out->rest_end = out->buffers[0] + WRING_OUTFLOW_FRONT;
    out->block = out->buffers[1] + WRING_OUTFLOW_FRONT;
    out->bytes = 0;
    out->gone = 0;
    out->turn = 0;
}

/**
 * Where the next block's code is put together: its packed part begins a line, and what is stored
 * there has another place in its page than elements that are read at that time. In the same place
 * all takes half as long again: loads seem to wait for stores that are alike in this, and those
 * wait behind ones past the caches.
 */
static unsigned char *choose_target(struct wring_lossless_outflow *out, const float *src,
                                    bool straight)
{
    unsigned char *begin = out->buffers[out->turn] + WRING_OUTFLOW_FRONT;
    size_t apart = straight ? APART_STRAIGHT : APART;
    size_t distance = (uintptr_t)src + apart - (uintptr_t)begin;

    return begin + (distance & (WRING_OUTFLOW_PAGE - WRING_LINE)) - WRING_LOSSLESS_HEAD;
}

/**
 * Put the rest before the code that waits, in front of it. That is done when the code's turn has
 * come, as the rest was stored just before it.
 * @return where all that is pending begins
 */
static unsigned char *join_rest(struct wring_lossless_outflow *out)
{
    memcpy(out->block - WRING_LINE, out->rest_end - WRING_LINE, WRING_LINE);
    return out->block - out->rest;
}

/** The line in which the first code begins belongs to others, too. @return lines that leave so */
static uint64_t put_first_line(struct wring_lossless_outflow *out, const unsigned char *from,
                               uint64_t lines)
{
    if (out->skip == 0 || lines == 0)
        return 0;
    memcpy(out->to + out->skip, from + out->skip, WRING_LINE - out->skip);
    out->skip = 0;
    return 1;
}

/**
 * The next block's turn to be packed.
 * @param src       that it is made of
 * @param straight  whether it shall go straight; the last one may not
 * @param beside    inout: what leaves meanwhile, and where the block belongs if it goes straight
 * @return where its code is put together, WRING_LOSSLESS_ROOM bytes
 */
static unsigned char *lossless_outflow_next(struct wring_lossless_outflow *out, const float *src,
                                            bool straight, struct wring_lossless_beside *beside)
{
    unsigned char *from = join_rest(out), *end = out->to + out->rest + out->bytes;
    uint64_t lines = (out->rest + out->bytes) / WRING_LINE,
             first = put_first_line(out, from, lines);
    uint64_t head = (out->rest + WRING_LOSSLESS_HEAD) / WRING_LINE + 1; /* up to packed data */
    uint64_t front = head < lines ? head : lines, behind = front + out->gone;

    beside->last = (struct wring_lossless_lines){from + first * WRING_LINE,
                                                 out->to + first * WRING_LINE, front - first};
    beside->leaving = (struct wring_lossless_lines){from + behind * WRING_LINE,
                                                    out->to + behind * WRING_LINE, lines - behind};
    beside->straight = straight ? end + WRING_LOSSLESS_HEAD : NULL;
    wring_streaming_enter(out->to);
    return choose_target(out, src, straight);
}

/** It is packed. @param block  its code @param gone  lines of it that went straight */
static void lossless_outflow_follow(struct wring_lossless_outflow *out, unsigned char *block,
                                    size_t bytes, uint64_t gone)
{
    size_t pending = out->rest + out->bytes;

    out->to += pending / WRING_LINE * WRING_LINE;
    out->rest = pending % WRING_LINE;
    out->rest_end = out->block + out->bytes;
    out->block = block;
    out->bytes = bytes;
    out->gone = gone;
    out->turn ^= 1;
}

/** All leaves and is settled. @return bytes of all codes */
static size_t lossless_outflow_end(struct wring_lossless_outflow *out)
{
    unsigned char *from = join_rest(out);
    size_t pending = out->rest + out->bytes;

    wring_streaming_stream(out->to + out->skip, from + out->skip, pending - out->skip);
    wring_streaming_settle();
    return (size_t)(out->to + pending - out->code);
}

/* ---- decode ---- */

/* lossless: blocks back into numbers, of codes that nobody vouches for. */

/** @return false where the head or what it says of the length is wrong */
static bool take_plan(const unsigned char *code, size_t left, uint64_t n,
                      struct wring_lossless_plan *plan)
{
    if (left < WRING_LOSSLESS_HEAD)
        return false;
    uint32_t head = wring_take_u32(code);
    *plan = (struct wring_lossless_plan){head & 0xFF, head >> 8 & 0xFF, head >> 16};
    bool known = wring_lossless_is_packed(plan) ? plan->others <= n
                                                : (plan->layout == WRING_LOSSLESS_ZEROS ||
                                                   plan->layout == WRING_LOSSLESS_AS_IS) &&
                                                      head >> 8 == 0;
    return known && wring_lossless_bytes(plan, n) <= left;
}

/** As they are, or added; a NaN's payload comes back only where nothing is added. */
static void take_as_is(float *dst, const unsigned char *code, uint64_t n, bool add)
{
    if (!add)
        memcpy(dst, code, n * sizeof(*dst));
    for (uint64_t i = 0; add && i < n; i++)
        dst[i] += wring_float_of(wring_take_u32(code + i * sizeof(*dst)));
}

/**
 * Hostile planes do no harm: the others are read inside the code or, for its last blocks, in memory
 * of our own.
 * @param left  bytes of code from `packed` on
 */
static enum wring_status take_packed(const struct wring_lossless_tier_kernels *kernels,
                                     const struct wring_lossless_plan *plan, float *dst,
                                     const unsigned char *packed, size_t left, uint64_t n, bool add)
{
    unsigned char copy[WRING_LOSSLESS_BLOCK_MAX + WRING_LOSSLESS_SLACK];
    unsigned width = plan->layout;
    const unsigned char *others = packed + WRING_LOSSLESS_OTHERS(n, width);

    if (left < WRING_LOSSLESS_OTHERS(n, width) + n + WRING_LOSSLESS_SLACK) {
        memcpy(copy, others, plan->others);
        memset(copy + plan->others, 0, n + WRING_LOSSLESS_SLACK - plan->others);
        others = copy;
    }
    uint64_t taken =
        (add ? kernels->unpack_add : kernels->unpack)(dst, packed, others, n, width, plan->top);
    return taken == plan->others ? WRING_OK : WRING_ERR_FRAME;
}

static enum wring_status take_block(const struct wring_lossless_tier_kernels *kernels,
                                    const struct wring_lossless_plan *plan, float *dst,
                                    const unsigned char *code, size_t left, uint64_t n, bool add)
{
    if (wring_lossless_is_packed(plan))
        return take_packed(kernels, plan, dst, code, left, n, add);
    if (plan->layout == WRING_LOSSLESS_AS_IS)
        take_as_is(dst, code, n, add);
    for (uint64_t i = 0; plan->layout == WRING_LOSSLESS_ZEROS && i < n; i++)
        dst[i] = add ? dst[i] + 0.0f : 0.0f;
    return WRING_OK;
}

static enum wring_status lossless_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    const struct wring_lossless_tier_kernels *kernels =
        ((const struct wring_lossless_tier *)codec->kernels)->kernels;
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;
    struct wring_lossless_plan plan;

    (void)context;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (!take_plan(at, code_bytes, n, &plan))
            return WRING_ERR_FRAME;
        size_t bytes = wring_lossless_bytes(&plan, n);
        if (WRING_IS_LONG(elems)) { /* streams that take turns are fetched more slowly */
            wring_streaming_read(at, bytes);
            wring_streaming_read(dst + done, add ? n * sizeof(*dst) : 0);
        }
        status = take_block(kernels, &plan, dst + done, at + WRING_LOSSLESS_HEAD,
                            code_bytes - WRING_LOSSLESS_HEAD, n, add);
        at += bytes;
        code_bytes -= bytes;
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}

/* ---- encode ---- */

/* lossless: how each block is laid out, and blocks on their way into code. */

#define MANY(n) (2 * WRING_LOSSLESS_PLANE(n)) /* others, from which on another top is tried */

/* elements after which those lie that a long call asks for: where blocks go straight, and else */
#define AHEAD_STRAIGHT WRING_PAGE
#define AHEAD 4608

#define DOUBT 16 /* blocks behind one that does not pack: taking back takes what so many gain */

/** Which layout takes least. */
static struct wring_lossless_plan make_plan(struct wring_lossless_far far, uint32_t top, uint64_t n)
{
    uint64_t narrow = WRING_LOSSLESS_BLOCK_NARROW * WRING_LOSSLESS_PLANE(n) + far.narrow;
    uint64_t wide = WRING_LOSSLESS_BLOCK_WIDE * WRING_LOSSLESS_PLANE(n) + far.wide;

    if (narrow >= n && wide >= n)
        return (struct wring_lossless_plan){WRING_LOSSLESS_AS_IS, 0, 0};
    if (narrow <= wide)
        return (struct wring_lossless_plan){WRING_LOSSLESS_NARROW, top, far.narrow};
    return (struct wring_lossless_plan){WRING_LOSSLESS_WIDE, top, far.wide};
}

static bool is_zeros(const float *src, uint64_t n)
{
    uint32_t any = 0;
    for (uint64_t i = 0; i < n; i++)
        any |= wring_bits_of(src[i]);
    return any == 0;
}

/** Float32 on their way into blocks. */
struct input {
    const struct wring_lossless_tier_kernels *kernels;
    const float *src;
    uint64_t left, unit, n;           /* elements: from here on, of a block, of this block */
    uint32_t peak;                    /* of this block's sample */
    enum wring_lossless_layout guess; /* one that is packed: of the block before */
    unsigned doubt;                   /* so many blocks are not to go straight */
};

/** Of a block's first elements: only a block that is unlike these is looked at twice. */
static uint32_t sample_peak(const struct wring_lossless_tier_kernels *kernels, const float *src,
                            uint64_t n)
{
    return kernels->peak(src, WRING_LOSSLESS_SAMPLE(n));
}

static struct input input_begin(const struct wring_codec *codec, const float *src, uint64_t elems)
{
    struct input in = {
        .kernels = wring_lossless_kernels(codec),
        .src = src,
        .left = elems,
        .unit = codec->info.unit,
        .n = wring_codec_unit_length(codec->info.unit, elems),
        .guess = WRING_LOSSLESS_NARROW,
    };
    in.peak = sample_peak(in.kernels, src, in.n);
    return in;
}

/** The next block's sample is looked at beside this one, if that is as long. */
static const float *input_next(const struct input *in)
{
    return in->left - in->n >= in->n ? in->src + in->n : NULL;
}

static void input_advance(struct input *in, const struct wring_lossless_beside *beside)
{
    in->src += in->n;
    in->left -= in->n;
    in->n = wring_codec_unit_length(in->unit, in->left);
    in->peak = beside->next != NULL ? beside->peak : sample_peak(in->kernels, in->src, in->n);
}

/** Packed with this top: which layout takes least. Where narrow leaves many, wide is packed, too.
 */
static struct wring_lossless_plan weigh_layouts(const struct input *in, unsigned char *packed,
                                                uint32_t top, struct wring_lossless_far far,
                                                enum wring_lossless_layout *packed_as)
{
    struct wring_lossless_beside nothing = {0};

    if (*packed_as == WRING_LOSSLESS_NARROW && far.narrow > WRING_LOSSLESS_PLANE(in->n)) {
        far = in->kernels->pack(packed, in->src, in->n, WRING_LOSSLESS_WIDE, top, &nothing);
        *packed_as = WRING_LOSSLESS_WIDE;
    }
    return make_plan(far, top, in->n);
}

/** With the largest exponent as top, where the sample's leaves many others, if that takes less. */
static struct wring_lossless_plan try_largest(const struct input *in, unsigned char *packed,
                                              struct wring_lossless_plan plan,
                                              enum wring_lossless_layout *packed_as)
{
    struct wring_lossless_beside nothing = {0};
    uint32_t top = in->kernels->peak(in->src, in->n) >> 24;
    if (top == in->peak >> 24)
        return plan;

    enum wring_lossless_layout as = WRING_LOSSLESS_NARROW;
    struct wring_lossless_far far = in->kernels->pack(packed, in->src, in->n, as, top, &nothing);
    struct wring_lossless_plan other = weigh_layouts(in, packed, top, far, &as);
    bool better = wring_lossless_bytes(&other, in->n) < wring_lossless_bytes(&plan, in->n);

    *packed_as = better ? as : WRING_LOSSLESS_AS_IS; /* or with a top that is not taken */
    return better ? other : plan;
}

/**
 * Plan a block that is unlike its sample or the block before. Not inlined, so that the plans of all
 * others stay in registers: loading a plan that was stored in parts waits for the stores past the
 * caches.
 * @param far  returned by packing it as the block before
 */
static __attribute__((noinline)) struct wring_lossless_plan replan_block(
    struct input *in, unsigned char *packed, struct wring_lossless_far far)
{
    struct wring_lossless_beside nothing = {0};
    enum wring_lossless_layout packed_as = in->guess;
    struct wring_lossless_plan plan = weigh_layouts(in, packed, in->peak >> 24, far, &packed_as);

    if (in->peak == 0 && is_zeros(in->src, in->n))
        return (struct wring_lossless_plan){WRING_LOSSLESS_ZEROS, 0, 0};
    if (plan.layout == WRING_LOSSLESS_AS_IS || plan.others > MANY(in->n))
        plan = try_largest(in, packed, plan, &packed_as);
    if (plan.layout == WRING_LOSSLESS_AS_IS) {
        memcpy(packed, in->src, in->n * sizeof(*in->src));
        return plan;
    }
    if (plan.layout != packed_as)
        in->kernels->pack(packed, in->src, in->n, plan.layout, plan.top, &nothing);
    in->guess = plan.layout;
    return plan;
}

/** Pack as the block before was: most often that takes least, and few others say so. */
static struct wring_lossless_plan pack_block(struct input *in, unsigned char *packed,
                                             struct wring_lossless_beside *beside)
{
    uint32_t top = in->peak >> 24, few = (uint32_t)WRING_LOSSLESS_PLANE(in->n);
    struct wring_lossless_far far =
        in->kernels->pack(packed, in->src, in->n, in->guess, top, beside);

    if (in->peak == 0 || 6 * few >= in->n) /* perhaps all zeros, or a short one */
        return replan_block(in, packed, far);
    if (in->guess == WRING_LOSSLESS_NARROW && far.narrow <= few)
        return (struct wring_lossless_plan){WRING_LOSSLESS_NARROW, top, far.narrow};
    if (in->guess == WRING_LOSSLESS_WIDE && far.wide <= MANY(in->n) && far.narrow > far.wide + few)
        return (struct wring_lossless_plan){WRING_LOSSLESS_WIDE, top, far.wide};
    return replan_block(in, packed, far);
}

/** Lines that went straight are not part of the code after all; the right ones leave after them. */
static void take_back_lines(struct wring_lossless_beside *beside)
{
    wring_streaming_settle();
    beside->straight = NULL;
}

/** @param at  out, WRING_LOSSLESS_ROOM(in->n) bytes @return bytes of the code */
static size_t put_block(struct input *in, unsigned char *at, struct wring_lossless_beside *beside)
{
    struct wring_lossless_plan plan = pack_block(in, at + WRING_LOSSLESS_HEAD, beside);
    unsigned char *others = at + WRING_LOSSLESS_HEAD + WRING_LOSSLESS_OTHERS(in->n, plan.layout);
    bool packs = plan.layout != WRING_LOSSLESS_AS_IS;

    wring_put_u32(at, (uint32_t)plan.layout | plan.top << 8 | plan.others << 16);
    if (wring_lossless_is_packed(&plan))
        memset(others + plan.others, 0, 3);
    else if (beside->straight != NULL)
        take_back_lines(beside);
    in->doubt = packs ? in->doubt - (in->doubt > 0) : DOUBT;
    return wring_lossless_bytes(&plan, in->n);
}

/**
 * Codes that stay in a near cache until they are sent.
 * @param room  bytes of code @param piece  room for a block, whose code may be shorter
 */
static size_t encode_near(struct input in, unsigned char *code, size_t room, unsigned char *piece)
{
    size_t bytes = 0;

    while (in.left > 0) {
        struct wring_lossless_beside beside = {.next = input_next(&in)};
        bool fits = room - bytes >= WRING_LOSSLESS_ROOM(in.n);
        size_t more = put_block(&in, fits ? code + bytes : piece, &beside);
        if (!fits)
            memcpy(code + bytes, piece, more);
        bytes += more;
        input_advance(&in, &beside);
    }
    return bytes;
}

static bool may_go_straight(const struct input *in)
{
    return in->kernels->straight && in->unit == WRING_LOSSLESS_BLOCK_USUAL && in->doubt == 0;
}

/** Codes that leave for memory. The last block does not go straight, nor one that may be zeros. */
static size_t encode_far(struct input in, unsigned char *code, struct wring_lossless_outflow *out)
{
    lossless_outflow_begin(out, code);
    while (in.left > 0) {
        bool may = may_go_straight(&in), straight = may && in.left > in.n && in.peak != 0;
        uint64_t ahead = may ? AHEAD_STRAIGHT : AHEAD;
        struct wring_lossless_beside beside = {
            .next = input_next(&in),
            .fetch = in.left >= ahead + in.n ? in.src + ahead : NULL,
        };
        unsigned char *block = lossless_outflow_next(out, in.src, straight, &beside);
        size_t bytes = put_block(&in, block, &beside);
        uint64_t gone = beside.straight != NULL ? WRING_LOSSLESS_STRAIGHT(in.n) : 0;
        lossless_outflow_follow(out, block, bytes, gone);
        input_advance(&in, &beside);
    }
    return lossless_outflow_end(out);
}

static size_t lossless_bound(const struct wring_codec *codec, uint64_t elems);

static size_t lossless_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)context, (void)residual; /* nothing is lost, so nothing remains */
    if (elems == 0)
        return 0;
    struct input in = input_begin(codec, src, elems);
    if (WRING_IS_LONG(elems))
        return encode_far(in, code, scratch);
    return encode_near(in, code, lossless_bound(codec, elems), scratch);
}

/* ---- lossless ---- */

enum {
    PARAM_BLOCK
};

static const struct wring_codec_param params[] = {
    [PARAM_BLOCK] = {"block", NULL, "elements that share an exponent", WRING_LOSSLESS_BLOCK_USUAL,
                     32, WRING_LOSSLESS_BLOCK_MAX, 32},
};

static uint64_t lossless_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[PARAM_BLOCK];
}

static enum wring_status lossless_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    wring_codec_take_kernels(codec, wring_lossless_tiers, sizeof(wring_lossless_tiers[0]));
    return WRING_OK;
}

static size_t lossless_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = lossless_unit(codec);
    return (elems + unit - 1) / unit * WRING_LOSSLESS_HEAD + elems * sizeof(float);
}

static size_t lossless_encode16(const struct wring_codec *codec,
                                const struct wring_codec_context *context, enum wring_dtype dtype,
                                const void *src, uint64_t elems, void *code, void *scratch)
{
    (void)context;
    return wring_lossless16_encode(codec, dtype, src, elems, code, scratch);
}

static enum wring_status lossless_decode16(const struct wring_codec *codec,
                                           const struct wring_codec_context *context,
                                           enum wring_dtype dtype, const void *code,
                                           size_t code_bytes, void *dst, uint64_t elems)
{
    (void)context;
    return wring_lossless16_decode(codec, dtype, code, code_bytes, dst, elems);
}

const struct wring_codec_ops wring_codec_lossless = {
    .name = "lossless",
    .doc = "each bit as it was, with the exponents of each block packed",
    .flags = WRING_CODEC_EXACT | WRING_CODEC_UNBIASED,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .init = lossless_init,
    .unit = lossless_unit,
    .bound = lossless_bound,
    .scratch_bytes = sizeof(struct wring_lossless_outflow), /* longer than a block's code */
    .encode = lossless_encode,
    .decode = lossless_decode,
    .encode16 = lossless_encode16,
    .decode16 = lossless_decode16,
};
