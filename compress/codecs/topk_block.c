/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/codecs/topk_block.h"

#include "compress/kernels/bits.h"
#include "compress/kernels/streaming.h"

#define HEAD 4                 /* bytes of the count */
#define NOT_FINITE 0xFFFFFFFFu /* in place of a count: the block decodes to NaN */

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

/** Of values and indices, without the zeros behind them. */
static size_t entry_bytes(const struct wring_codec *values, uint64_t count)
{
    return wring_values_bytes(values, count) + 2 * (size_t)count;
}

size_t wring_topk_block_bytes(const struct wring_codec *values, uint64_t count)
{
    return HEAD + (entry_bytes(values, count) + 3) / 4 * 4;
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
static struct wring_topk_found mark_exact(const struct wring_topk_kernels *kernels, uint64_t *map,
                                          const struct wring_topk_block *block, uint64_t k)
{
    uint32_t threshold = kernels->rank(block->src, block->residual, block->n, k);
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
    if (!sampled)
        return mark_exact(kernels, map, block, block->wanted);
    uint32_t threshold = wring_threshold_of(kernels, block, &scratch->room);
    struct wring_topk_found found =
        kernels->mark(map, block->src, block->residual, block->n, threshold > 0 ? threshold : 1);
    if (found.peak < WRING_INF_BITS && found.count > block->most)
        found = mark_exact(kernels, map, block, block->most);
    return found;
}

size_t wring_topk_put_not_finite(unsigned char *code)
{
    wring_put_u32(code, NOT_FINITE);
    return HEAD;
}

/** The count, and zeros behind the entries. @return the bytes of the code */
static size_t put_frame(unsigned char *code, const struct wring_codec *values, size_t count)
{
    size_t end = wring_topk_block_bytes(values, count), used = HEAD + entry_bytes(values, count);

    wring_put_u32(code, (uint32_t)count);
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
    size_t bytes = put_frame(code, NULL, found.count);
    unsigned char *values = code + HEAD, *indices = values + 4 * (size_t)found.count;
    kernels->gather(values, indices, map, block->src, block->residual, block->n);
    if (block->residual != NULL)
        kernels->retain(block->residual, block->src, map, block->n);
    return bytes;
}

static void put_indices(unsigned char *indices, const uint64_t *map, uint64_t n)
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
    size_t bytes = put_frame(code, values->codec, found.count);
    put_indices(code + HEAD + wring_values_bytes(values->codec, found.count), map, block->n);
    if (block->residual != NULL) {
        kernels->retain(block->residual, block->src, none, block->n);
        wring_values_take(values, map, block->residual, block->n, found.count, code + HEAD);
    }
    return bytes;
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

    wring_streaming_fetch(code, wring_topk_block_bytes(NULL, block->wanted));
    if (!wring_threshold_choose(kernels, block, hint, &scratch->room, list, &choice))
        return 0;
    if (list->peak >= WRING_INF_BITS)
        return wring_topk_put_not_finite(code);
    size_t bytes = put_frame(code, NULL, list->count);
    memcpy(code + HEAD, list->values, 4 * (size_t)list->count);
    memcpy(code + HEAD + 4 * (size_t)list->count, list->indices, 2 * (size_t)list->count);
    if (block->residual != NULL)
        leave_unsent(kernels, block, list, choice);
    return bytes;
}

size_t wring_topk_encode_block(const struct wring_topk_kernels *kernels,
                               const struct wring_topk_block *block, bool sampled,
                               const struct wring_values *values, struct wring_topk_hint *hint,
                               struct wring_topk_scratch *scratch, unsigned char *code)
{
    size_t bytes = 0;

    if (values->codec != NULL)
        return encode_with_values(kernels, block, sampled, values, scratch, code);
    if (sampled && block->wanted <= WRING_TOPK_LISTED / LIST_SHARE)
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

/** Add `count` entries to dst. A peer may change them meanwhile: each is read and checked once. Not
 *  inline: within its caller the loop lacks registers. */
__attribute__((noinline)) static enum wring_status add_entries(float *dst, uint64_t n,
                                                               const unsigned char *values,
                                                               uint32_t count)
{
    const unsigned char *indices = values + 4 * (size_t)count;
    uint32_t next = 0; /* the lowest index that may follow */

    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = wring_take_u32(values + 4 * (size_t)i);
        uint32_t at = wring_take_u16(indices + 2 * (size_t)i);
        if (i + AHEAD < count)
            look_ahead(dst, indices + 2 * (size_t)(i + AHEAD));
        if (at < next || at >= n || (bits & WRING_ABS_BITS) >= WRING_INF_BITS)
            return WRING_ERR_FRAME;
        dst[at] += wring_float_of(bits);
        next = at + 1;
    }
    return WRING_OK;
}

/** The same of values that another codec has coded. */
static enum wring_status add_coded_entries(float *dst, uint64_t n,
                                           const struct wring_values *values,
                                           const unsigned char *code, uint32_t count)
{
    const unsigned char *indices = code + wring_values_bytes(values->codec, count);
    float piece[WRING_VALUES_PIECE];
    uint32_t next = 0;

    for (uint64_t done = 0, some; done < count; done += some) {
        some = wring_values_decode(values, code, count, done, piece);
        if (some == 0)
            return WRING_ERR_FRAME;
        for (uint64_t i = 0; i < some; i++) {
            uint32_t at = wring_take_u16(indices + 2 * (done + i));
            if (at < next || at >= n)
                return WRING_ERR_FRAME;
            dst[at] += piece[i];
            next = at + 1;
        }
    }
    return WRING_OK;
}

/** One block off [*code, *code + *left); advances both. */
static enum wring_status decode_block(const unsigned char **code, size_t *left, uint64_t most,
                                      const struct wring_values *values, float *dst, uint64_t n,
                                      bool add)
{
    uint32_t count = *left >= HEAD ? wring_take_u32(*code) : 0;
    bool finite = count != NOT_FINITE;

    if (finite && count > most)
        return WRING_ERR_FRAME;
    size_t bytes = finite ? wring_topk_block_bytes(values->codec, count) : HEAD;
    if (*left < bytes)
        return WRING_ERR_FRAME;
    const unsigned char *entries = *code + HEAD;
    *code += bytes;
    *left -= bytes;
    if (!finite) {
        wring_codec_fill_nan(dst, n);
        return WRING_OK;
    }
    if (!add)
        memset(dst, 0, n * sizeof(*dst));
    return values->codec != NULL ? add_coded_entries(dst, n, values, entries, count)
                                 : add_entries(dst, n, entries, count);
}

void wring_topk_clear_sent(const unsigned char *code, float *values)
{
    uint32_t count = wring_take_u32(code);
    const unsigned char *indices = code + HEAD + 4 * (size_t)count;

    for (uint32_t i = 0; count != NOT_FINITE && i < count; i++)
        values[wring_take_u16(indices + 2 * (size_t)i)] = 0;
}

enum wring_status wring_topk_decode(const struct wring_codec *codec,
                                    const struct wring_codec_context *context,
                                    wring_topk_most_fn most, const void *code, size_t code_bytes,
                                    float *dst, uint64_t elems, bool add)
{
    uint64_t unit = codec->info.unit;
    const unsigned char *from = code;
    struct wring_values values = {codec->values, context, 0};
    enum wring_status status = WRING_OK;

    for (uint64_t done = 0; done < elems && status == WRING_OK; done += unit) {
        uint64_t n = wring_codec_unit_length(unit, elems - done);
        values.begin = done;
        status = decode_block(&from, &code_bytes, most(codec, n), &values, dst + done, n, add);
    }
    return status == WRING_OK && code_bytes != 0 ? WRING_ERR_FRAME : status;
}
