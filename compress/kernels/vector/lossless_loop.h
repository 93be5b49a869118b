/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The loops that pack and unpack a block: each instruction set makes functions of its own of them.
 * Behind the include, it defines
 *
 *     void pack_step(struct parts *to, const float *src, uint64_t live, struct form form)
 *     void unpack_step(float *dst, struct sources *from, uint64_t live, struct form form, bool add)
 *     uint64_t unpack_all(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
 *                         struct form form, bool add)    by unpack(); how many others were taken
 *
 * where `live` has a bit for each of STEP elements that there is. A shorter rest goes through
 * padded copies.
 */
#ifndef WRING_KERNELS_LOSSLESS_LOOP_H
#define WRING_KERNELS_LOSSLESS_LOOP_H

#include "compress/kernels/lossless.h"
#include "compress/kernels/vector/vector.h"

#define STEP VECTOR_BYTES /* elements at a time: a vector of exponents, a word of each plane */

#define ALL_LIVE UINT64_MAX
#define LIVE(n) ((UINT64_C(1) << (n)) - 1)        /* n < STEP */
#define LINES (STEP * sizeof(float) / WRING_LINE) /* of code that leave in a step */

/** Where the parts of a packed block have come to. */
struct parts {
    uint8_t *low, *high, *planes, *others;
    uint64_t plane; /* bytes */
    struct wring_lossless_far far;
};

/** Where one reads. */
struct sources {
    const uint8_t *low, *high, *planes, *others;
    uint64_t plane;
};

/** How a block is packed, of which the width is known where it is inlined. */
struct form {
    unsigned width;
    uint32_t top;
};

INLINE void pack_step(struct parts *to, const float *src, uint64_t live, struct form form);
INLINE void unpack_step(float *dst, struct sources *from, uint64_t live, struct form form,
                        bool add);

/** The larger of `peak` and of a step's. */
INLINE words peak_step(words peak, const float *src)
{
    for (unsigned v = 0; v < 4; v++) { /* x + x has more ports than a shift */
        words bits = load_words(src + v * LANES);
        peak = larger(peak, bits + bits);
    }
    return peak;
}

INLINE words peak_rest(words peak, const float *src, uint64_t n)
{
    float rest[STEP] = {0};
    memcpy(rest, src, n * sizeof(*src));
    return peak_step(peak, rest);
}

INLINE words peaks_of(const float *src, uint64_t n)
{
    words peak = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        peak = peak_step(peak, src + i);
    return i < n ? peak_rest(peak, src + i, n - i) : peak;
}

INLINE struct parts parts_of(uint8_t *packed, uint8_t *others, uint64_t n)
{
    return (struct parts){packed, packed + 2 * n,          packed + WRING_LOSSLESS_PLANES(n),
                          others, WRING_LOSSLESS_PLANE(n), {0, 0}};
}

/** The last n elements, fewer than a step. */
INLINE void pack_rest(struct parts *to, const float *src, uint64_t n, struct form form)
{
    float rest[STEP] = {0};
    uint8_t packed[3 * STEP + STEP / 8 * WRING_LOSSLESS_BLOCK_WIDE];
    struct parts padded = parts_of(packed, to->others, STEP);

    memcpy(rest, src, n * sizeof(*src));
    pack_step(&padded, rest, LIVE(n), form);
    memcpy(to->low, packed, 2 * n);
    memcpy(to->high, packed + 2 * STEP, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(to->planes + bit * to->plane, packed + 3 * STEP + STEP / 8 * bit,
               WRING_LOSSLESS_PLANE(n));
    to->far.narrow += padded.far.narrow;
    to->far.wide += padded.far.wide;
}

/** Prefetch a step's share of the data that is needed later. Not into a first cache, which would
 *  wait for memory. */
INLINE void fetch_step(const float *at)
{
    for (uint64_t line = 0; line < LINES; line++)
        __builtin_prefetch(at + line * (WRING_LINE / sizeof(*at)), 0, 2);
}

INLINE void stream_line(uint8_t *to, const uint8_t *from)
{
    for (unsigned at = 0; at < WRING_LINE; at += VECTOR_BYTES)
        put(to + at, load_words(from + at), true);
}

/** @return where the next ones begin */
INLINE uint64_t stream_lines(const struct wring_lossless_lines *lines, uint64_t begin, uint64_t end)
{
    for (uint64_t line = begin; line < end; line++)
        stream_line((uint8_t *)lines->to + line * WRING_LINE,
                    (const uint8_t *)lines->from + line * WRING_LINE);
    return end;
}

/** Do the work beside a step; lines leave with every other one, as many as two steps make. */
INLINE void do_beside(const struct wring_lossless_beside *beside, uint64_t i, uint64_t *sent)
{
    if (beside->fetch != NULL)
        fetch_step(beside->fetch + i);
    if (i % (2 * STEP) == 0 && *sent + 2 * LINES <= beside->leaving.n)
        *sent = stream_lines(&beside->leaving, *sent, *sent + 2 * LINES);
}

INLINE struct wring_lossless_far pack(uint8_t *packed, const float *src, uint64_t n,
                                      struct form form, struct wring_lossless_beside *out)
{
    struct parts to = parts_of(packed, packed + WRING_LOSSLESS_OTHERS(n, form.width), n);
    const struct wring_lossless_beside beside = *out;
    uint64_t i = 0, sent = 0;
    words peaks = {0};

    if (beside.next != NULL)
        peaks = peaks_of(beside.next, WRING_LOSSLESS_SAMPLE(n));
    for (; i + STEP <= n; i += STEP) {
        do_beside(&beside, i, &sent);
        pack_step(&to, src + i, ALL_LIVE, form);
        to.low += 2 * STEP;
        to.high += STEP;
        to.planes += STEP / 8;
    }
    if (i < n)
        pack_rest(&to, src + i, n - i, form);
    stream_lines(&beside.leaving, sent, beside.leaving.n);
    stream_lines(&beside.last, 0, beside.last.n);
    out->peak = largest_of(peaks);
    return to.far;
}

INLINE struct sources sources_of(const uint8_t *packed, const uint8_t *others, uint64_t n)
{
    return (struct sources){packed, packed + 2 * n, packed + WRING_LOSSLESS_PLANES(n), others,
                            WRING_LOSSLESS_PLANE(n)};
}

INLINE uint64_t unpack_all(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           struct form form, bool add);

INLINE void unpack_rest(float *dst, struct sources *from, uint64_t n, struct form form, bool add)
{
    uint8_t packed[3 * STEP + STEP / 8 * WRING_LOSSLESS_BLOCK_WIDE] = {0};
    struct sources padded = sources_of(packed, from->others, STEP);
    float rest[STEP] = {0};

    memcpy(packed, from->low, 2 * n);
    memcpy(packed + 2 * STEP, from->high, n);
    for (unsigned bit = 0; bit < form.width; bit++)
        memcpy(packed + 3 * STEP + STEP / 8 * bit, from->planes + bit * from->plane,
               WRING_LOSSLESS_PLANE(n));
    memcpy(rest, dst, add ? n * sizeof(*dst) : 0);
    unpack_step(rest, &padded, LIVE(n), form, add);
    memcpy(dst, rest, n * sizeof(*dst));
    from->others = padded.others;
}

INLINE void unpack(float *dst, struct sources *from, uint64_t n, struct form form, bool add)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        unpack_step(dst + i, from, ALL_LIVE, form, add);
        from->low += 2 * STEP;
        from->high += STEP;
        from->planes += STEP / 8;
    }
    if (i < n)
        unpack_rest(dst + i, from, n - i, form, add);
}

/* ---- the kernels: each width is inlined for itself, and the usual block, where all parts have
 * places that are known, so that fewer registers are needed ---- */

static uint32_t peak_block(const float *src, uint64_t n)
{
    return largest_of(peaks_of(src, n));
}

static struct wring_lossless_far pack_block(uint8_t *packed, const float *src, uint64_t n,
                                            unsigned width, uint32_t top,
                                            struct wring_lossless_beside *beside)
{
    if (width == WRING_LOSSLESS_BLOCK_NARROW && n == WRING_LOSSLESS_BLOCK_USUAL)
        return pack(packed, src, WRING_LOSSLESS_BLOCK_USUAL,
                    (struct form){WRING_LOSSLESS_BLOCK_NARROW, top}, beside);
    if (width == WRING_LOSSLESS_BLOCK_NARROW)
        return pack(packed, src, n, (struct form){WRING_LOSSLESS_BLOCK_NARROW, top}, beside);
    return pack(packed, src, n, (struct form){WRING_LOSSLESS_BLOCK_WIDE, top}, beside);
}

static uint64_t unpack_block(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                             unsigned width, uint32_t top)
{
    if (width == WRING_LOSSLESS_BLOCK_NARROW)
        return unpack_all(dst, packed, others, n, (struct form){WRING_LOSSLESS_BLOCK_NARROW, top},
                          false);
    return unpack_all(dst, packed, others, n, (struct form){WRING_LOSSLESS_BLOCK_WIDE, top}, false);
}

static uint64_t unpack_add_block(float *dst, const uint8_t *packed, const uint8_t *others,
                                 uint64_t n, unsigned width, uint32_t top)
{
    if (width == WRING_LOSSLESS_BLOCK_NARROW)
        return unpack_all(dst, packed, others, n, (struct form){WRING_LOSSLESS_BLOCK_NARROW, top},
                          true);
    return unpack_all(dst, packed, others, n, (struct form){WRING_LOSSLESS_BLOCK_WIDE, top}, true);
}

#endif
