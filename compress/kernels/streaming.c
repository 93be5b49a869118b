/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/streaming.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

void wring_streaming_enter(const void *at)
{
    const size_t page = WRING_PAGE * sizeof(float);
    const char *from = (const char *)at + (-(uintptr_t)at & (page - 1));
    __builtin_prefetch(from);
}

void wring_streaming_fetch(const void *at, size_t bytes)
{
    const char *from = at;
    for (size_t i = 0; i < bytes; i += WRING_LINE)
        __builtin_prefetch(from + i);
}

void wring_streaming_fetch_unit(const float *at, uint64_t n)
{
    wring_streaming_fetch(at, (n < WRING_PAGE ? n : WRING_PAGE) * sizeof(*at));
}

void wring_streaming_fetch_ahead(const float *at, uint64_t n, bool has_residual)
{
    wring_streaming_fetch(has_residual ? at : at + n, n * sizeof(*at));
}

void wring_streaming_read(const void *at, size_t bytes)
{
    const volatile char *from = at;
    for (size_t i = 0; i < bytes; i += WRING_LINE)
        (void)from[i];
}

#if defined(__SSE2__)
/** @param to  where a line begins */
static void stream_line(char *to, const char *from)
{
    for (size_t i = 0; i < WRING_LINE; i += sizeof(__m128i))
        _mm_stream_si128((__m128i *)(void *)(to + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

void wring_streaming_stream(void *to, const void *from, size_t bytes)
{
    size_t done = WRING_TO_LINE(to) < bytes ? WRING_TO_LINE(to) : bytes;
    const char *in = from;
    char *out = to;

    memcpy(out, in, done);
    for (; done + WRING_LINE <= bytes; done += WRING_LINE)
        stream_line(out + done, in + done);
    memcpy(out + done, in + done, bytes - done);
}

void wring_streaming_settle(void)
{
    _mm_sfence();
}
#else
void wring_streaming_stream(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void wring_streaming_settle(void)
{
}
#endif

void wring_streaming_copy(void *to, const void *from, size_t bytes)
{
    wring_streaming_stream(to, from, bytes);
    wring_streaming_settle();
}
