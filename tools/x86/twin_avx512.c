/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "tools/twin.h"

static __m512i read_lines(const char *at, size_t n)
{
    const char *end = at + n * WRING_TWIN_LINE;
    __m512i even = _mm512_setzero_si512(), odd = even;

    for (; at + WRING_TWIN_LINE < end; at += 2 * (size_t)WRING_TWIN_LINE) {
        even = _mm512_or_si512(even, _mm512_load_si512(at));
        odd = _mm512_or_si512(odd, _mm512_load_si512(at + WRING_TWIN_LINE));
    }
    if (at < end)
        even = _mm512_or_si512(even, _mm512_load_si512(at));
    return _mm512_or_si512(even, odd);
}

static void update_lines(char *at, size_t n, bool streaming, __m512i key)
{
    char *end = at + n * WRING_TWIN_LINE;

    if (streaming)
        for (; at < end; at += WRING_TWIN_LINE)
            _mm512_stream_si512((void *)at, _mm512_xor_si512(_mm512_load_si512(at), key));
    else
        for (; at < end; at += WRING_TWIN_LINE)
            _mm512_store_si512(at, _mm512_xor_si512(_mm512_load_si512(at), key));
}

static void write_lines(char *at, size_t n, bool streaming, __m512i value)
{
    char *end = at + n * WRING_TWIN_LINE;

    if (streaming)
        for (; at < end; at += WRING_TWIN_LINE)
            _mm512_stream_si512((void *)at, value);
    else
        for (; at < end; at += WRING_TWIN_LINE)
            _mm512_store_si512(at, value);
}

uint64_t wring_twin_avx512(const struct wring_twin_block *block, unsigned store, uint64_t key)
{
    __m512i seen = read_lines(block->read, block->n_read);

    update_lines(block->update, block->n_update, store & WRING_TWIN_STREAM_UPDATES,
                 _mm512_set1_epi64((long long)key));
    write_lines(block->write, block->n_write, store & WRING_TWIN_STREAM_WRITES, seen);
    return (uint64_t)_mm512_reduce_or_epi64(seen);
}
