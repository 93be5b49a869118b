/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/partition.h"

#include <wring/codec.h>

#define RAW_GRAIN 32 /* elements, 128 bytes: what suits stores and cache lines */
#define GATHER_UP 4  /* times the bytes of a piece may be encoded into one */

/**
 * The elements of a chunk: as many grains as a code of chunk_bytes holds, so that with a codec of
 * few bits a message does not cost more than its payload. At most GATHER_UP times chunk_bytes are
 * coded into one, so that something is left to overlap.
 */
static uint64_t chunk_of(const struct wring_codec *codec, uint64_t grain, uint32_t elem_bytes,
                         size_t chunk_bytes)
{
    uint64_t chunk = chunk_bytes / elem_bytes;
    if (codec != NULL) {
        chunk = wring_geometry_most(chunk_bytes);
        uint64_t bytes = wring_codec_bound(codec, chunk);
        if (bytes > chunk_bytes)
            chunk = (uint64_t)((double)chunk * (double)chunk_bytes / (double)bytes);
    }
    chunk = chunk / grain * grain;
    while (codec != NULL && chunk > grain && wring_codec_bound(codec, chunk) > chunk_bytes)
        chunk -= grain;
    return chunk > grain ? chunk : grain;
}

uint64_t wring_geometry_grain(uint64_t elems, const struct wring_codec *codec)
{
    uint64_t unit = codec != NULL ? wring_codec_info(codec)->unit : 1;
    if (unit == 0) /* the whole bucket */
        unit = elems > 0 ? elems : 1;
    uint64_t grain = unit;
    while (grain < RAW_GRAIN)
        grain *= 2;
    return grain;
}

struct wring_geometry wring_geometry_make(uint64_t elems, uint32_t elem_bytes, uint32_t shards,
                                          const struct wring_codec *codec, size_t chunk_bytes)
{
    uint64_t grain = wring_geometry_grain(elems, codec);
    return (struct wring_geometry){
        .elems = elems,
        .grain = grain,
        .chunk_elems = chunk_of(codec, grain, elem_bytes, chunk_bytes),
        .shards = shards,
        .elem_bytes = elem_bytes,
    };
}

uint64_t wring_geometry_most(size_t chunk_bytes)
{
    return chunk_bytes / sizeof(float) * GATHER_UP;
}

static uint64_t grains_of(const struct wring_geometry *geometry)
{
    return (geometry->elems + geometry->grain - 1) / geometry->grain;
}

struct wring_span wring_geometry_shard(const struct wring_geometry *geometry, uint32_t shard)
{
    if (geometry->begins != NULL)
        return (struct wring_span){geometry->begins[shard], geometry->begins[shard + 1]};
    if (geometry->each)
        return (struct wring_span){geometry->elems * shard, geometry->elems * (shard + 1)};
    uint64_t grains = grains_of(geometry);
    uint64_t whole = grains / geometry->shards, rest = grains % geometry->shards;
    /* the first `rest` shards have one grain more */
    uint64_t first = whole * shard + (shard < rest ? shard : rest);
    uint64_t count = whole + (shard < rest ? 1 : 0);
    struct wring_span span = {first * geometry->grain, (first + count) * geometry->grain};
    if (span.begin > geometry->elems)
        span.begin = geometry->elems;
    if (span.end > geometry->elems)
        span.end = geometry->elems;
    return span;
}

uint64_t wring_geometry_chunks(const struct wring_geometry *geometry, struct wring_span span)
{
    return (span.end - span.begin + geometry->chunk_elems - 1 + geometry->told) /
           geometry->chunk_elems;
}

void wring_geometry_lay_out(const uint64_t *elems, uint32_t n, uint64_t *begins)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        begins[i] = at;
        at += elems[i];
    }
    begins[n] = at;
}

struct wring_span wring_geometry_chunk(const struct wring_geometry *geometry,
                                       struct wring_span span, uint64_t chunk)
{
    uint64_t begin = span.begin + chunk * geometry->chunk_elems;
    uint64_t end = begin + geometry->chunk_elems;
    return (struct wring_span){begin, end < span.end ? end : span.end};
}

uint64_t wring_geometry_element(const struct wring_geometry *geometry, uint64_t element)
{
    if (!geometry->each || geometry->elems == 0)
        return element;
    uint64_t shard = element / geometry->elems;
    return shard * grains_of(geometry) * geometry->grain + element % geometry->elems;
}
