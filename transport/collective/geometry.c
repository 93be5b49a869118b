/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/collective.h"

#define RAW_GRAIN 32 /* elements, 128 bytes: what suits stores and cache lines */

struct wring_geometry wring_geometry_make(uint64_t elems, uint32_t shards,
                                          const struct wring_codec *codec, size_t chunk_bytes)
{
    uint64_t unit = codec != NULL ? wring_codec_info(codec)->unit : 1;
    if (unit == 0) /* the whole bucket */
        unit = elems > 0 ? elems : 1;
    uint64_t grain = unit;
    while (grain < RAW_GRAIN)
        grain *= 2;
    uint64_t chunk = chunk_bytes / sizeof(float) / grain * grain;
    return (struct wring_geometry){elems, grain, chunk > grain ? chunk : grain, shards};
}

struct wring_span wring_geometry_shard(const struct wring_geometry *geometry, uint32_t shard)
{
    uint64_t grains = (geometry->elems + geometry->grain - 1) / geometry->grain;
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
    return (span.end - span.begin + geometry->chunk_elems - 1) / geometry->chunk_elems;
}

struct wring_span wring_geometry_chunk(const struct wring_geometry *geometry,
                                       struct wring_span span, uint64_t chunk)
{
    uint64_t begin = span.begin + chunk * geometry->chunk_elems;
    uint64_t end = begin + geometry->chunk_elems;
    return (struct wring_span){begin, end < span.end ? end : span.end};
}
