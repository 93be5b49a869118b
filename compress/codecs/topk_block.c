/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/topk_block.h"

#include "compress/codecs/gaps.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/streaming.h"

#define HEAD 4                 /* bytes of the count */
#define NOT_FINITE 0xFFFFFFFFu /* in place of a count: the block decodes to NaN */

#define COUNT_BITS 24 /* of a head; with packed indices their width stands above the count */

#define AHEAD 24          /* entries: so far ahead of an addition its place is asked for */
#define SAMPLE_FROM 16384 /* shorter blocks are not worth sampling */
#define LIST_SHARE 2      /* so many times what is wanted must fit a list for it to be tried */

bool wring_topk_is_sampled(uint64_t n)
{
    return n >= SAMPLE_FROM;
}

uint64_t wring_topk_most(uint64_t wanted, bool sampled, uint64_t n)
{
    uint64_t count = sampled ? wanted + wanted / 4 + 8 : wanted;
    return count < n ? count : n;
}

/** The most bytes of `count` entries or less, in a block of n. @param values  their codec; NULL:
 *  f32 */
static size_t block_bytes(const struct wring_codec *values, enum wring_topk_index index,
                          uint64_t count, uint64_t n)
{
    size_t indices = index == WRING_TOPK_PACKED ? wring_gaps_bound(count, n) : 2 * (size_t)count;
    return HEAD + (wring_values_bytes(values, count) + indices + 3) / 4 * 4;
}

size_t wring_topk_bound(const struct wring_codec *codec, enum wring_topk_index index,
                        wring_topk_most_fn most, uint64_t unit, uint64_t elems)
{
    uint64_t tail = elems % unit;
    size_t bytes = elems / unit * block_bytes(codec->values, index, most(codec, unit), unit);
    return bytes + (tail != 0 ? block_bytes(codec->values, index, most(codec, tail), tail) : 0);
}

/** Take marks off elements that only equal the threshold, the highest indices first. */
static void drop_ties(uint64_t *map, const float *src, const float *residual, uint64_t n,
                      uint32_t threshold, uint64_t surplus)
{
    for (uint64_t i = n; surplus > 0; i--) { /* ends: fewer than k are above the k-th largest */
        uint64_t bit = 1ull << (i - 1) % 64, *word = &map[(i - 1) / 64];
        if ((*word & bit) != 0 && wring_magnitude(wring_fed(src, residual, i - 1)) == threshold) {
            *word &= ~bit;
            surplus--;
        }
    }
}

/** Mark the k largest magnitudes, of equal ones those of lower index; never a zero. */
static struct wring_topk_found mark_exact(const struct wring_topk_kernels *kernels,
                                          struct wring_topk_scratch *scratch,
                                          const struct wring_topk_block *block, uint64_t k)
{
    uint64_t *map = scratch->map;
    uint32_t threshold = wring_topk_rank(kernels, block, k, &scratch->room, &scratch->list);
    threshold = threshold > 0 ? threshold : 1;
    struct wring_topk_found found =
        kernels->mark(map, block->src, block->residual, block->n, threshold);

    if (found.peak < WRING_INF_BITS && found.count > k) {
        drop_ties(map, block->src, block->residual, block->n, threshold, found.count - k);
        found.count = (uint32_t)k;
    }
    return found;
}

/** Map and count are of use only when the peak is finite. */
static struct wring_topk_found mark_largest(const struct wring_topk_kernels *kernels,
                                            struct wring_topk_scratch *scratch,
                                            const struct wring_topk_block *block, bool sampled)
{
    uint64_t *map = scratch->map;
    if (!sampled && block->threshold == 0)
        return mark_exact(kernels, scratch, block, block->wanted);
    uint32_t threshold = block->threshold != 0
                             ? block->threshold
                             : wring_topk_threshold(kernels, block, &scratch->room);
    struct wring_topk_found found =
        kernels->mark(map, block->src, block->residual, block->n, threshold > 0 ? threshold : 1);
    if (found.peak < WRING_INF_BITS && found.count > block->most)
        found = mark_exact(kernels, scratch, block, block->most);
    return found;
}

size_t wring_topk_put_not_finite(unsigned char *code)
{
    wring_put_u32(code, NOT_FINITE);
    return HEAD;
}

/** Where indices are collected: if it can be, right in the code, whose head and values take so many
 *  bytes. */
static void *indices_at(const struct wring_topk_block *block, struct wring_topk_scratch *scratch,
                        unsigned char *code, size_t used)
{
    return block->index == WRING_TOPK_PACKED ? (void *)scratch->indices : code + used;
}

/**
 * Finish a code whose values are written: indices, head, and zeros behind.
 * @param used     bytes of head and values
 * @param indices  u16; may be where the code has them
 * @return the bytes of the code
 */
static size_t put_indices(const struct wring_topk_block *block, unsigned char *code, size_t used,
                          const void *indices, uint32_t count)
{
    unsigned width = 0;

    if (block->index == WRING_TOPK_PACKED) {
        used += count > 0 ? wring_gaps_put(code + used, indices, count, &width) : 0;
    } else {
        if (indices != code + used)
            memcpy(code + used, indices, 2 * (size_t)count);
        used += 2 * (size_t)count;
    }
    wring_put_u32(code, count | width << COUNT_BITS);
    size_t end = (used + 3) / 4 * 4;
    memset(code + used, 0, end - used);
    return end;
}

/** By a map of all elements: as many as are wanted may be sent. */
static size_t encode_marked(const struct wring_topk_kernels *kernels,
                            const struct wring_topk_block *block, bool sampled,
                            struct wring_topk_scratch *scratch, unsigned char *code)
{
    const uint64_t *map = scratch->map;
    struct wring_topk_found found = mark_largest(kernels, scratch, block, sampled);
    if (found.peak >= WRING_INF_BITS)
        return wring_topk_put_not_finite(code);
    size_t used = HEAD + wring_values_bytes(NULL, found.count);
    void *indices = indices_at(block, scratch, code, used);
    kernels->gather(code + HEAD, indices, map, block->src, block->residual, block->n);
    if (block->residual != NULL)
        kernels->retain(block->residual, block->src, map, block->n);
    return put_indices(block, code, used, indices, found.count);
}

static void list_marked(unsigned char *indices, const uint64_t *map, uint64_t n)
{
    struct wring_values_walk walk = wring_values_walk(map, n);

    for (uint64_t i; wring_values_next(&walk, &i); indices += 2) {
        uint16_t index = (uint16_t)i;
        memcpy(indices, &index, sizeof(index));
    }
}

/** By a map, with values that another codec codes: what that loses stays in the residual, too. */
static size_t encode_with_values(const struct wring_topk_kernels *kernels,
                                 const struct wring_topk_block *block, bool sampled,
                                 const struct wring_values *values,
                                 struct wring_topk_scratch *scratch, unsigned char *code)
{
    static const uint64_t none[WRING_TOPK_WORDS(WRING_TOPK_BLOCK_MAX)];
    const uint64_t *map = scratch->map;
    struct wring_topk_found found = mark_largest(kernels, scratch, block, sampled);

    if (found.peak >= WRING_INF_BITS ||
        !wring_values_encode(values, map, block->src, block->residual, block->n, found.count,
                             code + HEAD))
        return wring_topk_put_not_finite(code);
    size_t used = HEAD + wring_values_bytes(values->codec, found.count);
    void *indices = indices_at(block, scratch, code, used);
    list_marked(indices, map, block->n);
    if (block->residual != NULL) {
        kernels->retain(block->residual, block->src, none, block->n);
        wring_values_take(values, map, block->residual, block->n, found.count, code + HEAD);
    }
    return put_indices(block, code, used, indices, found.count);
}

static void leave_unsent(const struct wring_topk_kernels *kernels,
                         const struct wring_topk_block *block, const struct wring_topk_list *list,
                         struct wring_topk_choice choice)
{
    if (!choice.taken)
        kernels->leave(block->residual, block->src, block->n, choice.threshold + choice.cut);
    for (uint32_t entry = 0; (choice.taken || choice.cut) && entry < list->count; entry++)
        block->residual[list->indices[entry]] = 0;
}

/** By a list of those near the threshold. @return 0 when they are too many for a list */
static size_t encode_listed(const struct wring_topk_kernels *kernels,
                            const struct wring_topk_block *block, struct wring_topk_hint *hint,
                            struct wring_topk_scratch *scratch, unsigned char *code)
{
    struct wring_topk_list *list = &scratch->list;
    struct wring_topk_choice choice;

    wring_streaming_fetch(code, block_bytes(NULL, block->index, block->wanted, block->n));
    if (!wring_topk_choose(kernels, block, hint, &scratch->room, list, &choice))
        return 0;
    if (list->peak >= WRING_INF_BITS)
        return wring_topk_put_not_finite(code);
    size_t values = wring_values_bytes(NULL, list->count);
    memcpy(code + HEAD, list->values, values);
    if (block->residual != NULL)
        leave_unsent(kernels, block, list, choice);
    return put_indices(block, code, HEAD + values, list->indices, list->count);
}

/** Is it worth trying to list what is near the threshold? */
static bool may_be_listed(const struct wring_topk_block *block, bool sampled,
                          const struct wring_topk_hint *hint)
{
    return block->threshold != 0 ? !hint->crowded
                                 : sampled && block->wanted <= WRING_TOPK_LISTED / LIST_SHARE;
}

size_t wring_topk_encode_block(const struct wring_topk_kernels *kernels,
                               const struct wring_topk_block *block, bool sampled,
                               const struct wring_values *values, struct wring_topk_hint *hint,
                               struct wring_topk_scratch *scratch, unsigned char *code)
{
    size_t bytes = 0;

    if (values->codec != NULL)
        return encode_with_values(kernels, block, sampled, values, scratch, code);
    if (may_be_listed(block, sampled, hint))
        bytes = encode_listed(kernels, block, hint, scratch, code);
    return bytes != 0 ? bytes : encode_marked(kernels, block, sampled, scratch, code);
}

/**
 * Ask for the place of an entry that comes later. Its index may be wrong yet: nothing is read or
 * written there.
 */
static inline void look_ahead(const float *dst, const unsigned char *index)
{
    __builtin_prefetch((const void *)((uintptr_t)dst + sizeof(*dst) * wring_take_u16(index)), 1);
}

/** Where the indices of a block are read from. */
struct indices {
    const unsigned char *list; /* u16 each; NULL: they are gaps */
    struct wring_gaps gaps;
    uint16_t piece[WRING_GAPS_PIECE];
};

/** How many are read at a time, of so many that are left. */
static uint32_t some_of(const struct indices *indices, uint32_t left)
{
    return indices->list != NULL || left < WRING_GAPS_PIECE ? left : WRING_GAPS_PIECE;
}

/** @return the next `some` of them, as u16; NULL: they are malformed */
static const unsigned char *take_indices(struct indices *indices, uint32_t some)
{
    const unsigned char *list = indices->list;

    if (list != NULL) {
        indices->list += 2 * (size_t)some;
        return list;
    }
    return wring_gaps_next(&indices->gaps, indices->piece, some)
               ? (const unsigned char *)indices->piece
               : NULL;
}

/**
 * Add `count` entries to dst. A peer may change them meanwhile: each is read and checked once. Not
 * inline: within its caller the loop lacks registers.
 * @param next  inout, the lowest index that may follow
 */
__attribute__((noinline)) static enum wring_status add_entries(float *dst, uint64_t n,
                                                               const unsigned char *values,
                                                               const unsigned char *indices,
                                                               uint32_t count, uint32_t *next)
{
    uint32_t least = *next;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = wring_take_u32(values + 4 * (size_t)i);
        uint32_t at = wring_take_u16(indices + 2 * (size_t)i);
        if (i + AHEAD < count)
            look_ahead(dst, indices + 2 * (size_t)(i + AHEAD));
        if (at < least || at >= n || (bits & WRING_ABS_BITS) >= WRING_INF_BITS)
            return WRING_ERR_FRAME;
        dst[at] += wring_float_of(bits);
        least = at + 1;
    }
    *next = least;
    return WRING_OK;
}

static enum wring_status add_plain(float *dst, uint64_t n, const unsigned char *values,
                                   struct indices *indices, uint32_t count)
{
    enum wring_status status = WRING_OK;
    uint32_t next = 0;

    for (uint32_t done = 0, some; done < count && status == WRING_OK; done += some) {
        some = some_of(indices, count - done);
        const unsigned char *at = take_indices(indices, some);
        status = at == NULL ? WRING_ERR_FRAME
                            : add_entries(dst, n, values + 4 * (size_t)done, at, some, &next);
    }
    return status;
}

/** The same of values that another codec has coded. */
static enum wring_status add_coded(float *dst, uint64_t n, const struct wring_values *values,
                                   const unsigned char *code, struct indices *indices,
                                   uint32_t count)
{
    float piece[WRING_VALUES_PIECE];
    uint32_t next = 0;

    for (uint64_t done = 0, some; done < count; done += some) {
        some = wring_values_decode(values, code, count, done, piece);
        const unsigned char *list = some > 0 ? take_indices(indices, (uint32_t)some) : NULL;
        if (list == NULL)
            return WRING_ERR_FRAME;
        for (uint64_t i = 0; i < some; i++) {
            uint32_t at = wring_take_u16(list + 2 * i);
            if (at < next || at >= n)
                return WRING_ERR_FRAME;
            dst[at] += piece[i];
            next = at + 1;
        }
    }
    return WRING_OK;
}

/** A block that is looked at. */
struct view {
    const unsigned char *values;
    size_t bytes; /* of its code */
    uint32_t count;
    bool finite;
};

/** Are the zeros behind a block's gaps zeros? */
static bool all_zeros(const unsigned char *bytes, size_t n)
{
    unsigned char any = 0;
    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    return any == 0;
}

/** Open the indices that begin `used` bytes behind the block's begin. @return the block's bytes; 0:
 *  it is malformed */
static size_t open_gaps(struct indices *indices, const unsigned char *code, size_t left,
                        size_t used, uint32_t count, unsigned width, uint64_t n)
{
    size_t bytes = 0;

    indices->list = NULL;
    if (width > (count > 0 ? WRING_GAPS_WIDTH_MAX : 0) || left < used)
        return 0;
    if (count > 0)
        bytes = wring_gaps_open(&indices->gaps, code + used, left - used, count, width, n);
    if (count > 0 && bytes == 0)
        return 0;
    size_t end = (used + bytes + 3) / 4 * 4;
    return left < end || !all_zeros(code + used + bytes, end - used - bytes) ? 0 : end;
}

/** What a block's head says. @return false: it is malformed */
static bool view_block(const unsigned char *code, size_t left, enum wring_topk_index index,
                       uint64_t most, const struct wring_codec *values, uint64_t n,
                       struct indices *indices, struct view *out)
{
    uint32_t head = left >= HEAD ? wring_take_u32(code) : 0, count = head;

    if (left < HEAD)
        return false;
    *out = (struct view){code + HEAD, HEAD, 0, head != NOT_FINITE};
    if (!out->finite)
        return true;
    if (index == WRING_TOPK_PACKED)
        count &= (1u << COUNT_BITS) - 1;
    if (count > most)
        return false;
    size_t used = HEAD + wring_values_bytes(values, count);
    out->count = count;
    if (index == WRING_TOPK_PACKED) {
        out->bytes = open_gaps(indices, code, left, used, count, head >> COUNT_BITS, n);
        return out->bytes != 0;
    }
    indices->list = code + used;
    out->bytes = block_bytes(values, index, count, n);
    return left >= out->bytes;
}

/** One block off [*code, *code + *left); advances both. */
static enum wring_status decode_block(const unsigned char **code, size_t *left,
                                      enum wring_topk_index index, uint64_t most,
                                      const struct wring_values *values, float *dst, uint64_t n,
                                      bool add)
{
    struct indices indices;
    struct view view;

    if (!view_block(*code, *left, index, most, values->codec, n, &indices, &view))
        return WRING_ERR_FRAME;
    *code += view.bytes;
    *left -= view.bytes;
    if (!view.finite) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    return values->codec != NULL ? add_coded(dst, n, values, view.values, &indices, view.count)
                                 : add_plain(dst, n, view.values, &indices, view.count);
}

void wring_topk_clear_sent(const unsigned char *code, size_t bytes, enum wring_topk_index index,
                           float *u, float *v, uint64_t n)
{
    struct indices indices;
    struct view view;

    if (!view_block(code, bytes, index, n, NULL, n, &indices, &view))
        return;
    for (uint32_t done = 0, some; done < view.count; done += some) {
        some = some_of(&indices, view.count - done);
        const unsigned char *list = take_indices(&indices, some);
        for (uint32_t i = 0; list != NULL && i < some; i++)
            u[wring_take_u16(list + 2 * (size_t)i)] = v[wring_take_u16(list + 2 * (size_t)i)] = 0;
    }
}

enum wring_status wring_topk_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context,
                                    enum wring_topk_index index, wring_topk_most_fn most,
                                    const void *code, size_t code_bytes, float *dst, uint64_t elems,
                                    bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *from = code;
    struct wring_values values = {codec->values, context, 0};
    enum wring_status status = WRING_OK;

    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        values.begin = done;
        status =
            decode_block(&from, &code_bytes, index, most(codec, n), &values, dst + done, n, add);
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}
