/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/collective.h"

static uint64_t pieces_of(const struct wring_partition *partition, struct wring_span span)
{
    return wring_partition_chunks(partition, span);
}

/** Shards to their owners, and the sum of our own to all, or to the root. */
static uint64_t count_two_shots(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t n = collective->members.n, me = collective->members.me;
    uint64_t messages = (n - 1) * pieces_of(partition, wring_partition_shard(partition, me));
    for (uint32_t i = 0; i < n; i++)
        if (i != me)
            messages += pieces_of(partition, wring_partition_shard(partition, i));
    return messages;
}

struct wring_collective_traffic wring_collective_traffic(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t others = collective->members.n - 1;
    struct wring_collective_traffic traffic = {.partners = others};

    switch (collective->work.algorithm) {
    case WRING_ALLREDUCE_DOUBLING:
    case WRING_ALLREDUCE_HALVING:
    case WRING_ALLREDUCE_HALVING_PLACED:
        return wring_doubling_traffic(collective);
    case WRING_ALLREDUCE_RING:
    case WRING_ALLREDUCE_RING_PLACED:
        return wring_ring_traffic(collective);
    case WRING_ALLREDUCE_BRUCK:
        traffic.messages = partition->elems > 0 ? wring_bruck_most(others + 1) : 0;
        traffic.partners = 2 * wring_bruck_most(others + 1); /* some may be both */
        return traffic;
    case WRING_ALLREDUCE_EAGER_BOARD:
    case WRING_ALLREDUCE_EAGER_IN_PLACE:
        return traffic; /* nothing is sent in mapped memory */
    case WRING_ALLREDUCE_EAGER:
        traffic.messages = others;
        return traffic;
    case WRING_ALLREDUCE_ONE_SHOT:
        traffic.messages = others * pieces_of(partition, (struct wring_span){0, partition->elems});
        return traffic;
    default:
        traffic.messages = count_two_shots(collective);
        return traffic;
    }
}
