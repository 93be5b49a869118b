/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/departures.h"

#include <stdlib.h>

#include "base/clock.h"

#define LEAST_NS (1 * WRING_NS_PER_MS)
#define MOST_NS (16 * WRING_NS_PER_MS)
#define RANGES_MAX ((WRING_CONTROL_BODY - 8) / WRING_RANGE_BYTES) /* behind the tree's own head */

enum wring_status wring_departures_init(struct wring_departures *departures, uint32_t ranks)
{
    *departures = (struct wring_departures){.list = calloc(ranks, sizeof(*departures->list))};
    return departures->list != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

void wring_departures_finish(struct wring_departures *departures)
{
    free(departures->list);
    *departures = (struct wring_departures){0};
}

void wring_departures_add(struct wring_departures *departures, uint32_t rank, uint32_t from,
                          uint64_t now_ns)
{
    if (departures->n == 0) {
        uint64_t gap_ns = departures->gap_ns;
        if (gap_ns == 0 || now_ns - departures->told_ns >= 4 * gap_ns)
            departures->gap_ns = LEAST_NS;
        departures->due_ns = departures->told_ns + departures->gap_ns;
    }
    departures->list[departures->n++] = (struct wring_departure){rank, from};
}

static int compare_ranks(const void *left, const void *right)
{
    uint32_t one = ((const struct wring_departure *)left)->rank;
    uint32_t other = ((const struct wring_departure *)right)->rank;
    return (one > other) - (one < other);
}

void wring_departures_sort(struct wring_departures *departures)
{
    qsort(departures->list, departures->n, sizeof(*departures->list), compare_ranks);
}

void wring_departures_told(struct wring_departures *departures, uint64_t now_ns)
{
    uint64_t gap_ns = 2 * departures->gap_ns;

    departures->n = 0;
    departures->told_ns = now_ns;
    departures->gap_ns = gap_ns < MOST_NS ? gap_ns : MOST_NS;
}

/* ---- ranges ---- */

bool wring_ranges_add(struct wring_control *control, uint32_t rank)
{
    uint8_t *end = control->body + control->bytes;

    if (control->bytes > 0 && wring_get_u32(end - sizeof(rank)) + 1 == rank) {
        wring_put_u32(end - sizeof(rank), rank);
        return true;
    }
    if (control->bytes == RANGES_MAX * WRING_RANGE_BYTES)
        return false;
    wring_put_u32(end, rank);
    wring_put_u32(end + sizeof(rank), rank);
    control->bytes += WRING_RANGE_BYTES;
    return true;
}

bool wring_ranges_next(struct wring_reader *reader, uint32_t ranks, struct wring_range *out)
{
    out->first = wring_read_u32(reader);
    out->last = wring_read_u32(reader);
    return !reader->failed && out->first <= out->last && out->last < ranks;
}
