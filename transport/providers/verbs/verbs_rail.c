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
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_query.h"

#define WRING_MODULE "verbs"
#define SLOT_SHIFT 44
#define SLOTS_MAX (1u << 19)
#define GENERATION_SHIFT 32
#define GENERATION_MASK 0xfffu
#define ENTRIES_PER_PATH (VERBS_REQUESTS + VERBS_RECEIVES)
#define PEERS_FIRST 16   /* peers to have room for from the start, at most */
#define TAKEN_AT_ONCE 64 /* completions per poll */
#define NOTICES_AT_ONCE 32
#define VENDOR_RXE                                                                \
    0xffffffu /* soft-RoCE: inline data of ibv_wr_* completes with an error there \
               */

static struct verbs_path *path_of(const struct verbs_rail *rail, uint64_t id)
{
    uint32_t slot = (uint32_t)((id & ~VERBS_RECEIVE_ID) >> SLOT_SHIFT);
    uint32_t generation = (uint32_t)(id >> GENERATION_SHIFT) & GENERATION_MASK;
    if (slot >= rail->n_slots || rail->slots[slot].generation != generation)
        return NULL;
    return rail->slots[slot].path;
}

static bool watch_fd(struct verbs_rail *rail, int fd, struct verbs_watch *watch,
                     enum verbs_watched what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    *watch = (struct verbs_watch){what, rail};
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
           epoll_ctl(rail->provider->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static uint32_t entries_first(const struct verbs_rail *rail)
{
    uint32_t peers = rail->provider->job_size > 1 ? rail->provider->job_size - 1 : 2;
    uint32_t entries = (peers < PEERS_FIRST ? peers : PEERS_FIRST) * rail->provider->settings.qps *
                       ENTRIES_PER_PATH;
    return entries < rail->max_entries ? entries : rail->max_entries;
}

/** Does this way of making queue pairs work here? One is made and thrown away. */
static bool makes_qp(struct verbs_rail *rail)
{
    struct verbs_path path = {.rail = rail};
    struct ibv_qp_init_attr init = {
        .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC, .send_cq = rail->cq, .recv_cq = rail->cq};
    if (!rail->api->make_qp(&path, &init))
        return false;
    rail->provider->library.destroy_qp(path.qp);
    return true;
}

static bool try_api(struct verbs_rail *rail, const struct verbs_api *api)
{
    rail->api = api;
    if (!api->make_cq(rail, entries_first(rail)))
        return false;
    if (makes_qp(rail)) {
        rail->entries = (uint32_t)rail->cq->cqe;
        rail->empty_poll_ends = rail->choice.vendor == VENDOR_RXE;
        rail->inline_works = api != &wring_verbs_api_new || rail->choice.vendor != VENDOR_RXE;
        return true;
    }
    rail->provider->library.destroy_cq(rail->cq);
    rail->cq = NULL;
    rail->cq_ex = NULL;
    return false;
}

/** The new calls where they work; with soft-RoCE the older ones, which can send inline: 1 us less.
 */
static enum wring_status open_queue(struct verbs_rail *rail)
{
    const struct verbs_settings *settings = &rail->provider->settings;
    bool inline_first = settings->classic_calls && rail->choice.vendor == VENDOR_RXE;
    if (settings->new_calls && !inline_first && try_api(rail, &wring_verbs_api_new))
        return WRING_OK;
    if (settings->classic_calls && try_api(rail, &wring_verbs_api_classic))
        return WRING_OK;
    wring_error(&rail->provider->log, "no queues on %s: %s%s", rail->choice.device, strerror(errno),
                settings->classic_calls ? "" : "; WRING_VERBS_API=auto tries the older calls too");
    return WRING_ERR_DEVICE;
}

static bool read_limits(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct ibv_device_attr device;
    struct ibv_port_attr port = {0}; /* the symbol fills in the older part only */
    if (library->query_device(rail->context, &device) != 0 ||
        library->query_port(rail->context, rail->choice.port,
                            (struct _compat_ibv_port_attr *)&port) != 0)
        return false;
    rail->max_entries = (uint32_t)device.max_cqe;
    rail->max_message = port.max_msg_sz;
    return true;
}

enum wring_status wring_verbs_rail_open(struct verbs_rail *rail)
{
    struct verbs_provider *verbs = rail->provider;
    const struct verbs_library *library = &verbs->library;
    rail->context = wring_verbs_open_named(library, rail->choice.device);
    if (rail->context == NULL || !read_limits(rail)) {
        wring_error(&verbs->log, "device %s cannot be opened: %s", rail->choice.device,
                    strerror(errno));
        return WRING_ERR_DEVICE;
    }
    rail->pd = library->alloc_pd(rail->context);
    rail->channel = library->create_comp_channel(rail->context);
    if (rail->pd == NULL || rail->channel == NULL ||
        !watch_fd(rail, rail->channel->fd, &rail->notices, VERBS_WATCH_NOTICES) ||
        !watch_fd(rail, rail->context->async_fd, &rail->async, VERBS_WATCH_ASYNC)) {
        wring_error(&verbs->log, "no protection domain or completion channel on %s: %s",
                    rail->choice.device, strerror(errno));
        return WRING_ERR_DEVICE;
    }
    rail->up = true;
    enum wring_status status = open_queue(rail);
    if (status == WRING_OK)
        wring_debug(&verbs->log, "rail %u: %s port %u, %s calls, %u completions", rail->index,
                    rail->choice.device, rail->choice.port, rail->api->name, rail->entries);
    return status;
}

void wring_verbs_rail_close(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    if (rail->cq != NULL)
        library->destroy_cq(rail->cq);
    if (rail->channel != NULL)
        library->destroy_comp_channel(rail->channel);
    if (rail->pd != NULL)
        library->dealloc_pd(rail->pd);
    if (rail->context != NULL)
        library->close_device(rail->context);
    free(rail->slots);
}

/** Room for one more path's completions. */
static enum wring_status grow_queue(struct verbs_rail *rail)
{
    struct verbs_provider *verbs = rail->provider;
    uint32_t need = (rail->n_paths + 1) * ENTRIES_PER_PATH;
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

static void fail_rail(struct verbs_rail *rail, const char *what)
{
    rail->up = false;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_path_fail(rail->slots[i].path, WRING_ERR_DEVICE, what);
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
        fail_rail(rail, "its completion queue failed");
}

void wring_verbs_rail_empty(struct verbs_rail *rail)
{
    do
        wring_verbs_rail_poll(rail);
    while (!rail->drained);
}

/** Empty the channel and ask for the next notice; what there is to complete is polled for anyway */
void wring_verbs_rail_take_notices(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct ibv_cq *cq;
    void *context;
    unsigned taken = 0;
    while (taken < NOTICES_AT_ONCE && library->get_cq_event(rail->channel, &cq, &context) == 0)
        taken++;
    if (taken == 0)
        return;
    library->ack_cq_events(rail->cq, taken);
    if (rail->provider->sleep == VERBS_TO_SLEEP && ibv_req_notify_cq(rail->cq, 0) != 0)
        fail_rail(rail, "its completion queue gives no notices");
}

static void revive_rail(struct verbs_rail *rail)
{
    rail->up = true;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_resync_port_back(rail->slots[i].path);
}

static void fail_queue(struct verbs_rail *rail, const struct ibv_qp *qp, const char *what)
{
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL && rail->slots[i].path->qp == qp)
            wring_verbs_path_fail(rail->slots[i].path, WRING_ERR_DEVICE, what);
}

void wring_verbs_rail_take_async(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct ibv_async_event event;
    if (library->get_async_event(rail->context, &event) != 0)
        return;
    const char *what = library->event_type_str(event.event_type);
    bool ours = event.element.port_num == rail->choice.port;
    switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR: /* the completion queues are too large for this to happen */
        fail_rail(rail, what);
        break;
    case IBV_EVENT_PORT_ERR:
        if (ours)
            fail_rail(rail, what);
        break;
    case IBV_EVENT_PORT_ACTIVE:
        if (ours)
            revive_rail(rail);
        wring_info(&rail->provider->log, "device %s port %d: %s", rail->choice.device,
                   event.element.port_num, what);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        fail_queue(rail, event.element.qp, what);
        break;
    default: /* addresses and keys that change, path migration: nothing that we use */
        wring_debug(&rail->provider->log, "device %s: %s", rail->choice.device, what);
        break;
    }
    library->ack_async_event(&event);
}
