/* SPDX-License-Identifier: Apache-2.0 */
/** lossless: blocks back into numbers, of codes that nobody vouches for. */
#include "compress/codecs/lossless.h"

#include "compress/kernels/bits.h"

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
 * Whatever a peer makes of the planes, the others are read inside the code, or of its last blocks
 * in memory of our own.
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

enum wring_status wring_lossless_decode(const struct wring_codec *codec,
                                        const struct wring_codec_context *context, const void *code,
                                        size_t code_bytes, float *dst, uint64_t elems, bool add)
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
