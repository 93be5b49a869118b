/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/votes.h"

#include <stdio.h>
#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/kernels/onebit.h"
#include "compress/kernels/streaming.h"
#include "compress/kernels/votes.h"

#define HEAD 4   /* bytes before a unit's signs */
#define FINITE 0 /* in the head; else the one NaN */
#define COINS 64 /* random numbers at a time */
#define UPPER_BIT 31

struct wring_votes_own {
    const struct wring_votes_kernels *votes;
    const struct wring_onebit_kernels *signs;
};

_Static_assert(sizeof(struct wring_votes_own) == WRING_VOTES_OWN_BYTES, "the header says so");

size_t wring_votes_bytes(uint64_t n)
{
    return HEAD + (n + 7) / 8;
}

enum wring_status wring_votes_init(struct wring_codec *codec, char *why, size_t why_bytes)
{
    struct wring_votes_own *own = codec->own;
    const struct wring_onebit_tier *signs =
        wring_kernels_pick(wring_onebit_tiers, sizeof(wring_onebit_tiers[0]), codec->tier);

    if (codec->info.flags & WRING_CODEC_FEEDBACK) {
        snprintf(why, why_bytes,
                 "%s+ef: signs alone have no scale that a residual could have; use onebit+ef",
                 codec->ops->name);
        return WRING_ERR_INVALID;
    }
    wring_codec_take_kernels(codec, wring_votes_tiers, sizeof(wring_votes_tiers[0]));
    own->votes = ((const struct wring_votes_tier *)codec->kernels)->kernels;
    own->signs = signs->kernels;
    return WRING_OK;
}

uint64_t wring_votes_unit(const struct wring_codec *codec)
{
    return (uint64_t)codec->params[0];
}

size_t wring_votes_bound(const struct wring_codec *codec, uint64_t elems)
{
    uint64_t unit = wring_votes_unit(codec);
    return elems / unit * wring_votes_bytes(unit) +
           (elems % unit != 0 ? wring_votes_bytes(elems % unit) : 0);
}

/** A zero votes as all ranks' zeros do: by a random bit of the element and the step. */
static void toss_for_zeros(const struct wring_codec_context *context, uint64_t element,
                           const float *src, uint64_t n, unsigned char *bits)
{
    uint32_t random[COINS];

    for (uint64_t done = 0; done < n; done += COINS) {
        uint64_t left = n - done, now = left < COINS ? left : COINS, i = 0;
        while (i < now && src[done + i] != 0)
            i++;
        if (i == now)
            continue;
        wring_codec_random(context, WRING_DRAW_SHARED, element + done, random, now);
        for (; i < now; i++) {
            uint64_t at = done + i;
            unsigned mask = 1u << at % 8, coin = random[i] >> UPPER_BIT << at % 8;
            if (src[at] == 0)
                bits[at / 8] = (unsigned char)((bits[at / 8] & ~mask) | coin);
        }
    }
}

bool wring_votes_encode_unit(const struct wring_codec *codec,
                             const struct wring_codec_context *context, uint64_t element,
                             const float *src, uint64_t n, unsigned char *code)
{
    const struct wring_votes_own *own = codec->own;
    unsigned char *bits = code + HEAD;
    unsigned found = own->votes->votes(bits, src, n);
    bool lost = (found & WRING_VOTES_LOST) != 0;

    wring_put_u32(code, lost ? WRING_NAN_BITS : FINITE);
    if (lost)
        memset(bits, 0, (n + 7) / 8);
    else if (found & WRING_VOTES_ZERO)
        toss_for_zeros(context, element, src, n, bits);
    return !lost;
}

size_t wring_votes_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, unsigned char *code)
{
    uint64_t unit = codec->info.unit;
    unsigned char *at = code;

    for (uint64_t done = 0; done < elems; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (WRING_IS_LONG(elems))
            wring_streaming_enter(src + done + n);
        wring_votes_encode_unit(codec, context, context->element + done, src + done, n, at);
        at += wring_votes_bytes(n);
    }
    return (size_t)(at - code);
}

static enum wring_status decode_unit(const struct wring_votes_own *own, const unsigned char *code,
                                     float *dst, uint64_t n, bool add)
{
    uint32_t head = wring_take_u32(code);

    if (head == WRING_NAN_BITS)
        wring_codec_fill_nan(dst, n);
    else if (head != FINITE)
        return WRING_ERR_FRAME;
    else
        (add ? own->signs->spread_add : own->signs->spread)(dst, code + HEAD, n, 1, -1);
    return WRING_OK;
}

enum wring_status wring_votes_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *at = code;
    enum wring_status status = WRING_OK;

    (void)context;
    if (code_bytes != wring_votes_bound(codec, elems))
        return WRING_ERR_FRAME;
    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        if (add && WRING_IS_LONG(elems))
            wring_streaming_fetch(dst + done, n * sizeof(*dst));
        status = decode_unit(codec->own, at, dst + done, n, add);
        at += wring_votes_bytes(n);
    }
    return status;
}

void wring_votes_mix(const struct wring_codec *codec, float *out, const float *momentum,
                     const float *src, uint64_t n, float keep, float take)
{
    const struct wring_votes_own *own = codec->own;
    own->votes->mix(out, momentum, src, n, keep, take);
}
