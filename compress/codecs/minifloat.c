/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/minifloat.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/streaming.h"
#include "compress/noise.h"

#define WINDOW WRING_MINIFLOAT_WINDOW
#define HEAD 4       /* bytes */
#define BLOCK_MIN 16 /* elements */
#define UNIT_MIN 32
#define LOST_BYTE 0xFF /* the step of a block that is not finite */

/** What units that are encoded together, or one that is longer, are encoded by. */
struct scales {
    uint32_t peaks[WINDOW / BLOCK_MIN];
    float inverse[WINDOW / BLOCK_MIN], step[WINDOW / BLOCK_MIN]; /* of each block */
    bool finite[WINDOW / UNIT_MIN];                              /* each unit */
};

static const struct wring_minifloat_plan *plan_of(const struct wring_codec *codec)
{
    return codec->own;
}

/** Of the numbers themselves. */
struct numbers {
    unsigned bits;
    float largest;
    int exponent; /* of the largest */
};

static struct numbers numbers_of(enum wring_minifloat format)
{
    switch (format) {
    case WRING_E4M3:
    case WRING_E4M3_BY_32:
        return (struct numbers){8, 448, 8};
    case WRING_E5M2:
    case WRING_E5M2_BY_32:
        return (struct numbers){8, 57344, 15};
    default:
        return (struct numbers){4, 6, 2};
    }
}

uint64_t wring_minifloat_unit(const struct wring_codec *codec)
{
    return plan_of(codec)->unit;
}

static size_t element_bytes(const struct wring_minifloat_plan *plan, uint64_t n)
{
    return (n * plan->bits + 7) / 8;
}

static struct wring_minifloat_lengths measure(const struct wring_minifloat_plan *plan, uint64_t n)
{
    uint64_t blocks = (n + plan->block - 1) / plan->block;
    size_t front = (plan->scaling->has_head ? HEAD : 0) + (plan->scaling->has_bytes ? blocks : 0);

    return (struct wring_minifloat_lengths){blocks, front, front + element_bytes(plan, n)};
}

void wring_minifloat_init(struct wring_codec *codec, enum wring_minifloat format, bool random,
                          float top)
{
    struct wring_minifloat_plan *plan = codec->own;
    struct numbers numbers = numbers_of(format);

    wring_codec_take_kernels(codec, wring_minifloat_tiers, sizeof(wring_minifloat_tiers[0]));
    plan->kernels = ((const struct wring_minifloat_tier *)codec->kernels)->kernels;
    plan->form = &plan->kernels->forms[format];
    plan->bits = numbers.bits;
    plan->largest = numbers.largest;
    plan->exponent = numbers.exponent;
    plan->random = random;
    plan->top = top;
    plan->full = measure(plan, plan->unit);
    plan->keep = 1;
    if (random && codec->info.flags & WRING_CODEC_FEEDBACK)
        plan->keep = (float)(1 / (1 + plan->omega));
    else if (random)
        codec->info.flags |= WRING_CODEC_UNBIASED;
}

/** Of a unit of n elements. */
static struct wring_minifloat_lengths lengths_of(const struct wring_minifloat_plan *plan,
                                                 uint64_t n)
{
    return n == plan->unit ? plan->full : measure(plan, n);
}

size_t wring_minifloat_bound(const struct wring_codec *codec, uint64_t elems)
{
    const struct wring_minifloat_plan *plan = plan_of(codec);
    uint64_t unit = plan->unit;

    return elems / unit * plan->full.bytes +
           (elems % unit != 0 ? measure(plan, elems % unit).bytes : 0);
}

static uint32_t largest_of(const uint32_t *peaks, uint64_t blocks)
{
    uint32_t largest = 0;

    for (uint64_t b = 0; b < blocks; b++)
        largest = peaks[b] > largest ? peaks[b] : largest;
    return largest;
}

/** A unit that is not finite: its head and the steps of its blocks are NaN. */
static void put_lost(const struct wring_minifloat_plan *plan,
                     struct wring_minifloat_lengths lengths, unsigned char *code)
{
    memset(code, 0, lengths.bytes);
    if (plan->scaling->has_head)
        wring_put_u32(code, WRING_NAN_BITS);
    else
        memset(code, LOST_BYTE, lengths.blocks);
}

/** All that stands before elements. @return whether the unit is finite */
static bool put_front(const struct wring_minifloat_plan *plan, struct scales *scales,
                      uint64_t block, struct wring_minifloat_lengths lengths, unsigned char *code)
{
    const uint32_t *peaks = scales->peaks + block;
    uint32_t largest = largest_of(peaks, lengths.blocks);
    float head = 0;

    if (largest >= WRING_INF_BITS) {
        put_lost(plan, lengths, code);
        return false;
    }
    plan->scaling->scale(plan, peaks, largest, lengths.blocks, &head,
                         code + (plan->scaling->has_head ? HEAD : 0), scales->inverse + block,
                         scales->step + block);
    if (plan->scaling->has_head)
        wring_put_u32(code, wring_bits_of(head));
    return true;
}

/** Elements that are to be encoded. */
struct input {
    const float *src;
    float *residual;  /* or NULL */
    uint64_t element; /* of the bucket, the first one */
    uint64_t left;    /* from there on */
};

static struct input input_from(struct input in, uint64_t i)
{
    return (struct input){in.src + i, in.residual == NULL ? NULL : in.residual + i, in.element + i,
                          in.left - i};
}

/** The first n. */
static void put_elements(const struct wring_minifloat_plan *plan, struct wring_noise *noise,
                         struct input in, uint64_t n, const float *inverse, const float *step,
                         unsigned char *code)
{
    for (uint64_t i = 0; i < n; i += WINDOW) {
        struct input here = input_from(in, i);
        uint64_t some = wring_codec_unit_length(WINDOW, n - i);
        const uint32_t *drawn =
            plan->random ? wring_noise_of(noise, here.element, some, here.left) : NULL;
        plan->form->encode[plan->random](code + element_bytes(plan, i), here.src, here.residual,
                                         some, inverse, step, drawn);
    }
}

/** Whole units that a window holds, or one that is longer. */
static uint64_t stretch_of(uint64_t unit)
{
    return unit < WINDOW ? WINDOW / unit * unit : unit;
}

/** All scales first: no unit waits for its own. @return bytes */
static size_t encode_stretch(const struct wring_minifloat_plan *plan, struct wring_noise *noise,
                             struct input in, uint64_t n, unsigned char *code)
{
    uint64_t unit = plan->unit, per_unit = plan->full.blocks;
    unsigned char *at = code;
    struct scales scales;

    plan->kernels->peaks(scales.peaks, in.src, in.residual, n, plan->block);
    for (uint64_t i = 0, u = 0; i < n; i += unit, u++)
        scales.finite[u] = put_front(plan, &scales, u * per_unit,
                                     lengths_of(plan, wring_codec_unit_length(unit, n - i)),
                                     code + u * plan->full.bytes);
    for (uint64_t i = 0, u = 0; i < n; i += unit, u++) {
        uint64_t live = wring_codec_unit_length(unit, n - i);
        struct wring_minifloat_lengths lengths = lengths_of(plan, live);
        if (scales.finite[u])
            put_elements(plan, noise, input_from(in, i), live, scales.inverse + u * per_unit,
                         scales.step + u * per_unit, at + lengths.front);
        at += lengths.bytes;
    }
    return (size_t)(at - code);
}

size_t wring_minifloat_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch)
{
    const struct wring_minifloat_plan *plan = plan_of(codec);
    const struct input in = {src, residual, context->element, elems};
    uint64_t stretch = stretch_of(plan->unit);
    unsigned char *at = code;
    struct wring_noise noise;

    (void)scratch;
    if (plan->random)
        wring_noise_begin(&noise, codec, context);
    for (uint64_t done = 0; done < elems; done += stretch) {
        uint64_t n = wring_codec_unit_length(stretch, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_fetch_ahead(src + done, n, residual != NULL);
        at += encode_stretch(plan, &noise, input_from(in, done), n, at);
    }
    return (size_t)(at - (unsigned char *)code);
}

static enum wring_status decode_unit(const struct wring_minifloat_plan *plan,
                                     struct wring_minifloat_lengths lengths,
                                     const unsigned char *code, float *dst, uint64_t n, bool add)
{
    float step[WINDOW / BLOCK_MIN], head = 0;
    const unsigned char *bytes = code;

    if (plan->scaling->has_head) {
        uint32_t head_bits = wring_take_u32(code);
        if (head_bits == WRING_NAN_BITS) {
            wring_codec_fill_nan(dst, n);
            return WRING_OK;
        }
        if (head_bits > wring_bits_of(plan->top))
            return WRING_ERR_FRAME; /* below zero, not finite, or too large */
        head = wring_float_of(head_bits);
        bytes += HEAD;
    }
    plan->scaling->steps(plan, head, bytes, lengths.blocks, step);
    (add ? plan->form->decode_add : plan->form->decode)(dst, code + lengths.front, n, step);
    return WRING_OK;
}

enum wring_status wring_minifloat_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add)
{
    const struct wring_minifloat_plan *plan = plan_of(codec);
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != wring_minifloat_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += plan->unit) {
        uint64_t n = wring_codec_unit_length(plan->unit, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch_unit(dst + done, n);
        struct wring_minifloat_lengths lengths = lengths_of(plan, n);
        status = decode_unit(plan, lengths, at, dst + done, n, add);
        at += lengths.bytes;
    }
    return status;
}
