/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/values.h"

#include <string.h>

#include "compress/kernels/bits.h"

#define WORD 64 /* bits of a map's word */

size_t wring_values_bytes(const struct wring_codec *codec, uint64_t count)
{
    return codec != NULL ? wring_codec_bound(codec, count) : sizeof(float) * (size_t)count;
}

struct wring_values_walk wring_values_walk(const uint64_t *map, uint64_t n)
{
    return (struct wring_values_walk){.map = map, .n = n, .left = n > 0 ? map[0] : 0};
}

bool wring_values_next(struct wring_values_walk *walk, uint64_t *index)
{
    while (walk->left == 0) {
        if (++walk->word >= (walk->n + WORD - 1) / WORD)
            return false;
        walk->left = walk->map[walk->word];
    }
    *index = walk->word * WORD + (unsigned)__builtin_ctzll(walk->left);
    walk->left &= walk->left - 1;
    return true;
}

/** Values that are coded at a time from there on: whole units, and perhaps a short last one. */
static uint64_t piece_of(const struct wring_codec *codec, uint64_t left)
{
    uint64_t piece = WRING_VALUES_PIECE / codec->info.unit * codec->info.unit;
    return left < piece ? left : piece;
}

static struct wring_codec_context context_of(const struct wring_values *values, uint64_t done)
{
    struct wring_codec_context context = *values->context;

    context.element += values->begin + done;
    return context;
}

static bool all_finite(const float *values, uint64_t n)
{
    uint32_t peak = 0;

    for (uint64_t i = 0; i < n; i++)
        peak = wring_magnitude(values[i]) > peak ? wring_magnitude(values[i]) : peak;
    return peak < WRING_INF_BITS;
}

uint64_t wring_values_decode(const struct wring_values *values, const unsigned char *code,
                             uint64_t count, uint64_t done, float *out)
{
    uint64_t n = piece_of(values->codec, count - done);
    struct wring_codec_context context = context_of(values, done);
    enum wring_status status =
        wring_codec_decode(values->codec, &context, code + wring_codec_bound(values->codec, done),
                           wring_codec_bound(values->codec, n), out, n, false);

    return status == WRING_OK && all_finite(out, n) ? n : 0;
}

bool wring_values_encode(const struct wring_values *values, const uint64_t *map, const float *src,
                         const float *residual, uint64_t n, uint64_t count, unsigned char *code)
{
    struct wring_values_walk walk = wring_values_walk(map, n);
    float piece[WRING_VALUES_PIECE], left[WRING_VALUES_PIECE];
    bool finite = true;
    uint64_t i;

    for (uint64_t done = 0, some; done < count && finite; done += some) {
        struct wring_codec_context context = context_of(values, done);
        unsigned char *at = code + wring_codec_bound(values->codec, done);
        some = piece_of(values->codec, count - done);
        for (uint64_t k = 0; k < some && wring_values_next(&walk, &i); k++)
            piece[k] = wring_fed(src, residual, i);
        memset(left, 0, sizeof(left)); /* the block's residual keeps it */
        wring_codec_encode(values->codec, &context, piece, some, residual != NULL ? left : NULL,
                           at);
        finite = wring_values_decode(values, code, count, done, piece) == some;
    }
    return finite;
}

void wring_values_take(const struct wring_values *values, const uint64_t *map, float *fed,
                       uint64_t n, uint64_t count, const unsigned char *code)
{
    struct wring_values_walk walk = wring_values_walk(map, n);
    float piece[WRING_VALUES_PIECE];
    uint64_t i;

    for (uint64_t done = 0, some; done < count; done += some) {
        some = wring_values_decode(values, code, count, done, piece);
        if (some == 0)
            return;
        for (uint64_t k = 0; k < some && wring_values_next(&walk, &i); k++)
            fed[i] -= piece[k];
    }
}
