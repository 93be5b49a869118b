/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "tools/bench/twin.h"

#define VECTOR 32u
#define PER_LINE (WRING_TWIN_LINE / VECTOR)

static __m256i load_vector(const char *at)
{
    return _mm256_load_si256((const __m256i *)(const void *)at);
}

static void store_vector(char *at, __m256i value)
{
    _mm256_store_si256((__m256i *)(void *)at, value);
}

static void stream_vector(char *at, __m256i value)
{
    _mm256_stream_si256((__m256i *)(void *)at, value);
}

static __m256i read_lines(const char *at, size_t n)
{
    __m256i seen[PER_LINE] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

    for (size_t i = 0; i < n; i++)
        for (unsigned v = 0; v < PER_LINE; v++, at += VECTOR)
            seen[v] = _mm256_or_si256(seen[v], load_vector(at));
    return _mm256_or_si256(seen[0], seen[1]);
}

static void update_lines(char *at, size_t n, bool streaming, __m256i key)
{
    char *end = at + n * WRING_TWIN_LINE;

    if (streaming)
        for (; at < end; at += VECTOR)
            stream_vector(at, _mm256_xor_si256(load_vector(at), key));
    else
        for (; at < end; at += VECTOR)
            store_vector(at, _mm256_xor_si256(load_vector(at), key));
}

static void write_lines(char *at, size_t n, bool streaming, __m256i value)
{
    char *end = at + n * WRING_TWIN_LINE;

    if (streaming)
        for (; at < end; at += VECTOR)
            stream_vector(at, value);
    else
        for (; at < end; at += VECTOR)
            store_vector(at, value);
}

/** For each vector that is read `per` are updated, as a codec does it whose code is so short. */
static inline __m256i read_and_update(const char *from, char *at, size_t n, unsigned per,
                                      bool streaming, __m256i key)
{
    const char *end = from + n * WRING_TWIN_LINE;
    __m256i seen = _mm256_setzero_si256();

    if (streaming)
        for (; from < end; from += VECTOR) {
            seen = _mm256_or_si256(seen, load_vector(from));
            for (unsigned i = 0; i < per; i++, at += VECTOR)
                stream_vector(at, _mm256_xor_si256(load_vector(at), key));
        }
    else
        for (; from < end; from += VECTOR) {
            seen = _mm256_or_si256(seen, load_vector(from));
            for (unsigned i = 0; i < per; i++, at += VECTOR)
                store_vector(at, _mm256_xor_si256(load_vector(at), key));
        }
    return seen;
}

/** One by one, where both streams are equally long. */
static __m256i read_and_write(const char *from, char *at, size_t n, bool streaming)
{
    __m256i seen = _mm256_setzero_si256();
    size_t bytes = n * WRING_TWIN_LINE, i;

    if (streaming)
        for (i = 0; i < bytes; i += VECTOR) {
            seen = load_vector(from + i);
            stream_vector(at + i, seen);
        }
    else
        for (i = 0; i < bytes; i += VECTOR) {
            seen = load_vector(from + i);
            store_vector(at + i, seen);
        }
    return seen;
}

static uint64_t fold(__m256i seen)
{
    __m128i half = _mm_or_si128(_mm256_castsi256_si128(seen), _mm256_extracti128_si256(seen, 1));
    return (uint64_t)(_mm_extract_epi64(half, 0) | _mm_extract_epi64(half, 1));
}

uint64_t wring_twin_avx2(const struct wring_twin_block *block, unsigned store, uint64_t key)
{
    __m256i keys = _mm256_set1_epi64x((long long)key), seen;
    bool stream_updates = store & WRING_TWIN_STREAM_UPDATES;
    bool stream_writes = store & WRING_TWIN_STREAM_WRITES;

    if (block->n_update == 0 && block->n_read == block->n_write)
        return fold(read_and_write(block->read, block->write, block->n_read, stream_writes));
    if (block->n_update == block->n_read) { /* numbers in the calls: loops of their own */
        seen = read_and_update(block->read, block->update, block->n_read, 1, stream_updates, keys);
    } else if (block->n_update == 2 * block->n_read) {
        seen = read_and_update(block->read, block->update, block->n_read, 2, stream_updates, keys);
    } else {
        seen = read_lines(block->read, block->n_read);
        update_lines(block->update, block->n_update, stream_updates, keys);
    }
    write_lines(block->write, block->n_write, stream_writes, seen);
    return fold(seen);
}

void wring_twin_fence_x86(void)
{
    _mm_sfence();
}
