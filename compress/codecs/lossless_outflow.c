/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/lossless_outflow.h"

#include <string.h>

/* From a block's elements to its code, in a page. Of what went straight the begin and the end are
   there: neither where the next block's elements begin, nor the sample behind those. */
#define APART (WRING_OUTFLOW_PAGE / 8 * 5)
#define APART_STRAIGHT (WRING_OUTFLOW_PAGE / 16 * 5)

void wring_lossless_outflow_begin(struct wring_lossless_outflow *out, unsigned char *code)
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
static unsigned char *choose_place(struct wring_lossless_outflow *out, const float *src,
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
static unsigned char *join(struct wring_lossless_outflow *out)
{
    memcpy(out->block - WRING_LINE, out->rest_end - WRING_LINE, WRING_LINE);
    return out->block - out->rest;
}

/** The line in which the first code begins belongs to others, too. @return lines that leave so */
static uint64_t put_first(struct wring_lossless_outflow *out, const unsigned char *from,
                          uint64_t lines)
{
    if (out->skip == 0 || lines == 0)
        return 0;
    memcpy(out->to + out->skip, from + out->skip, WRING_LINE - out->skip);
    out->skip = 0;
    return 1;
}

unsigned char *wring_lossless_outflow_next(struct wring_lossless_outflow *out, const float *src,
                                           bool straight, struct wring_lossless_beside *beside)
{
    unsigned char *from = join(out), *end = out->to + out->rest + out->bytes;
    uint64_t lines = (out->rest + out->bytes) / WRING_LINE, first = put_first(out, from, lines);
    uint64_t head = (out->rest + WRING_LOSSLESS_HEAD) / WRING_LINE + 1; /* to what is packed */
    uint64_t front = head < lines ? head : lines, behind = front + out->gone;

    beside->last = (struct wring_lossless_lines){from + first * WRING_LINE,
                                                 out->to + first * WRING_LINE, front - first};
    beside->leaving = (struct wring_lossless_lines){from + behind * WRING_LINE,
                                                    out->to + behind * WRING_LINE, lines - behind};
    beside->straight = straight ? end + WRING_LOSSLESS_HEAD : NULL;
    wring_streaming_enter(out->to);
    return choose_place(out, src, straight);
}

void wring_lossless_outflow_follow(struct wring_lossless_outflow *out, unsigned char *block,
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

size_t wring_lossless_outflow_end(struct wring_lossless_outflow *out)
{
    unsigned char *from = join(out);
    size_t pending = out->rest + out->bytes;

    wring_streaming_stream(out->to + out->skip, from + out->skip, pending - out->skip);
    wring_streaming_settle();
    return (size_t)(out->to + pending - out->code);
}
