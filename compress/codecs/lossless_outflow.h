/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless: codes on their way past the caches, in whole lines. Those of a block leave while the
 * next one is packed. A load that meets stores under way waits for all of them, so what is put
 * together in memory waits for its turn: there are two buffers for that.
 *
 * A block may go straight: most of it leaves from registers when it is packed, and its buffer has
 * only its head, the lines where it begins and ends, and what lies behind these.
 */
#ifndef WRING_CODECS_LOSSLESS_OUTFLOW_H
#define WRING_CODECS_LOSSLESS_OUTFLOW_H

#include "compress/codecs/lossless.h"

#define WRING_OUTFLOW_FRONT                                               \
    (2 * WRING_LINE) /* of a buffer: what is left of a line, and the head \
                      */
#define WRING_OUTFLOW_PAGE (WRING_PAGE * sizeof(float))

/* whole lines, with room for the code of a block wherever in a page it begins */
#define WRING_OUTFLOW_BUFFER                                                                     \
    ((WRING_OUTFLOW_FRONT + WRING_OUTFLOW_PAGE + WRING_LOSSLESS_ROOM(WRING_LOSSLESS_BLOCK_MAX) + \
      WRING_LINE) &                                                                              \
     ~(size_t)(WRING_LINE - 1))

struct wring_lossless_outflow {
    unsigned char *code; /* where the first code begins */
    unsigned char *to;   /* where a line begins: the one that the rest belongs to */
    size_t skip;         /* bytes of this one that are before the first code */
    size_t rest;         /* bytes, with those; less than a line */
    unsigned char *rest_end;
    unsigned char *block; /* the code that waits */
    size_t bytes;
    uint64_t gone; /* lines of it that went straight */
    unsigned turn; /* which buffer is next */
    _Alignas(WRING_LINE) unsigned char buffers[2][WRING_OUTFLOW_BUFFER];
};

/** @param code  out, borrowed until the end; lines that it shares with others keep what they have
 */
void wring_lossless_outflow_begin(struct wring_lossless_outflow *out, unsigned char *code);

/**
 * The next block's turn to be packed.
 * @param src       that it is made of
 * @param straight  whether it shall go straight; the last one may not
 * @param beside    inout: what leaves meanwhile, and where the block belongs if it goes straight
 * @return where its code is put together, WRING_LOSSLESS_ROOM bytes
 */
unsigned char *wring_lossless_outflow_next(struct wring_lossless_outflow *out, const float *src,
                                           bool straight, struct wring_lossless_beside *beside);

/** It is packed. @param block  its code @param gone  lines of it that went straight */
void wring_lossless_outflow_follow(struct wring_lossless_outflow *out, unsigned char *block,
                                   size_t bytes, uint64_t gone);

/** All leaves and is settled. @return bytes of all codes */
size_t wring_lossless_outflow_end(struct wring_lossless_outflow *out);

#endif
