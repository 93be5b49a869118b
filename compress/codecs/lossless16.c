/* SPDX-License-Identifier: Apache-2.0 */
/** lossless of bf16 and f16 as they are: FORMAT.md, "lossless". */
#include "compress/codecs/lossless.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/lossless16.h"
#include "compress/kernels/streaming.h"

#define AS_IS 16     /* the first byte of a unit that is not packed */
#define MORE_BYTES 3 /* of the head of one that is */
#define HEAD (1 + MORE_BYTES)
#define AHEAD 8 /* units */

struct plan {
    struct wring_lossless16_form form; /* width 0: all +0; AS_IS: not packed */
    uint32_t others;
};

static const struct wring_lossless16_tier_kernels *kernels_of(const struct wring_codec *codec)
{
    const struct wring_lossless16_tier *tier =
        wring_kernels_pick(wring_lossless16_tiers, sizeof(wring_lossless16_tiers[0]), codec->tier);
    return tier->kernels;
}

static unsigned fraction_of(enum wring_dtype dtype)
{
    return dtype == WRING_F16 ? WRING_LOSSLESS16_F16 : 0;
}

static size_t bytes_of(const struct plan *plan, uint64_t n)
{
    if (plan->form.width == 0)
        return 1;
    if (plan->form.width == AS_IS)
        return 1 + n * sizeof(uint16_t);
    return HEAD + WRING_LOSSLESS16_OTHERS(n, plan->form) + plan->others;
}

/* ---- encode ---- */

/** The form of fewest bytes, if distances count from `top`. @param far  as pack() says for it */
static struct plan make_plan(struct wring_lossless16_form form, struct wring_lossless_far far,
                             uint64_t n)
{
    struct plan narrow = {form, far.narrow}, wide = {form, far.wide}, as_is = {{0, AS_IS, 0}, 0};

    narrow.form.width = WRING_LOSSLESS_BLOCK_NARROW;
    wide.form.width = WRING_LOSSLESS_BLOCK_WIDE;
    struct plan best = bytes_of(&narrow, n) <= bytes_of(&wide, n) ? narrow : wide;
    return bytes_of(&best, n) < bytes_of(&as_is, n) ? best : as_is;
}

/** A unit that is to be encoded. */
struct input {
    const struct wring_lossless16_tier_kernels *kernels;
    const uint16_t *src;
    uint64_t n;
    uint8_t *packed;                 /* [WRING_LOSSLESS16_ROOM(n)], where it is packed ... */
    struct wring_lossless16_form as; /* ... in this form last */
};

/** Pack it narrow with distances from the exponent of `peak`. @return what takes fewest bytes */
static struct plan try_top(struct input *in, unsigned fraction, uint32_t peak)
{
    in->as = (struct wring_lossless16_form){fraction, WRING_LOSSLESS_BLOCK_NARROW,
                                            peak >> 8 >> fraction};
    return make_plan(in->as, in->kernels->pack(in->packed, in->src, in->n, in->as), in->n);
}

/** @param src  at any address */
static bool is_zeros(const void *src, uint64_t n)
{
    const uint8_t *bytes = src;
    uint32_t any = 0;
    for (uint64_t i = 0; i < n * sizeof(uint16_t); i++)
        any |= bytes[i];
    return any == 0;
}

static struct plan plan_unit(struct input *in, unsigned fraction)
{
    uint32_t sample = in->kernels->peak(in->src, WRING_LOSSLESS_SAMPLE(in->n));
    if (sample == 0 && is_zeros(in->src, in->n))
        return (struct plan){{0, 0, 0}, 0};

    struct plan plan = try_top(in, fraction, sample);
    if (plan.form.width != AS_IS && plan.others <= 2 * WRING_LOSSLESS_PLANE(in->n))
        return plan;
    uint32_t peak = in->kernels->peak(in->src, in->n);
    if (peak >> 8 >> fraction == sample >> 8 >> fraction)
        return plan;
    struct plan other = try_top(in, fraction, peak);
    return bytes_of(&other, in->n) < bytes_of(&plan, in->n) ? other : plan;
}

/** @return bytes of the unit's code */
static size_t put_unit(struct input *in, unsigned fraction, uint8_t *code)
{
    struct plan plan = plan_unit(in, fraction);

    code[0] = (uint8_t)plan.form.width;
    if (plan.form.width == AS_IS)
        memcpy(code + 1, in->src, in->n * sizeof(*in->src));
    if (plan.form.width == 0 || plan.form.width == AS_IS)
        return bytes_of(&plan, in->n);
    if (plan.form.width != in->as.width || plan.form.top != in->as.top)
        in->kernels->pack(in->packed, in->src, in->n, plan.form);
    code[1] = (uint8_t)plan.form.top;
    code[2] = (uint8_t)plan.others;
    code[3] = (uint8_t)(plan.others >> 8);
    memcpy(code + HEAD, in->packed, bytes_of(&plan, in->n) - HEAD);
    return bytes_of(&plan, in->n);
}

size_t wring_lossless16_encode(const struct wring_codec *codec, enum wring_dtype dtype,
                               const void *src, uint64_t elems, void *code, void *scratch)
{
    struct input in = {.kernels = kernels_of(codec), .src = src, .packed = scratch};
    unsigned fraction = fraction_of(dtype);
    uint8_t *at = code;

    for (uint64_t left = elems; left > 0; left -= in.n, in.src += in.n) {
        in.n = wring_codec_unit_length(codec->info.unit, left);
        at += put_unit(&in, fraction, at);
    }
    return (size_t)(at - (uint8_t *)code);
}

/* ---- decode ---- */

/** @return false where the head or what it says of the length is wrong */
static bool take_plan(const uint8_t *code, size_t left, uint64_t n, unsigned fraction,
                      struct plan *plan)
{
    if (left < 1)
        return false;
    unsigned width = *(const volatile uint8_t *)code;
    *plan = (struct plan){{fraction, width, 0}, 0};
    if (width == WRING_LOSSLESS_BLOCK_NARROW || width == WRING_LOSSLESS_BLOCK_WIDE) {
        if (left < HEAD)
            return false;
        uint32_t head = wring_take_u32(code);
        plan->form.top = head >> 8 & 0xFF;
        plan->others = head >> 16;
        if (plan->others > n || plan->form.top > 0xFFu >> fraction)
            return false;
    } else if (width != 0 && width != AS_IS) {
        return false;
    }
    return bytes_of(plan, n) <= left;
}

static enum wring_status take_unit(const struct wring_lossless16_tier_kernels *kernels,
                                   const struct plan *plan, uint16_t *dst, const uint8_t *code,
                                   uint64_t n)
{
    if (plan->form.width == 0)
        memset(dst, 0, n * sizeof(*dst));
    else if (plan->form.width == AS_IS)
        memcpy(dst, code + 1, n * sizeof(*dst));
    else if (kernels->unpack(dst, code + HEAD, code + HEAD + WRING_LOSSLESS16_OTHERS(n, plan->form),
                             plan->others, n, plan->form) != plan->others)
        return WRING_ERR_FRAME;
    return WRING_OK;
}

/** A unit is read in several places at once, and no processor fetches these ahead: ask for a unit
 *  that comes later. */
static void ask_ahead(const uint8_t *at, size_t left, size_t unit_bytes)
{
    if (left >= (AHEAD + 1) * unit_bytes)
        wring_streaming_fetch(at + AHEAD * unit_bytes, unit_bytes);
}

enum wring_status wring_lossless16_decode(const struct wring_codec *codec, enum wring_dtype dtype,
                                          const void *code, size_t code_bytes, void *dst,
                                          uint64_t elems)
{
    const struct wring_lossless16_tier_kernels *kernels = kernels_of(codec);
    const uint8_t *at = code;
    uint16_t *to = dst;
    enum wring_status status = WRING_OK;
    struct plan plan;

    for (uint64_t left = elems, n; left > 0 && status == WRING_OK; left -= n, to += n) {
        n = wring_codec_unit_length(codec->info.unit, left);
        if (!take_plan(at, code_bytes, n, fraction_of(dtype), &plan))
            return WRING_ERR_FRAME;
        size_t bytes = bytes_of(&plan, n);
        ask_ahead(at, code_bytes, bytes);
        status = take_unit(kernels, &plan, to, at, n);
        at += bytes;
        code_bytes -= bytes;
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}
