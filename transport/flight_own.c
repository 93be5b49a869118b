/* SPDX-License-Identifier: Apache-2.0 */
/* Where this rank is: what it has posted last, and whether that has ended. */
#include <inttypes.h>
#include <stdio.h>

#include "transport/collective/collective.h"
#include "transport/flight.h"
#include "transport/pairs.h"

#define WORLD_GENERATION 1 /* of the group of all ranks */
#define RANKS_NAMED 3
#define SPREAD 0x9E3779B97F4A7C15u /* odd: generations of a key have names of their own */

uint64_t wring_flight_group(const struct wring_pairs *pairs)
{
    if (pairs->generation == 0)
        return 0;
    uint64_t name = wring_get_u64(pairs->key.bytes) ^ pairs->generation * SPREAD;
    return name != 0 ? name : 1;
}

void wring_flight_list(struct wring_collective *collective)
{
    if (collective->engine == NULL || collective->link != NULL)
        return;
    collective->link = &collective->engine->listed;
    collective->next_listed = collective->engine->listed;
    if (collective->next_listed != NULL)
        collective->next_listed->link = &collective->next_listed;
    collective->engine->listed = collective;
}

void wring_flight_unlist(struct wring_collective *collective)
{
    if (collective->link == NULL)
        return;
    *collective->link = collective->next_listed;
    if (collective->next_listed != NULL)
        collective->next_listed->link = collective->link;
    collective->next_listed = NULL;
    collective->link = NULL;
}

/** Calls of groups, and buckets but for their legs. */
static bool counts(const struct wring_collective *collective, const struct wring_cease *cease)
{
    return collective->whole == NULL && collective->cease != NULL &&
           (cease == NULL || collective->cease == cease) &&
           (collective->calls != NULL || collective->name != NULL);
}

static enum wring_status status_of(const struct wring_collective *collective)
{
    return (enum wring_status)atomic_load_explicit(&collective->status, memory_order_acquire);
}

/** How many calls or steps were begun. Those past the engine are counted by what they showed. */
static uint64_t begun(const struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;
    if (collective->calls != NULL)
        return collective->calls->begun;
    if (mapped == NULL || mapped->n_others == 0)
        return collective->begun;
    return atomic_load_explicit(&mapped->puts, memory_order_relaxed) / mapped->n_others;
}

/** What is under way: the most urgent of it, and of that the oldest. NULL: nothing is */
static const struct wring_collective *find_waiting(const struct wring_engine *engine,
                                                   const struct wring_cease *cease)
{
    for (const struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        const struct wring_collective *whole = at->whole != NULL ? at->whole : at;
        if (counts(whole, cease))
            return whole;
    }
    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (counts(at, cease) && status_of(at) == WRING_ERR_AGAIN)
            return at;
    return NULL;
}

/** When it ended, among all that the engine ran. What goes past the engine has no such number, and
 *  is written by whoever waits for it. */
static uint64_t ended_at(const struct wring_collective *collective)
{
    return collective->mapped == NULL ? collective->ended : 0;
}

/** What was posted last. NULL: nothing was */
static const struct wring_collective *find_ended(const struct wring_engine *engine,
                                                 const struct wring_cease *cease)
{
    const struct wring_collective *last = NULL;

    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (counts(at, cease) && begun(at) > 0 &&
            (last == NULL || ended_at(at) > ended_at(last) ||
             (ended_at(at) == ended_at(last) && begun(at) > begun(last))))
            last = at;
    return last;
}

static const struct wring_pairs *find_group(const struct wring_engine *engine, uint64_t group)
{
    const struct wring_pairs *at = engine->pairs;
    while (at != NULL && wring_flight_group(at) != group)
        at = at->next;
    return at;
}

static const struct wring_pairs *group_of(const struct wring_engine *engine,
                                          const struct wring_collective *collective)
{
    const struct wring_pairs *at = engine->pairs;
    while (at != NULL && at->cease != collective->cease)
        at = at->next;
    return at;
}

static uint64_t all_begun(const struct wring_engine *engine, const struct wring_cease *cease)
{
    uint64_t all = 0;
    for (const struct wring_collective *at = engine->listed; at != NULL; at = at->next_listed)
        if (counts(at, cease))
            all += begun(at);
    return all;
}

/* ---- in words ---- */

/** "all 4 ranks", "the group of ranks 0, 2, 5" */
static void name_group(const struct wring_collective *collective, uint64_t generation, char *text,
                       size_t bytes)
{
    const struct wring_members *members = &collective->members;
    size_t at;

    if (generation == WORLD_GENERATION) {
        snprintf(text, bytes, "all %" PRIu32 " ranks", members->n);
        return;
    }
    at = (size_t)snprintf(text, bytes, "the group of ranks");
    for (uint32_t i = 0; i < members->n && i < RANKS_NAMED && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s %" PRIu32, i > 0 ? "," : "",
                               members->ranks[i]);
    if (members->n > RANKS_NAMED && at < bytes)
        snprintf(text + at, bytes - at, " and %" PRIu32 " more", members->n - RANKS_NAMED);
}

/** " (4000 bytes)" of one member's contribution, where that is known. */
static void name_bytes(const struct wring_op_check *call, char *text, size_t bytes)
{
    uint64_t each = call->kind == WRING_CALL_BROADCAST ? 1 : wring_dtype_bytes(call->dtype);

    text[0] = '\0';
    if (call->kind != WRING_CALL_BARRIER && call->kind != WRING_CALL_ALLTOALLV && each > 1)
        snprintf(text, bytes, " (%" PRIu64 " bytes)", call->elems * each);
}

static void name_call(const struct wring_collective *collective, const char *group, char *text,
                      size_t bytes)
{
    const struct wring_calls *calls = collective->calls;
    const struct wring_op_check *call = &calls->kept[(calls->begun - 1) % WRING_CALLS_KEPT].call;
    char what[WRING_CALL_TEXT], size[32];

    wring_call_describe(call, what);
    name_bytes(call, size, sizeof(size));
    snprintf(text, bytes, "call %" PRIu64 " of %.54s, %.54s%s", calls->begun, group, what, size);
}

static void name_step(const struct wring_collective *collective, const char *group, char *text,
                      size_t bytes)
{
    const struct wring_geometry *geometry = &collective->work.geometry;
    char name[WRING_TEXT_SHORT];

    snprintf(text, bytes, "step %" PRIu64 " of bucket '%s' of %s (%" PRIu64 " bytes)",
             begun(collective), wring_text_short(collective->name, name), group,
             geometry->elems * geometry->elem_bytes);
}

static uint32_t waited_ms(const struct wring_collective *collective)
{
    uint64_t now_ns = wring_now_ns();
    if (collective->mapped != NULL || collective->started_ns == 0 ||
        collective->started_ns > now_ns)
        return 0;
    uint64_t ms = (now_ns - collective->started_ns) / WRING_NS_PER_MS;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void fill_row(const struct wring_engine *engine, const struct wring_pairs *group,
                     const struct wring_collective *collective, struct wring_flight_row *row)
{
    char name[WRING_TEXT_SHORT];
    enum wring_status status = status_of(collective);

    row->group = wring_flight_group(group);
    row->posted = all_begun(engine, group->cease);
    name_group(collective, group->generation, name, sizeof(name));
    if (begun(collective) == 0)
        return; /* it is posted, and ends before it begins */
    row->state = status == WRING_ERR_AGAIN       ? WRING_FLIGHT_WAITS
                 : status == WRING_ERR_CANCELLED ? WRING_FLIGHT_ABORTED
                                                 : WRING_FLIGHT_ENDED;
    row->waited_ms = row->state == WRING_FLIGHT_WAITS ? waited_ms(collective) : 0;
    if (collective->calls != NULL)
        name_call(collective, name, row->text, sizeof(row->text));
    else
        name_step(collective, name, row->text, sizeof(row->text));
}

void wring_flight_describe(const struct wring_engine *engine, uint64_t group,
                           struct wring_flight_row *row)
{
    const struct wring_pairs *pairs = group != 0 ? find_group(engine, group) : NULL;
    const struct wring_cease *cease = pairs != NULL ? pairs->cease : NULL;

    *row = (struct wring_flight_row){.state = WRING_FLIGHT_NOTHING, .group = group};
    if (group != 0 && pairs == NULL) {
        row->state = WRING_FLIGHT_STRANGER;
        return;
    }
    const struct wring_collective *collective = find_waiting(engine, cease);
    if (collective == NULL)
        collective = find_ended(engine, cease);
    if (collective != NULL)
        pairs = group_of(engine, collective);
    if (collective != NULL && pairs != NULL)
        fill_row(engine, pairs, collective, row);
}
