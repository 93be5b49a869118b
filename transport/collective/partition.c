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
        chunk = wring_partition_most(chunk_bytes);
        uint64_t bytes = wring_codec_bound(codec, chunk);
        if (bytes > chunk_bytes)
            chunk = (uint64_t)((double)chunk * (double)chunk_bytes / (double)bytes);
    }
    chunk = chunk / grain * grain;
    while (codec != NULL && chunk > grain && wring_codec_bound(codec, chunk) > chunk_bytes)
        chunk -= grain;
    return chunk > grain ? chunk : grain;
}

uint64_t wring_partition_grain(uint64_t elems, const struct wring_codec *codec)
{
    uint64_t unit = codec != NULL ? wring_codec_info(codec)->unit : 1;
    if (unit == 0) /* the whole bucket */
        unit = elems > 0 ? elems : 1;
    uint64_t grain = unit;
    while (grain < RAW_GRAIN)
        grain *= 2;
    return grain;
}

struct wring_partition wring_partition_make(uint64_t elems, uint32_t elem_bytes, uint32_t shards,
                                            const struct wring_codec *codec, size_t chunk_bytes)
{
    uint64_t grain = wring_partition_grain(elems, codec);
    return (struct wring_partition){
        .elems = elems,
        .grain = grain,
        .chunk_elems = chunk_of(codec, grain, elem_bytes, chunk_bytes),
        .shards = shards,
        .elem_bytes = elem_bytes,
    };
}

uint64_t wring_partition_most(size_t chunk_bytes)
{
    return chunk_bytes / sizeof(float) * GATHER_UP;
}

static uint64_t grains_of(const struct wring_partition *partition)
{
    return (partition->elems + partition->grain - 1) / partition->grain;
}

struct wring_span wring_partition_shard(const struct wring_partition *partition, uint32_t shard)
{
    if (partition->begins != NULL)
        return (struct wring_span){partition->begins[shard], partition->begins[shard + 1]};
    if (partition->each)
        return (struct wring_span){partition->elems * shard, partition->elems * (shard + 1)};
    uint64_t grains = grains_of(partition);
    uint64_t whole = grains / partition->shards, rest = grains % partition->shards;
    /* the first `rest` shards have one grain more */
    uint64_t first = whole * shard + (shard < rest ? shard : rest);
    uint64_t count = whole + (shard < rest ? 1 : 0);
    struct wring_span span = {first * partition->grain, (first + count) * partition->grain};
    if (span.begin > partition->elems)
        span.begin = partition->elems;
    if (span.end > partition->elems)
        span.end = partition->elems;
    return span;
}

uint64_t wring_partition_chunks(const struct wring_partition *partition, struct wring_span span)
{
    return (span.end - span.begin + partition->chunk_elems - 1 + partition->told) /
           partition->chunk_elems;
}

void wring_partition_lay_out(const uint64_t *elems, uint32_t n, uint64_t *begins)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        begins[i] = at;
        at += elems[i];
    }
    begins[n] = at;
}

struct wring_span wring_partition_chunk(const struct wring_partition *partition,
                                        struct wring_span span, uint64_t chunk)
{
    uint64_t begin = span.begin + chunk * partition->chunk_elems;
    uint64_t end = begin + partition->chunk_elems;
    return (struct wring_span){begin, end < span.end ? end : span.end};
}

uint64_t wring_partition_element(const struct wring_partition *partition, uint64_t element)
{
    if (!partition->each || partition->elems == 0)
        return element;
    uint64_t shard = element / partition->elems;
    return shard * grains_of(partition) * partition->grain + element % partition->elems;
}
