/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One block of topk: the code of its largest magnitudes. topk, dgc and threshold have the same
 * blocks; they choose others, or from other values. Bytes in FORMAT.md, "topk".
 */
#ifndef WRING_CODECS_TOPK_BLOCK_H
#define WRING_CODECS_TOPK_BLOCK_H

#include "compress/codec.h"
#include "compress/codecs/topk_search.h"
#include "compress/codecs/values.h"

/** The codecs' parameter `index`, an enum wring_topk_index. */
#define WRING_TOPK_INDEX_PARAM                                                       \
    {                                                                                \
        "index", "short|packed", "how places are written", WRING_TOPK_SHORT, 0, 1, 0 \
    }

/** Scratch memory for an encode. */
struct wring_topk_scratch {
    union {
        struct {
            struct wring_topk_room room;
            struct wring_topk_list list;
        };
        uint16_t indices[WRING_TOPK_BLOCK_MAX]; /* of a map, once that is made */
    };
    uint64_t map[WRING_TOPK_WORDS(WRING_TOPK_BLOCK_MAX)];
};
_Static_assert(sizeof(struct wring_topk_scratch) <= WRING_CODEC_SCRATCH_MAX,
               "executors reserve no more");

/** May the threshold of a block of n elements be found by samples? */
bool wring_topk_is_sampled(uint64_t n);

/** How many may be sent at most: a sampled threshold is only near the right one. */
uint64_t wring_topk_most(uint64_t wanted, bool sampled, uint64_t n);

/**
 * Encode a block, which has no more than WRING_TOPK_BLOCK_MAX elements.
 * @param sampled  its threshold is found by samples, unless it is given
 * @param hint     inout, of the block before
 * @return bytes written
 */
size_t wring_topk_encode_block(const struct wring_topk_kernels *kernels,
                               const struct wring_topk_block *block, bool sampled,
                               const struct wring_values *values, struct wring_topk_hint *hint,
                               struct wring_topk_scratch *scratch, unsigned char *code);

/** The code of a block that is not finite. @return bytes written */
size_t wring_topk_put_not_finite(unsigned char *code);

/** The most entries that a block of n elements may have. */
typedef uint64_t (*wring_topk_most_fn)(const struct wring_codec *codec, uint64_t n);

/** The most bytes of a run of blocks, each as long as the unit but for the last. */
size_t wring_topk_bound(const struct wring_codec *codec, enum wring_topk_index index,
                        wring_topk_most_fn most, uint64_t unit, uint64_t elems);

/** Decode a run of blocks, each as long as the codec's unit but for the last. Errors:
 *  WRING_ERR_FRAME (a block has more entries than `most` says, among others). */
enum wring_status wring_topk_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context,
                                    enum wring_topk_index index, wring_topk_most_fn most,
                                    const void *code, size_t code_bytes, float *dst, uint64_t elems,
                                    bool add);

/** u = v = +0 where the code of a block, which is one of our own and has f32 values, has an entry.
 */
void wring_topk_clear_sent(const unsigned char *code, size_t bytes, enum wring_topk_index index,
                           float *u, float *v, uint64_t n);

#endif
