/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/config.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/library.h"
#include "transport/providers/verbs/select.h"
#include "transport/providers/verbs/verbs.h"

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

static uint32_t first_cq_entries(const struct verbs_rail *rail)
{
    uint32_t peers = rail->provider->job_size > 1 ? rail->provider->job_size - 1 : 2;
    uint32_t entries = (peers < PEERS_FIRST ? peers : PEERS_FIRST) * rail->provider->settings.qps *
                       VERBS_ENTRIES_PER_PATH;
    return entries < rail->max_entries ? entries : rail->max_entries;
}

/** Does this way of making queue pairs work here? One is made and thrown away. */
static bool can_make_qp(struct verbs_rail *rail)
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
    if (!api->make_cq(rail, first_cq_entries(rail)))
        return false;
    if (can_make_qp(rail)) {
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

static bool open_channel(struct verbs_rail *rail)
{
    struct wring_stdio stdio;

    wring_stdio_fill(&stdio);
    rail->channel = rail->provider->library.create_comp_channel(rail->context);
    int saved = errno;
    wring_stdio_free(&stdio);
    errno = saved;
    return rail->channel != NULL && wring_descriptor_lend(rail->channel->fd);
}

static bool take_seat(struct verbs_rail *rail, const char *key)
{
    rail->seat = (struct verbs_seat){.port = rail->choice.port, .bell = rail->provider->bell};
    if (!wring_verbs_seat_take(rail->choice.device, key, &rail->seat))
        return false;
    rail->context = rail->seat.context;
    rail->pd = rail->seat.pd;
    return true;
}

/** Whoever looks first reads the device's events for all. Once for rails on one adapter. */
static bool watch_adapter(struct verbs_rail *rail)
{
    rail->watches_async = watch_fd(rail, rail->context->async_fd, &rail->async, VERBS_WATCH_ASYNC);
    return rail->watches_async || errno == EEXIST;
}

enum wring_status wring_verbs_rail_open(struct verbs_rail *rail, const char *key)
{
    struct verbs_provider *verbs = rail->provider;
    if (!take_seat(rail, key) || !read_limits(rail)) {
        wring_error(&verbs->log, "device %s cannot be opened: %s", rail->choice.device,
                    strerror(errno));
        return WRING_ERR_DEVICE;
    }
    if (!open_channel(rail) ||
        !watch_fd(rail, rail->channel->fd, &rail->notices, VERBS_WATCH_NOTICES) ||
        !watch_adapter(rail)) {
        wring_error(&verbs->log, "no completion channel on %s: %s", rail->choice.device,
                    strerror(errno));
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
        library->destroy_comp_channel(rail->channel);
    }
    if (rail->watches_async) /* others may go on with it */
        epoll_ctl(rail->provider->epoll, EPOLL_CTL_DEL, rail->context->async_fd, NULL);
    wring_verbs_seat_leave(&rail->seat);
    free(rail->slots);
}

/* ---- queue ---- */

/*
 * A rail's completion queue serves all paths on it. The id of a request tells whose it is:
 *
 *     bit   63        62..44       43..32             31..0
 *           receive   slot         generation         position in the path's ring
 *
 * What a path leaves behind there when it goes has an old generation, and leads nowhere.
 */

#define SLOT_SHIFT 44
#define SLOTS_MAX (1u << 19)
#define GENERATION_SHIFT 32
#define GENERATION_MASK 0xfffu
#define TAKEN_AT_ONCE 64 /* completions per poll */

static struct verbs_path *path_of_request(const struct verbs_rail *rail, uint64_t id)
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
            struct verbs_path *path = path_of_request(rail, found[i].id);
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

/* ---- pick ---- */

/* From the settings and what there is to the rails to open, or to show. */

#define LIST_TEXT 1024

/** @param bound  [16], to be kept as long as the wish; NULL: nothing is bound */
static struct verbs_wish wish_of(const struct wring_config *config, const uint8_t *bound)
{
    if (config == NULL)
        return (struct verbs_wish){
            .devices = "", .rails = 4, .gid_index = -1, .pkey = 0xffff, .bound = bound};
    return (struct verbs_wish){
        .devices = config->verbs_devices,
        .rails = (unsigned)config->verbs_rails,
        .gid_index = (int)config->verbs_gid_index,
        .pkey = (uint16_t)config->verbs_pkey,
        .mtu = (uint32_t)strtoul(config->verbs_mtu, NULL, 10),
        .bound = bound,
    };
}

/** "dev:port: why", all of them. @param text out, [LIST_TEXT] */
static void list_reasons(const struct verbs_table *table, char (*why)[VERBS_WHY], char *text)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < table->n && n < LIST_TEXT; i++)
        n += (size_t)snprintf(text + n, LIST_TEXT - n, "%s%s:%u: %s", i > 0 ? "; " : "",
                              table->ports[i].device, table->ports[i].number, why[i]);
}

static bool is_chosen(const struct verbs_choice *choices, size_t n, const struct verbs_port *port)
{
    for (size_t i = 0; i < n; i++)
        if (choices[i].port == port->number && strcmp(choices[i].device, port->device) == 0)
            return true;
    return false;
}

/** A port that was named and is not used is worth a warning, one that nobody named is not. */
static void log_choice(const struct wring_log *log, const struct verbs_table *table,
                       const struct verbs_wish *wish, const struct verbs_choice *choices, size_t n,
                       char (*why)[VERBS_WHY])
{
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    for (size_t i = 0; i < table->n; i++) {
        const struct verbs_port *port = &table->ports[i];
        if (is_chosen(choices, n, port))
            wring_info(log, "rail %s:%u, %s, %g Gbit/s, MTU %u: %s", port->device, port->number,
                       wring_verbs_link_text(port->link), port->mbit / 1e3, port->mtu, why[i]);
        else if (named && wring_verbs_match(wish->devices, port->device, port->number) >= 0)
            wring_warn(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
        else
            wring_info(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
    }
}

static enum wring_status choose_and_log(const struct verbs_table *table,
                                        const struct verbs_wish *wish, const struct wring_log *log,
                                        struct verbs_choice *out, size_t *n)
{
    char text[LIST_TEXT];
    char(*why)[VERBS_WHY] = calloc(table->n, sizeof(*why));
    if (why == NULL)
        return WRING_ERR_NO_MEMORY;
    size_t chosen = wring_verbs_choose(table, wish, out, why);
    if (wring_verbs_unmatched(wish->devices, table, text, sizeof(text)))
        wring_warn(log, "WRING_VERBS_DEVICES=%s: there is no %s", wish->devices, text);
    if (chosen > 0) {
        log_choice(log, table, wish, out, chosen, why);
        *n = chosen;
    } else {
        list_reasons(table, why, text);
        wring_error(log, "no RDMA device can be used: %s", text);
    }
    free(why);
    return chosen > 0 ? WRING_OK : WRING_ERR_DEVICE;
}

enum wring_status wring_verbs_select(const struct verbs_library *library,
                                     const struct wring_config *config,
                                     const struct sockaddr *bound, const struct wring_log *log,
                                     struct verbs_choice *out, size_t *n)
{
    uint8_t gid[16];
    char reason[VERBS_WHY];
    struct verbs_table table;
    bool has_bound = bound != NULL && wring_verbs_gid_of(bound, gid);
    const struct verbs_wish wish = wish_of(config, has_bound ? gid : NULL);

    const char *fault = wring_verbs_list_fault(wish.devices);
    if (fault != NULL) {
        wring_error(log, "WRING_VERBS_DEVICES=%s: %s", wish.devices, fault);
        return WRING_ERR_INVALID;
    }
    if (!wring_verbs_table_read(library, &wring_verbs_opened, false, &table, reason,
                                sizeof(reason))) {
        wring_error(log, "%s", reason);
        return WRING_ERR_DEVICE;
    }
    enum wring_status status = choose_and_log(&table, &wish, log, out, n);
    wring_verbs_table_free(&table);
    return status;
}

/** An address as a GID. @return false where the text is none, but a name or nothing */
static bool parse_bound_gid(const char *text, uint8_t *gid)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return wring_verbs_gid_of((const struct sockaddr *)&v4, gid);
    return inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 &&
           wring_verbs_gid_of((const struct sockaddr *)&v6, gid);
}

/** The rails that would be chosen from a table that was read. @return false without memory */
static bool choose_for_survey(const struct wring_config *config, struct verbs_survey *survey)
{
    uint8_t bound[16], *has_bound = parse_bound_gid(config->bind, bound) ? bound : NULL;
    const struct verbs_wish wish = wish_of(config, has_bound);
    const char *fault = wring_verbs_list_fault(wish.devices);
    survey->why = calloc(survey->table.n, sizeof(*survey->why));
    if (survey->why == NULL)
        return false;
    wring_verbs_unmatched(wish.devices, &survey->table, survey->unmatched,
                          sizeof(survey->unmatched));
    if (fault == NULL)
        survey->n_rails = wring_verbs_choose(&survey->table, &wish, survey->rails, survey->why);
    for (size_t i = 0; fault != NULL && i < survey->table.n; i++)
        snprintf(survey->why[i], VERBS_WHY, "WRING_VERBS_DEVICES: %s", fault);
    return true;
}

void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out)
{
    struct verbs_library library = {0};
    *out = (struct verbs_survey){0};
    if (wring_verbs_library_load(&library, out->reason, sizeof(out->reason)) &&
        wring_verbs_table_read(&library, NULL, true, &out->table, out->reason,
                               sizeof(out->reason)) &&
        !choose_for_survey(config, out)) {
        wring_verbs_table_free(&out->table);
        snprintf(out->reason, sizeof(out->reason), "out of memory");
    }
    wring_verbs_library_unload(&library);
}

/** @return how many rails would be chosen; 0, and why, where it is none */
static size_t choose_without_log(const struct verbs_library *library, const struct verbs_wish *wish,
                                 struct verbs_choice *rails, char *reason, size_t bytes)
{
    char text[LIST_TEXT] = "out of memory";
    struct verbs_table table;
    size_t n = 0;
    if (!wring_verbs_table_read(library, &wring_verbs_opened, false, &table, reason, bytes))
        return 0;
    char(*why)[VERBS_WHY] = calloc(table.n, sizeof(*why));
    if (why != NULL) {
        n = wring_verbs_choose(&table, wish, rails, why);
        list_reasons(&table, why, text);
    }
    if (n == 0)
        snprintf(reason, bytes, "%s", text);
    free(why);
    wring_verbs_table_free(&table);
    return n;
}

enum wring_status wring_verbs_probe(char *reason, size_t bytes)
{
    struct verbs_library library = {0};
    struct verbs_choice rails[VERBS_RAILS_MAX];
    const struct verbs_wish wish = wish_of(NULL, NULL);
    size_t n = 0;
    if (wring_verbs_library_load(&library, reason, bytes))
        n = choose_without_log(&library, &wish, rails, reason, bytes);
    wring_verbs_library_unload(&library);
    return n > 0 ? WRING_OK : WRING_ERR_UNSUPPORTED;
}

/** Would auto do well with these rails? */
static bool are_rails_suited(const struct verbs_library *library, const struct verbs_wish *wish,
                             const struct verbs_choice *rails, size_t n, char *reason, size_t bytes)
{
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    for (size_t i = 0; i < n; i++) {
        if (rails[i].vendor == VERBS_VENDOR_SOFT && !named) {
            snprintf(reason, bytes,
                     "%s is soft-RoCE, slower than tcp (WRING_VERBS_DEVICES names it)",
                     rails[i].device);
            return false;
        }
        if (!wring_verbs_may_lock(library, rails[i].device, reason, bytes))
            return false;
    }
    return n > 0;
}

enum wring_status wring_verbs_suits(const struct wring_config *config, char *reason, size_t bytes)
{
    struct verbs_library library = {0};
    struct verbs_choice rails[VERBS_RAILS_MAX];
    const struct verbs_wish wish = wish_of(config, NULL);
    const char *fault = wring_verbs_list_fault(wish.devices);
    bool good = false;
    if (fault != NULL)
        snprintf(reason, bytes, "WRING_VERBS_DEVICES=%s: %s", wish.devices, fault);
    else if (wring_verbs_library_load(&library, reason, bytes))
        good = are_rails_suited(&library, &wish, rails,
                                choose_without_log(&library, &wish, rails, reason, bytes), reason,
                                bytes);
    wring_verbs_library_unload(&library);
    return good ? WRING_OK : WRING_ERR_UNSUPPORTED;
}
