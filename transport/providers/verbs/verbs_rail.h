/* SPDX-License-Identifier: Apache-2.0 */
/** Rails: a device's port that this process uses, with one completion queue for all of it. */
#ifndef WRING_VERBS_RAIL_H
#define WRING_VERBS_RAIL_H

#include <wring/status.h>

#include "transport/providers/verbs/verbs_api.h"
#include "transport/providers/verbs/verbs_select.h"
#include "transport/providers/verbs/verbs_watch.h"

struct verbs_provider;

struct verbs_rail {
    struct verbs_provider *provider;
    unsigned index;
    struct verbs_choice choice;
    const struct verbs_api *api;
    bool inline_works;    /* with the calls of this API; soft-RoCE: not of ibv_wr_* */
    bool empty_poll_ends; /* see verbs_api.c */
    bool up;              /* as far as async events tell */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex; /* NULL with the classic API */
    uint32_t entries, max_entries, max_message;
    struct verbs_watch notices, async;
    bool drained;               /* the last look at its queue found nothing */
    uint32_t looks, empty_look; /* at its queue so far; the last one that found nothing more */

    struct verbs_slot {
        struct verbs_path *path; /* NULL: free */
        uint32_t generation;
    } * slots; /* [n_slots], grows */
    uint32_t n_slots, n_paths;
};

/** Open the device of rail->choice, its protection domain and completion queue. Logs. */
enum wring_status wring_verbs_rail_open(struct verbs_rail *rail);
void wring_verbs_rail_close(struct verbs_rail *rail); /* also one that is open in part */

/** Take a place in the rail's table and room in its completion queue; sets path->id. Logs. */
enum wring_status wring_verbs_rail_join(struct verbs_rail *rail, struct verbs_path *path);

/** What a path that is no more has left in the completion queue leads nowhere after this. */
void wring_verbs_rail_leave(struct verbs_rail *rail, struct verbs_path *path);

/** Take completions, a bounded number, and hand them to their paths. */
void wring_verbs_rail_poll(struct verbs_rail *rail);

/** Take all: what paths that are gone have left there takes up room. */
void wring_verbs_rail_empty(struct verbs_rail *rail);

/** Its device or port does not work: all paths on it fail. */
void wring_verbs_rail_fail(struct verbs_rail *rail, const char *what);

void wring_verbs_rail_take_notices(struct verbs_rail *rail);
void wring_verbs_rail_take_async(struct verbs_rail *rail);

#endif
