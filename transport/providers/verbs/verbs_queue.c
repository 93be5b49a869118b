/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A rail's completion queue serves all paths on it. The id of a request tells whose it is:
 *
 *     bit   63        62..44       43..32             31..0
 *           receive   slot         generation         position in the path's ring
 *
 * What a path leaves behind there when it goes has an old generation, and leads nowhere.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_complete.h"

#define WRING_MODULE "verbs"
#define SLOT_SHIFT 44
#define SLOTS_MAX (1u << 19)
#define GENERATION_SHIFT 32
#define GENERATION_MASK 0xfffu
#define TAKEN_AT_ONCE 64 /* completions per poll */

static struct verbs_path *path_of(const struct verbs_rail *rail, uint64_t id)
{
    uint32_t slot = (uint32_t)((id & ~VERBS_RECEIVE_ID) >> SLOT_SHIFT);
    uint32_t generation = (uint32_t)(id >> GENERATION_SHIFT) & GENERATION_MASK;
    if (slot >= rail->n_slots || rail->slots[slot].generation != generation)
        return NULL;
    return rail->slots[slot].path;
}

/** Room for one more path's completions. */
static enum wring_status grow_queue(struct verbs_rail *rail)
{
    struct verbs_provider *verbs = rail->provider;
    uint32_t need = (rail->n_paths + 1) * VERBS_ENTRIES_PER_PATH;
    if (need <= rail->entries)
        return WRING_OK;
    uint32_t wish = 2 * need < rail->max_entries ? 2 * need : rail->max_entries;
    int error = need <= rail->max_entries ? verbs->library.resize_cq(rail->cq, (int)wish) : ENOSPC;
    if (error == 0) {
        rail->entries = (uint32_t)rail->cq->cqe;
        return WRING_OK;
    }
    wring_error(&verbs->log,
                "device %s has no room for the completions of %u queue pairs (%u entries, at most "
                "%u): %s; lower WRING_VERBS_QPS",
                rail->choice.device, rail->n_paths + 1, need, rail->max_entries, strerror(error));
    return WRING_ERR_DEVICE;
}

static enum wring_status grow_slots(struct verbs_rail *rail)
{
    uint32_t grown = 2 * rail->n_slots + 16;
    struct verbs_slot *slots =
        grown <= SLOTS_MAX ? realloc(rail->slots, grown * sizeof(slots[0])) : NULL;
    if (slots == NULL)
        return WRING_ERR_NO_MEMORY;
    memset(slots + rail->n_slots, 0, (grown - rail->n_slots) * sizeof(slots[0]));
    rail->slots = slots;
    rail->n_slots = grown;
    return WRING_OK;
}

enum wring_status wring_verbs_rail_join(struct verbs_rail *rail, struct verbs_path *path)
{
    enum wring_status status = grow_queue(rail);
    if (status == WRING_OK && rail->n_paths == rail->n_slots)
        status = grow_slots(rail);
    if (status != WRING_OK)
        return status;
    uint32_t at = 0;
    while (rail->slots[at].path != NULL)
        at++;
    rail->slots[at].path = path;
    rail->n_paths++;
    path->joined = true;
    path->id = (uint64_t)at << SLOT_SHIFT | (uint64_t)rail->slots[at].generation
                                                << GENERATION_SHIFT;
    return WRING_OK;
}

void wring_verbs_rail_leave(struct verbs_rail *rail, struct verbs_path *path)
{
    if (!path->joined)
        return;
    path->joined = false;
    struct verbs_slot *slot = &rail->slots[path->id >> SLOT_SHIFT];
    slot->path = NULL;
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    rail->n_paths--;
}

void wring_verbs_rail_poll(struct verbs_rail *rail)
{
    struct verbs_completion found[VERBS_BATCH];
    int n = VERBS_BATCH;
    for (unsigned taken = 0; taken < TAKEN_AT_ONCE && n == VERBS_BATCH; taken += VERBS_BATCH) {
        uint32_t look = ++rail->looks;
        n = rail->api->take(rail, found, VERBS_BATCH);
        rail->empty_look = n < VERBS_BATCH ? look : rail->empty_look;
        for (int i = 0; i < n; i++) {
            struct verbs_path *path = path_of(rail, found[i].id);
            if (path != NULL)
                wring_verbs_path_complete(path, &found[i]);
        }
        rail->provider->counters.completions += n > 0 ? (unsigned)n : 0;
    }
    rail->drained = n < VERBS_BATCH;
    if (n < 0)
        wring_verbs_rail_fail(rail, "its completion queue failed");
}

void wring_verbs_rail_empty(struct verbs_rail *rail)
{
    do
        wring_verbs_rail_poll(rail);
    while (!rail->drained);
}
