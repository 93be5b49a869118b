/* SPDX-License-Identifier: Apache-2.0 */
/** How elements are cut into shards and chunks. */
#ifndef WRING_TRANSPORT_COLLECTIVE_PARTITION_H
#define WRING_TRANSPORT_COLLECTIVE_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wring_codec;

/**
 * How the elements are cut. Shards and chunks begin at units. Either `elems` are split into
 * shards, or with `each` every shard has that many, and they follow one another; or they are runs
 * of any lengths, of which none has more than `elems`.
 */
struct wring_partition {
    uint64_t elems;
    uint64_t grain;       /* elements between two places where one may cut */
    uint64_t chunk_elems; /* of a full chunk: whole grains */
    uint32_t shards;
    uint32_t elem_bytes;
    bool each;
    bool told; /* the last chunk of each shard is not full, and be it empty, so that it tells the
                  end */
    const uint64_t
        *begins; /* [shards + 1] with each: of the runs; NULL: all have elems. Borrowed */
};

/** Elements [begin, end). */
struct wring_span {
    uint64_t begin, end;
};

/** @param codec  NULL: raw elements of elem_bytes; else float32 */
struct wring_partition wring_partition_make(uint64_t elems, uint32_t elem_bytes, uint32_t shards,
                                            const struct wring_codec *codec, size_t chunk_bytes);
/** Elements between two places where a codec's pieces may be cut, or raw ones (NULL). @param elems
 *  of the whole bucket */
uint64_t wring_partition_grain(uint64_t elems, const struct wring_codec *codec);

/** The most elements of an encoded chunk, unless a single grain has more. */
uint64_t wring_partition_most(size_t chunk_bytes);
struct wring_span wring_partition_shard(const struct wring_partition *partition, uint32_t shard);
uint64_t wring_partition_chunks(const struct wring_partition *partition, struct wring_span span);
struct wring_span wring_partition_chunk(const struct wring_partition *partition,
                                        struct wring_span span, uint64_t chunk);

/** Where codecs take an element to be: with `each`, shards begin at grains. Not of runs of any
 *  lengths, in which elements count from the run's first. */
uint64_t wring_partition_element(const struct wring_partition *partition, uint64_t element);

static inline size_t wring_partition_bytes(const struct wring_partition *partition,
                                           struct wring_span span)
{
    return (size_t)(span.end - span.begin) * partition->elem_bytes;
}

#endif
