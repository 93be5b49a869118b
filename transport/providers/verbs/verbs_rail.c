/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_rail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/descriptor.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_query.h"

#define WRING_MODULE "verbs"
#define PEERS_FIRST 16 /* peers to have room for from the start, at most */

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
                       VERBS_ENTRIES_PER_PATH;
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
        rail->empty_poll_ends = rail->choice.vendor == VERBS_VENDOR_SOFT;
        rail->inline_works =
            api != &wring_verbs_api_new || rail->choice.vendor != VERBS_VENDOR_SOFT;
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
    bool inline_first = settings->classic_calls && rail->choice.vendor == VERBS_VENDOR_SOFT;
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

/** The library's own descriptors: above 2 as ours, and no child is to keep the device in use. */
static bool lend_descriptors(const struct verbs_rail *rail)
{
    return wring_descriptor_lend(rail->context->cmd_fd) &&
           wring_descriptor_lend(rail->context->async_fd) &&
           wring_descriptor_lend(rail->channel->fd);
}

static void open_context(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct wring_stdio stdio;

    wring_stdio_fill(&stdio);
    rail->context = wring_verbs_open_named(library, rail->choice.device);
    if (rail->context != NULL)
        rail->channel = library->create_comp_channel(rail->context);
    int saved = errno;
    wring_stdio_free(&stdio);
    errno = saved;
}

enum wring_status wring_verbs_rail_open(struct verbs_rail *rail)
{
    struct verbs_provider *verbs = rail->provider;
    const struct verbs_library *library = &verbs->library;
    open_context(rail);
    if (rail->context == NULL || !read_limits(rail)) {
        wring_error(&verbs->log, "device %s cannot be opened: %s", rail->choice.device,
                    strerror(errno));
        return WRING_ERR_DEVICE;
    }
    rail->pd = library->alloc_pd(rail->context);
    if (rail->pd == NULL || rail->channel == NULL || !lend_descriptors(rail) ||
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
    if (rail->channel != NULL) {
        wring_descriptor_take_back(rail->channel->fd);
        wring_descriptor_take_back(rail->context->async_fd);
        wring_descriptor_take_back(rail->context->cmd_fd);
    }
    if (rail->channel != NULL)
        library->destroy_comp_channel(rail->channel);
    if (rail->pd != NULL)
        library->dealloc_pd(rail->pd);
    if (rail->context != NULL)
        library->close_device(rail->context);
    free(rail->slots);
}
