/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/departures.h"

#include <stdlib.h>

#include "base/clock.h"
#include "transport/control_link.h"
#include "transport/fates.h"

#define LEAST_NS (1 * WRING_NS_PER_MS)
#define MOST_NS (16 * WRING_NS_PER_MS)
#define RANGES_MAX ((WRING_CONTROL_BODY - WRING_CONTROL_LINK_HEAD) / WRING_RANGE_BYTES)

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

/* ---- words to neighbours ---- */

/** A message to a neighbour with ranks that have left. */
struct word {
    struct wring_control_link *link;
    uint32_t rank; /* our own */
    struct wring_control control;
};

static struct word begin_word(struct wring_control_link *link, uint32_t rank)
{
    return (struct word){link, rank, {.kind = WRING_CONTROL_LEFT}};
}

static void send_word(struct word *word)
{
    if (word->control.bytes > 0 || word->control.kind == WRING_CONTROL_BYE)
        wring_control_link_send(word->link, word->rank, word->link->rank, &word->control);
    word->control.bytes = 0;
}

/** In order of ranks. */
static void add_to_word(struct word *word, uint32_t rank)
{
    if (wring_ranges_add(&word->control, rank))
        return;
    send_word(word);
    wring_ranges_add(&word->control, rank);
}

/** Nothing more is in it. If we leave it is a good-bye, too: one answer is for both. */
static void end_word(struct word *word, bool leaving)
{
    word->control.a = leaving;
    if (leaving && word->control.bytes == 0)
        word->control.kind = WRING_CONTROL_BYE, word->control.a = 0;
    word->link->owed += leaving;
    send_word(word);
}

void wring_departures_tell(struct wring_departures *departures, struct wring_control_link *links,
                           uint32_t rank, bool leaving, uint64_t now_ns)
{
    if (departures->n == 0)
        return;
    wring_departures_sort(departures);
    for (struct wring_control_link *link = links; link != NULL; link = link->next) {
        if (!link->open || link->parting || (link->bye && !(link->up && leaving)))
            continue;
        struct word word = begin_word(link, rank);
        bool any = false;
        for (uint32_t i = 0; i < departures->n; i++) {
            const struct wring_departure *one = &departures->list[i];
            if (one->from == link->rank || one->rank == link->rank)
                continue;
            add_to_word(&word, one->rank);
            any = true;
        }
        if (any)
            end_word(&word, leaving);
    }
    wring_departures_told(departures, now_ns);
}

void wring_departures_introduce(const struct wring_fates *fates, struct wring_control_link *link,
                                bool leaving)
{
    struct word word = begin_word(link, fates->rank);

    for (uint32_t i = 0; i < fates->size; i++)
        if (fates->of[i] == WRING_FATE_LEFT && i != link->rank && i != fates->rank)
            add_to_word(&word, i);
    end_word(&word, leaving);
}

void wring_departures_say_bye(struct wring_control_link *link, uint32_t rank)
{
    struct word word = begin_word(link, rank);
    end_word(&word, true);
}
