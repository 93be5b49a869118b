/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "tools/bench/twin.h"

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

static __m512i load_vector(const char *at, bool half)
{
    if (half)
        return _mm512_zextsi256_si512(_mm256_load_si256((const __m256i *)(const void *)at));
    return _mm512_load_si512(at);
}

/** A line, or half a line, is read for each one that is updated. */
static inline __m512i read_and_update(const char *from, char *at, size_t n, bool half,
                                      bool streaming, __m512i key)
{
    const char *end = at + n * WRING_TWIN_LINE;
    size_t step = half ? WRING_TWIN_LINE / 2 : WRING_TWIN_LINE;
    __m512i seen = _mm512_setzero_si512();

    if (streaming)
        for (; at < end; at += WRING_TWIN_LINE, from += step) {
            seen = _mm512_or_si512(seen, load_vector(from, half));
            _mm512_stream_si512((void *)at, _mm512_xor_si512(_mm512_load_si512(at), key));
        }
    else
        for (; at < end; at += WRING_TWIN_LINE, from += step) {
            seen = _mm512_or_si512(seen, load_vector(from, half));
            _mm512_store_si512(at, _mm512_xor_si512(_mm512_load_si512(at), key));
        }
    return seen;
}

/** One by one, where both streams are equally long. */
static __m512i read_and_write(const char *from, char *at, size_t n, bool streaming)
{
    __m512i seen = _mm512_setzero_si512();
    size_t bytes = n * WRING_TWIN_LINE, i;

    if (streaming)
        for (i = 0; i < bytes; i += WRING_TWIN_LINE) {
            seen = _mm512_load_si512(from + i);
            _mm512_stream_si512((void *)(at + i), seen);
        }
    else
        for (i = 0; i < bytes; i += WRING_TWIN_LINE) {
            seen = _mm512_load_si512(from + i);
            _mm512_store_si512(at + i, seen);
        }
    return seen;
}

static uint64_t fold(__m512i seen)
{
    return (uint64_t)_mm512_reduce_or_epi64(seen);
}

uint64_t wring_twin_avx512(const struct wring_twin_block *block, unsigned store, uint64_t key)
{
    __m512i keys = _mm512_set1_epi64((long long)key), seen;
    bool stream_updates = store & WRING_TWIN_STREAM_UPDATES;
    bool stream_writes = store & WRING_TWIN_STREAM_WRITES;

    if (block->n_update == 0 && block->n_read == block->n_write)
        return fold(read_and_write(block->read, block->write, block->n_read, stream_writes));
    size_t n = block->n_update;
    if (n == block->n_read) { /* constants in the calls: each becomes loops of its own */
        seen = read_and_update(block->read, block->update, n, false, stream_updates, keys);
    } else if (n == 2 * block->n_read) {
        seen = read_and_update(block->read, block->update, n, true, stream_updates, keys);
    } else {
        seen = read_lines(block->read, block->n_read);
        update_lines(block->update, block->n_update, stream_updates, keys);
    }
    write_lines(block->write, block->n_write, stream_writes, seen);
    return fold(seen);
}
