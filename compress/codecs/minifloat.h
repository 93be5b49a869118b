/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What codecs of small floats share. A unit's code is a head, if the codec has one, then a byte for
 * the step of each block, if blocks have steps of their own, then the elements. Private to codecs.
 */
#ifndef WRING_CODECS_MINIFLOAT_H
#define WRING_CODECS_MINIFLOAT_H

#include "compress/codec.h"
#include "compress/kernels/minifloat.h"

#define WRING_MINIFLOAT_WINDOW 1024 /* elements of units that are encoded together */

struct wring_minifloat_plan;

/** How a codec finds the steps of blocks. */
struct wring_minifloat_scaling {
    bool has_head;  /* f32 */
    bool has_bytes; /* one for each block, of a unit of WRING_MINIFLOAT_WINDOW at most */
    /**
     * For a unit of finite values.
     * @param peaks    in, [blocks] the largest magnitude of each, as bits
     * @param largest  of those
     * @param head     out, if there is one; never NaN
     * @param bytes    out, [blocks], if there are some
     * @param inverse  out, [blocks] what elements are multiplied by
     * @param step     out, [blocks] what codes are multiplied by, just as steps() says
     */
    void (*scale)(const struct wring_minifloat_plan *plan, const uint32_t *peaks, uint32_t largest,
                  uint64_t blocks, float *head, uint8_t *bytes, float *inverse, float *step);
    /** The steps of any bytes, and of a head from 0 to plan->top. */
    void (*steps)(const struct wring_minifloat_plan *plan, float head, const uint8_t *bytes,
                  uint64_t blocks, float *step);
};

/** The lengths of a unit's code. */
struct wring_minifloat_lengths {
    uint64_t blocks;
    size_t front; /* bytes before the elements */
    size_t bytes; /* all of them */
};

/** What follows from the parameters: each codec's own memory. */
struct wring_minifloat_plan {
    const struct wring_minifloat_scaling *scaling;
    const struct wring_minifloat_kernels *kernels;
    const struct wring_minifloat_form *form;
    uint64_t unit, block;                /* elements */
    struct wring_minifloat_lengths full; /* of a whole unit, for which nothing is divided */
    unsigned bits;                       /* of an element */
    bool random;                         /* rounding */
    double omega;     /* of random rounding: the variance of a code is at most omega times the
                         square of its unit */
    float keep;       /* 1 / (1 + omega) under error feedback, if rounded at random; else 1 */
    float largest;    /* number of the format */
    int exponent;     /* of that */
    float top;        /* the largest head */
    float table[256]; /* what the byte of a block stands for; of E8M0 alone */
};

/**
 * For init: a plan of which scaling, unit, block and omega are filled in.
 * @param top  the largest head
 */
void wring_minifloat_init(struct wring_codec *codec, enum wring_minifloat format, bool random,
                          float top);

/* Entries of the codecs' tables. */
uint64_t wring_minifloat_unit(const struct wring_codec *codec);
size_t wring_minifloat_bound(const struct wring_codec *codec, uint64_t elems);
size_t wring_minifloat_encode(const struct wring_codec *codec,
                              const struct wring_codec_context *context, const float *src,
                              uint64_t elems, float *residual, void *code, void *scratch);
enum wring_status wring_minifloat_decode(const struct wring_codec *codec,
                                         const struct wring_codec_context *context,
                                         const void *code, size_t code_bytes, float *dst,
                                         uint64_t elems, bool add);

#endif
