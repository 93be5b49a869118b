/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/delta.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "compress/kernels/bits.h"
#include "compress/kernels/delta.h"
#include "compress/kernels/streaming.h"

#define HEAD 5           /* bytes: kind and width, u16 count, u16 others */
#define GAPS_HEAD 2      /* u16: bytes of gaps */
#define SKIP 255         /* a gap that goes on */
#define FEW(n) ((n) / 8) /* so many words have gaps that may take fewer bytes than a map */
#define GAPS_MAX (FEW(WRING_DELTA_WORDS) + WRING_DELTA_WORDS / SKIP + 1)

/** How a block says which words differ. */
enum kind {
    SAME, /* none: nothing follows */
    GAPS, /* by how many words that do not differ lie before each */
    LIST, /* by their numbers */
    MAP,  /* by a bit for each word */
    ALL,  /* all do */
    RAW,  /* the words follow, whichever differ */
    KINDS
};

#define KIND_BITS 3 /* of a block's first byte; above them the width of a step, less 1 */

/** What differs in a block. A decoder has places of few, and the map of more; an encoder has the
 *  map, and the places of the first few. */
struct changes {
    uint64_t map[WRING_DELTA_MAP];
    uint16_t steps[WRING_DELTA_WORDS + WRING_DELTA_SLACK];
    uint16_t places[WRING_DELTA_FEW + WRING_DELTA_SLACK];
    uint32_t count;
    bool listed; /* a decoder's: by places */
};

/** How it is written. */
struct plan {
    enum kind kind;
    unsigned width;  /* bits of a step */
    uint32_t others; /* steps that are written out; of such a width all bits set say so */
    size_t places;   /* bytes that say which words differ */
    size_t bytes;    /* of all */
};

static const struct wring_delta_tier_kernels *kernels_of(enum wring_cpu_tier tier)
{
    const struct wring_delta_tier *entry =
        wring_kernels_pick(wring_delta_tiers, sizeof(wring_delta_tiers[0]), tier);
    return entry->kernels;
}

size_t wring_delta_bound(uint64_t bytes)
{
    return (size_t)(bytes + (bytes / 2 + WRING_DELTA_WORDS - 1) / WRING_DELTA_WORDS);
}

/* ---- encode ---- */

/** @param gaps  out, [GAPS_MAX] @return bytes of them */
static size_t write_gaps(uint8_t *gaps, const struct changes *changes)
{
    uint32_t next = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < changes->count; i++) {
        uint32_t gap = changes->places[i] - next;
        for (; gap >= SKIP; gap -= SKIP)
            gaps[n++] = SKIP;
        gaps[n++] = (uint8_t)gap;
        next = changes->places[i] + 1u;
    }
    return n;
}

#define BITS 16 /* of a step, at most */

static size_t step_bytes(uint32_t count, unsigned width)
{
    return ((size_t)count * width + 7) / 8;
}

/** The width in which steps take fewest bytes, the narrowest of equal ones. */
static void choose_width(const struct changes *changes, struct plan *plan)
{
    uint32_t long_of[4][BITS] = {{0}}; /* [b]: of which s + 1 takes b + 1 bits; four take turns,
                                       as a number that was just written is slow to read */
    uint32_t longer[BITS];             /* [b]: more than those */
    uint32_t most = 0, above = 0;

    for (uint32_t i = 0; i < changes->count; i++) {
        uint32_t step = changes->steps[i];
        long_of[i % 4][31 - __builtin_clz(step + 1)]++;
        most |= step;
    }
    for (unsigned b = BITS; b > 0; b--) {
        longer[b - 1] = above;
        above += long_of[0][b - 1] + long_of[1][b - 1] + long_of[2][b - 1] + long_of[3][b - 1];
    }
    size_t best = SIZE_MAX;
    for (unsigned width = 1; width <= BITS; width++) {
        bool fits = most >> width == 0;
        uint32_t others = fits ? 0 : longer[width - 1];
        size_t bytes = step_bytes(changes->count, width) + others * sizeof(uint16_t);
        if (bytes < best) {
            best = bytes;
            plan->width = width;
            plan->others = others;
        }
    }
    plan->bytes += best;
}

/** @param gaps  out, [GAPS_MAX], if they are chosen */
static struct plan make_plan(const struct changes *changes, uint64_t n, uint8_t *gaps)
{
    struct plan plan = {MAP, 0, 0, (n + 7) / 8, HEAD};

    if (changes->count == 0)
        return (struct plan){SAME, 0, 0, 0, 1};
    if (changes->count == n) {
        plan.kind = ALL;
        plan.places = 0;
    } else if (changes->count <= FEW(n)) {
        size_t gap_bytes = GAPS_HEAD + write_gaps(gaps, changes);
        size_t list_bytes = changes->count * sizeof(uint16_t);
        plan.kind = list_bytes < gap_bytes ? LIST : GAPS;
        plan.places = list_bytes < gap_bytes ? list_bytes : gap_bytes;
    }
    plan.bytes += plan.places;
    choose_width(changes, &plan);
    if (plan.bytes > n * sizeof(uint16_t))
        return (struct plan){RAW, 0, 0, 0, 1 + n * sizeof(uint16_t)};
    return plan;
}

static uint8_t *put_u16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    return at + 2;
}

static uint8_t *put_places(uint8_t *at, const struct changes *changes, const struct plan *plan,
                           const uint8_t *gaps)
{
    if (plan->kind == GAPS) {
        at = put_u16(at, (uint32_t)(plan->places - GAPS_HEAD));
        memcpy(at, gaps, plan->places - GAPS_HEAD);
        return at + plan->places - GAPS_HEAD;
    }
    if (plan->kind == LIST) {
        memcpy(at, changes->places, plan->places);
        return at + plan->places;
    }
    memcpy(at, changes->map, plan->places);
    return at + plan->places;
}

/** All steps, of `width` bits each. */
static uint8_t *put_steps(uint8_t *at, const struct changes *changes, const struct plan *plan)
{
    uint32_t far = (1u << plan->width) - 1;
    uint64_t bits = 0;
    unsigned held = 0;

    for (uint32_t i = 0; i < changes->count; i++) {
        uint32_t step = changes->steps[i];
        bits |= (uint64_t)(step < far ? step : far) << held;
        held += plan->width;
        if (held >= 32) {
            uint32_t low = (uint32_t)bits;
            memcpy(at, &low, sizeof(low));
            at += sizeof(low);
            bits >>= 32;
            held -= 32;
        }
    }
    memcpy(at, &bits, (held + 7) / 8);
    at += (held + 7) / 8;
    for (uint32_t i = 0; i < changes->count && plan->others > 0; i++)
        if (changes->steps[i] >= far)
            at = put_u16(at, changes->steps[i]);
    return at;
}

static size_t put_block(const struct wring_delta_tier_kernels *kernels, const uint16_t *base,
                        const uint16_t *now, uint64_t n, uint8_t *at)
{
    struct changes changes;
    uint8_t gaps[GAPS_MAX];

    changes.count = kernels->compare(changes.map, changes.steps, changes.places, base, now, n);
    struct plan plan = make_plan(&changes, n, gaps);
    *at++ = (uint8_t)(plan.kind | (plan.width > 0 ? plan.width - 1 : 0) << KIND_BITS);
    if (plan.kind == RAW)
        memcpy(at, now, n * sizeof(*now));
    if (plan.kind != RAW && plan.kind != SAME) {
        at = put_u16(put_u16(at, changes.count), plan.others);
        put_steps(put_places(at, &changes, &plan, gaps), &changes, &plan);
    }
    return plan.bytes;
}

size_t wring_delta_encode(enum wring_cpu_tier tier, const void *base, const void *now,
                          uint64_t bytes, void *code)
{
    const struct wring_delta_tier_kernels *kernels = kernels_of(tier);
    const uint16_t *from = base, *to = now;
    uint8_t *at = code;

    for (uint64_t left = bytes / 2, n; left > 0; left -= n, from += n, to += n) {
        n = left < WRING_DELTA_WORDS ? left : WRING_DELTA_WORDS;
        at += put_block(kernels, from, to, n, at);
    }
    if (bytes % 2 != 0)
        *at++ = ((const uint8_t *)now)[bytes - 1];
    return (size_t)(at - (uint8_t *)code);
}

/* ---- apply ---- */

/** A code that is read, of which nobody vouches for a byte. */
struct reader {
    const uint8_t *at;
    size_t left;
};

/** @return where the bytes are, or NULL: there are fewer */
static const uint8_t *take(struct reader *reader, size_t bytes)
{
    const uint8_t *at = reader->at;
    if (reader->left < bytes)
        return NULL;
    reader->at += bytes;
    reader->left -= bytes;
    return at;
}

static bool take_number(struct reader *reader, uint32_t *out)
{
    const uint8_t *at = take(reader, sizeof(uint16_t));
    if (at != NULL)
        *out = wring_take_u16(at);
    return at != NULL;
}

static void set_in_map(struct changes *changes, uint64_t place)
{
    changes->map[place / 64] |= UINT64_C(1) << place % 64;
}

/**
 * Of few, the places. There is no branch but the loop's, as nothing tells which gaps go on.
 * @param gaps  in, [bytes], so few that there is room for all
 */
static bool list_gaps(struct changes *changes, const volatile uint8_t *gaps, uint32_t bytes,
                      uint64_t n)
{
    uint32_t found = 0, next = 0;
    uint8_t gap = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        gap = gaps[i];
        next += gap;
        changes->places[found] = (uint16_t)next;
        found += gap != SKIP;
        next += gap != SKIP;
    }
    return found == changes->count && gap != SKIP && next <= n;
}

static bool take_gaps(struct reader *reader, struct changes *changes, uint64_t n)
{
    uint32_t bytes = 0, found = 0;
    uint64_t next = 0;
    const uint8_t *gaps = take_number(reader, &bytes) ? take(reader, bytes) : NULL;
    uint8_t gap = 0;

    if (gaps == NULL || bytes > changes->count + n / SKIP) /* no more go on within n */
        return false;
    if (changes->listed)
        return list_gaps(changes, gaps, bytes, n);
    for (uint32_t i = 0; i < bytes; i++) {
        gap = *(const volatile uint8_t *)(gaps + i);
        next += gap;
        if (gap == SKIP)
            continue;
        if (next >= n)
            return false;
        set_in_map(changes, next++);
        found++;
    }
    return found == changes->count && gap != SKIP;
}

static bool take_list(struct reader *reader, struct changes *changes, uint64_t n)
{
    const uint8_t *list = take(reader, changes->count * sizeof(uint16_t));
    uint64_t next = 0;

    for (uint32_t i = 0; list != NULL && i < changes->count; i++) {
        uint64_t place = wring_take_u16(list + i * sizeof(uint16_t));
        if (place < next || place >= n)
            return false;
        if (changes->listed)
            changes->places[i] = (uint16_t)place;
        else
            set_in_map(changes, place);
        next = place + 1;
    }
    return list != NULL;
}

static bool take_map(struct reader *reader, struct changes *changes, uint64_t n)
{
    const uint8_t *map = take(reader, (n + 7) / 8);
    uint32_t found = 0;

    if (map == NULL)
        return false;
    memcpy(changes->map, map, (n + 7) / 8);
    for (uint32_t w = 0; w < WRING_DELTA_MAP; w++)
        found += (uint32_t)__builtin_popcountll(changes->map[w]);
    return found == changes->count && (n % 8 == 0 || changes->map[n / 64] >> n % 64 == 0);
}

static bool take_places(struct reader *reader, enum kind kind, struct changes *changes, uint64_t n)
{
    changes->listed = (kind == GAPS || kind == LIST) && changes->count <= WRING_DELTA_FEW;
    if (!changes->listed)
        memset(changes->map, 0, sizeof(changes->map));
    if (kind == GAPS)
        return take_gaps(reader, changes, n);
    if (kind == LIST)
        return take_list(reader, changes, n);
    if (kind == MAP)
        return take_map(reader, changes, n);
    for (uint64_t i = 0; i < n; i++)
        set_in_map(changes, i);
    return changes->count == n;
}

static bool take_others(struct reader *reader, struct changes *changes, uint32_t far,
                        uint32_t others)
{
    for (uint32_t i = 0; i < changes->count && others > 0; i++) {
        uint32_t step = 0;
        if (changes->steps[i] != far)
            continue;
        if (!take_number(reader, &step))
            return false;
        changes->steps[i] = (uint16_t)step;
        others--;
    }
    return others == 0;
}

#define GROUP 8 /* steps, which begin with a byte */

static uint64_t take_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/** A group. @param at  in, [width + 8], where it begins */
static void take_group(uint16_t *steps, const uint8_t *at, unsigned width)
{
    const unsigned half = GROUP / 2;
    uint64_t first = take_u64(at), second = take_u64(at + half * width / 8);
    uint32_t far = (1u << width) - 1;

    second >>= half * width % 8;
    for (unsigned i = 0; i < half; i++) {
        steps[i] = (uint16_t)(first >> i * width & far);
        steps[half + i] = (uint16_t)(second >> i * width & far);
    }
}

/** The steps from number i on. @param at  in, [end - at], where they begin */
static void take_last_steps(struct changes *changes, uint32_t i, const uint8_t *at,
                            const uint8_t *end, unsigned width)
{
    uint64_t bits = 0;
    unsigned held = 0;

    for (; i < changes->count; i++) {
        if (held < width) {
            uint32_t more = 0;
            size_t size = (size_t)(end - at) < sizeof(more) ? (size_t)(end - at) : sizeof(more);
            memcpy(&more, at, size);
            at += size;
            bits |= (uint64_t)more << held;
            held += 32;
        }
        changes->steps[i] = (uint16_t)(bits & ((1u << width) - 1));
        bits >>= width;
        held -= width;
    }
}

static bool take_steps(struct reader *reader, struct changes *changes, unsigned width,
                       uint32_t others)
{
    const uint8_t *at = take(reader, step_bytes(changes->count, width)), *end = reader->at;
    const uint8_t *all = end + reader->left; /* where the code ends */
    uint32_t far = (1u << width) - 1, claimed = 0, i = 0;

    if (at == NULL)
        return false;
    for (; i + GROUP <= changes->count && (size_t)(all - at) >= width + sizeof(uint64_t);
         i += GROUP) {
        take_group(changes->steps + i, at, width);
        at += width;
    }
    take_last_steps(changes, i, at, end, width);
    if (others == 0) /* then all bits set are a step like any other */
        return true;
    for (i = 0; i < changes->count; i++)
        claimed += changes->steps[i] == far;
    return claimed == others && take_others(reader, changes, far, others);
}

/** @return false: malformed */
static bool take_changes(struct reader *reader, unsigned first, struct changes *changes, uint64_t n)
{
    enum kind kind = (enum kind)(first & ((1u << KIND_BITS) - 1));
    unsigned width = (first >> KIND_BITS) + 1;
    uint32_t others = 0;

    if (!take_number(reader, &changes->count) || !take_number(reader, &others))
        return false;
    if (width > 16 || changes->count == 0 || changes->count > n || others > changes->count)
        return false;
    return take_places(reader, kind, changes, n) && take_steps(reader, changes, width, others);
}

/** Step the words whose places are listed, as kernels step those of a map. */
static void step_listed(uint16_t *dst, const struct changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        uint16_t *at = dst + changes->places[i], word; /* at any address */
        uint32_t z = (uint16_t)(changes->steps[i] + 1);
        memcpy(&word, at, sizeof(word));
        word = (uint16_t)(word + (z >> 1 ^ (z & 1 ? 0xFFFF : 0)));
        memcpy(at, &word, sizeof(word));
    }
}

/** Not inlined, as its frame is large. @return false: malformed, and then dst is as it was */
static __attribute__((noinline)) bool apply_block(const struct wring_delta_tier_kernels *kernels,
                                                  uint16_t *dst, const uint16_t *base, uint64_t n,
                                                  struct reader *reader)
{
    struct changes changes;
    const uint8_t *at = take(reader, 1);
    unsigned first = at != NULL ? *(const volatile uint8_t *)at : KINDS;

    if (first == SAME) {
        if (dst != base)
            memcpy(dst, base, n * sizeof(*dst));
        return true;
    }
    if (first == RAW) {
        const uint8_t *words = take(reader, n * sizeof(*dst));
        if (words != NULL)
            memcpy(dst, words, n * sizeof(*dst));
        return words != NULL;
    }
    unsigned kind = first & ((1u << KIND_BITS) - 1);
    if (kind == SAME || kind >= RAW || !take_changes(reader, first, &changes, n))
        return false;
    if (!changes.listed) {
        kernels->apply(dst, base, changes.map, changes.steps, n);
        return true;
    }
    if (dst != base)
        memcpy(dst, base, n * sizeof(*dst));
    step_listed(dst, &changes);
    return true;
}

#define TURN 512 /* bytes that leave before others are asked for */

/** Past the caches, if dst is another place and so long that it cannot stay there.
 *  @param next  in, [n], of the next block, which comes meanwhile; NULL: there is none as long */
static bool apply_far(const struct wring_delta_tier_kernels *kernels, uint16_t *dst,
                      const uint16_t *base, uint64_t n, const uint16_t *next, struct reader *reader)
{
    _Alignas(WRING_LINE) uint16_t near[WRING_DELTA_WORDS];
    size_t bytes = n * sizeof(*dst);
    bool right = apply_block(kernels, near, base, n, reader);

    for (size_t at = 0; right && at < bytes; at += TURN) {
        size_t turn = bytes - at < TURN ? bytes - at : TURN;
        wring_streaming_stream((char *)dst + at, (const char *)near + at, turn);
        if (next != NULL)
            wring_streaming_fetch((const char *)next + at, turn);
    }
    return right;
}

enum wring_status wring_delta_apply(enum wring_cpu_tier tier, void *dst, const void *base,
                                    uint64_t bytes, const void *code, size_t code_bytes)
{
    const struct wring_delta_tier_kernels *kernels = kernels_of(tier);
    struct reader reader = {code, code_bytes};
    const uint16_t *from = base;
    uint16_t *to = dst;
    bool far = dst != base && WRING_IS_LONG(bytes / sizeof(float)), right = true;

    for (uint64_t left = bytes / 2, n; left > 0 && right; left -= n, from += n, to += n) {
        n = left < WRING_DELTA_WORDS ? left : WRING_DELTA_WORDS;
        const uint16_t *next = left >= 2 * WRING_DELTA_WORDS ? from + n : NULL;
        right = far ? apply_far(kernels, to, from, n, next, &reader)
                    : apply_block(kernels, to, from, n, &reader);
    }
    if (far)
        wring_streaming_settle();
    if (right && bytes % 2 != 0) {
        const uint8_t *last = take(&reader, 1);
        right = last != NULL;
        if (right)
            ((uint8_t *)dst)[bytes - 1] = *last;
    }
    return right && reader.left == 0 ? WRING_OK : WRING_ERR_FRAME;
}

/* ---- hash ---- */

#define LANES 8 /* of 64 bits: a line */

/** Add a line's products. @param key  of its first lane; each lane and line has another */
static void hash_line(uint64_t *lanes, const uint8_t *line, uint64_t key)
{
    uint64_t words[LANES];

    memcpy(words, line, sizeof(words));
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t sum = words[lane] ^ (key + lane * UINT64_C(0xD6E8FEB86659FD93));
        lanes[lane] += (sum & 0xFFFFFFFF) * (sum >> 32) + words[lane];
    }
}

static uint64_t hash_run(uint64_t hash, const uint8_t *data, uint64_t bytes)
{
    uint64_t lanes[LANES] = {0}, key = UINT64_C(0x9E3779B97F4A7C15), i = 0;
    uint8_t rest[WRING_LINE] = {0};

    for (; i + WRING_LINE <= bytes; i += WRING_LINE, key += UINT64_C(0x9E3779B97F4A7C15))
        hash_line(lanes, data + i, key);
    if (i < bytes) {
        memcpy(rest, data + i, bytes - i);
        hash_line(lanes, rest, key);
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        hash = wring_fold(hash, lanes[lane]);
    return wring_fold(hash, bytes);
}

uint64_t wring_delta_hash(uint64_t hash, const void *data, uint64_t bytes)
{
    const uint8_t *at = data;

    for (uint64_t n; bytes > 0; bytes -= n, at += n) {
        n = bytes < WRING_DELTA_RUN ? bytes : WRING_DELTA_RUN;
        hash = hash_run(hash, at, n);
    }
    return hash;
}
