/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/x86/lossless_avx512.h"

/** Lane i: base + i * step. */
INLINE vector ramp(uint32_t base, uint32_t step)
{
    const vector lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32((int)base),
                            _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)step)));
}

/** Words 0, 2, 4, ... */
INLINE vector lows_of(vector first, vector second)
{
    return _mm512_permutex2var_epi16(first, ramp(0x00020000, 0x00040004), second);
}

/** Bytes 2, 6, 10, ..., and then 3, 7, 11, ... */
INLINE vector rests_of(vector first, vector second)
{
    const vector highs = ramp(0x0E0A0602, 0x10101010); /* modulo 128 */
    const vector index = _mm512_mask_add_epi8(highs, UINT64_MAX << 32, highs, _mm512_set1_epi8(1));
    return _mm512_permutex2var_epi8(first, index, second);
}

/** Each r: bytes 2 i and 2 i + 1 of `lows`, then bytes i and 32 + i of `rests`. */
INLINE vector r_of(vector lows, vector rests, bool second)
{
    const vector index = ramp(0x60400100, 0x01010202), next = ramp(0x70502120, 0x01010202);
    return _mm512_permutex2var_epi8(lows, second ? next : index, rests);
}

/** Bits of bytes: byte j of each eight gets bit j of these, of the first of them the lowest. */
INLINE vector transpose(vector bytes)
{
    const vector reversed = _mm512_set_epi64(
        0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607,
        0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607);
    const vector unit = _mm512_set1_epi64((long long)0x8040201008040201);
    return _mm512_gf2p8affine_epi64_epi8(unit, _mm512_shuffle_epi8(bytes, reversed), 0);
}

/** Eight bytes of the upper half, at any place. */
INLINE void store_upper(uint8_t *to, __m128i pair)
{
    _mm_storel_epi64((__m128i *)to, _mm_unpackhi_epi64(pair, pair));
}

INLINE void put_planes(uint8_t *planes, uint64_t plane, vector distance, unsigned width)
{
    const __m512i order = _mm512_set_epi64(0, 0, 0, 0, 0x3B332B231B130B03, 0x3A322A221A120A02,
                                           0x3931292119110901, 0x3830282018100800);
    __m256i rows = _mm512_castsi512_si256(_mm512_permutexvar_epi8(order, transpose(distance)));
    __m128i lower = _mm256_castsi256_si128(rows), upper = _mm256_extracti128_si256(rows, 1);
    _mm_storel_epi64((__m128i *)planes, lower);
    store_upper(planes + plane, lower);
    _mm_storel_epi64((__m128i *)(planes + 2 * plane), upper);
    if (width == WRING_LOSSLESS_BLOCK_WIDE)
        store_upper(planes + 3 * plane, upper);
}

/** By way of a register: VPCOMPRESSB into memory is slow. More than a few are stored again. */
INLINE void put_others(uint8_t *others, vector exponents, uint64_t chosen)
{
    vector packed = _mm512_maskz_compress_epi8(chosen, exponents);

    _mm_storeu_si128((__m128i *)others, _mm512_castsi512_si128(packed));
    if (__builtin_expect(count(chosen) > sizeof(__m128i), 0))
        _mm512_storeu_si512(others, packed);
}

INLINE vector take_others(vector exponents, uint64_t chosen, const uint8_t *others)
{
    return _mm512_mask_expand_epi8(exponents, chosen, _mm512_loadu_si512(others));
}

/**
 * Low and high of a block on their way, straight from registers: a line is the end of one vector
 * and the beginning of the next, as the block may begin at any byte. Both parts begin at the same
 * place of a line.
 */
struct straight {
    uint8_t *low, *high; /* lines that the parts begin in */
    vector joint;        /* which bytes of two vectors are a line */
};

INLINE struct straight straight_of(void *packed, uint64_t n)
{
    const vector fours = ramp(0x03020100, 0x04040404);
    unsigned skip = (uintptr_t)packed % WRING_LINE;
    uint8_t *line = (uint8_t *)packed - skip;

    return (struct straight){line, line + 2 * n,
                             _mm512_add_epi8(fours, _mm512_set1_epi8((char)(WRING_LINE - skip)))};
}

INLINE void put_joint(const struct straight *to, uint8_t *line, vector before, vector behind)
{
    _mm512_stream_si512((void *)line, _mm512_permutex2var_epi8(before, to->joint, behind));
}

/** Asked for into the first cache. */
INLINE void fetch_near(const float *at)
{
    for (uint64_t line = 0; line < LINES; line++)
        __builtin_prefetch(at + line * (WRING_LINE / sizeof(*at)));
}

/** The first line is not whole yet, and neither is the last one: their parts go to `packed`. */
INLINE struct wring_lossless_far send(uint8_t *packed, const float *src, struct form form,
                                      struct wring_lossless_beside *out)
{
    const uint64_t n = WRING_LOSSLESS_BLOCK_USUAL;
    struct parts to = parts_of(packed, packed + WRING_LOSSLESS_OTHERS(n, form.width), n);
    const struct wring_lossless_beside beside = *out;
    struct straight straight = straight_of(beside.straight, n);
    struct apart first = {0}, before = {0};
    words peaks = {0};

    if (beside.next != NULL)
        peaks = peaks_of(beside.next, WRING_LOSSLESS_SAMPLE(n));
    for (uint64_t i = 0; i < n; i += STEP) {
        if (beside.fetch != NULL)
            fetch_near(beside.fetch + i);
        struct apart apart = take_apart(src + i);
        if (i == 0) {
            first = apart;
        } else {
            put_joint(&straight, straight.low + 2 * i, before.low[1], apart.low[0]);
            put_joint(&straight, straight.high + i, before.high, apart.high);
        }
        put_joint(&straight, straight.low + 2 * i + WRING_LINE, apart.low[0], apart.low[1]);
        put_exponents(&to, apart.exponents, ALL_LIVE, form);
        to.planes += STEP / 8;
        before = apart;
    }
    put_joint(&straight, straight.high, before.low[1], first.high);
    _mm512_storeu_si512(packed, first.low[0]);
    _mm512_storeu_si512(packed + WRING_LOSSLESS_PLANES(n) - WRING_LINE, before.high);
    stream_lines(&beside.leaving, 0, beside.leaving.n);
    stream_lines(&beside.last, 0, beside.last.n);
    out->peak = largest_of(peaks);
    return to.far;
}

static struct wring_lossless_far send_or_pack(uint8_t *packed, const float *src, uint64_t n,
                                              unsigned width, uint32_t top,
                                              struct wring_lossless_beside *beside)
{
    if (beside->straight == NULL)
        return pack_block(packed, src, n, width, top, beside);
    if (width == WRING_LOSSLESS_BLOCK_NARROW)
        return send(packed, src, (struct form){WRING_LOSSLESS_BLOCK_NARROW, top}, beside);
    return send(packed, src, (struct form){WRING_LOSSLESS_BLOCK_WIDE, top}, beside);
}

const struct wring_lossless_tier_kernels wring_lossless_vbmi2 = {
    peak_block, send_or_pack, true, unpack_block, unpack_add_block,
};
