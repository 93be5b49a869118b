/* SPDX-License-Identifier: Apache-2.0 */
/** lossless: how each block is laid out, and blocks on their way into code. */
#include "compress/codecs/lossless_outflow.h"

#include "compress/kernels/bits.h"

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
static struct wring_lossless_plan weigh(const struct input *in, unsigned char *packed, uint32_t top,
                                        struct wring_lossless_far far,
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
    struct wring_lossless_plan other = weigh(in, packed, top, far, &as);
    bool better = wring_lossless_bytes(&other, in->n) < wring_lossless_bytes(&plan, in->n);

    *packed_as = better ? as : WRING_LOSSLESS_AS_IS; /* or with a top that is not taken */
    return better ? other : plan;
}

/**
 * A block that is unlike its sample or the block before. Not inlined: the plans of all others stay
 * in registers, as a load of what was stored in parts waits for the stores past the caches.
 * @param far  of packing as the block before
 */
static __attribute__((noinline)) struct wring_lossless_plan look_again(
    struct input *in, unsigned char *packed, struct wring_lossless_far far)
{
    struct wring_lossless_beside nothing = {0};
    enum wring_lossless_layout packed_as = in->guess;
    struct wring_lossless_plan plan = weigh(in, packed, in->peak >> 24, far, &packed_as);

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
        return look_again(in, packed, far);
    if (in->guess == WRING_LOSSLESS_NARROW && far.narrow <= few)
        return (struct wring_lossless_plan){WRING_LOSSLESS_NARROW, top, far.narrow};
    if (in->guess == WRING_LOSSLESS_WIDE && far.wide <= MANY(in->n) && far.narrow > far.wide + few)
        return (struct wring_lossless_plan){WRING_LOSSLESS_WIDE, top, far.wide};
    return look_again(in, packed, far);
}

/** What went straight is not of the code; what belongs there leaves after it. */
static void take_back(struct wring_lossless_beside *beside)
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
        take_back(beside);
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
    wring_lossless_outflow_begin(out, code);
    while (in.left > 0) {
        bool may = may_go_straight(&in), straight = may && in.left > in.n && in.peak != 0;
        uint64_t ahead = may ? AHEAD_STRAIGHT : AHEAD;
        struct wring_lossless_beside beside = {
            .next = input_next(&in),
            .fetch = in.left >= ahead + in.n ? in.src + ahead : NULL,
        };
        unsigned char *block = wring_lossless_outflow_next(out, in.src, straight, &beside);
        size_t bytes = put_block(&in, block, &beside);
        uint64_t gone = beside.straight != NULL ? WRING_LOSSLESS_STRAIGHT(in.n) : 0;
        wring_lossless_outflow_follow(out, block, bytes, gone);
        input_advance(&in, &beside);
    }
    return wring_lossless_outflow_end(out);
}

size_t wring_lossless_encode(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch)
{
    (void)context, (void)residual; /* nothing is lost, so nothing remains */
    if (elems == 0)
        return 0;
    struct input in = input_begin(codec, src, elems);
    if (WRING_IS_LONG(elems))
        return encode_far(in, code, scratch);
    return encode_near(in, code, wring_lossless_bound(codec, elems), scratch);
}
