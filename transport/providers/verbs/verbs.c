/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/providers.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/handshake.h"
#include "transport/providers/verbs/memory.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"

static void settings_read(const struct wring_config *config, struct verbs_settings *out)
{
    *out = (struct verbs_settings){
        .new_calls = strcmp(config->verbs_api, "classic") != 0,
        .classic_calls = strcmp(config->verbs_api, "new") != 0,
        .qps = (unsigned)config->verbs_qps,
        .stripe_bytes = config->verbs_stripe_bytes,
        .recover_ns = config->verbs_recover_ns,
        .revive_ns = config->verbs_revive_ns,
        .handshake_ns = config->join_timeout_ns,
        .inline_bytes = (uint32_t)config->verbs_inline_bytes,
        .timeout = (uint8_t)config->verbs_timeout,
        .retries = (uint8_t)config->verbs_retries,
        .rnr_retries = (uint8_t)config->verbs_rnr_retries,
        .sl = (uint8_t)config->verbs_sl,
        .tc = (uint8_t)config->verbs_tc,
    };
}

/* ---- async ---- */

/* Words of devices besides completions: notices that there are some, and events. */

#define NOTICES_AT_ONCE 32

void wring_verbs_rail_fail(struct verbs_rail *rail, const char *what)
{
    rail->up = false;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_path_fail(rail->slots[i].path, WRING_ERR_DEVICE, what);
}

/** Empty the channel and ask for the next notice; what there is to complete is polled for anyway */
static void rail_take_notices(struct verbs_rail *rail)
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
        wring_verbs_rail_fail(rail, "its completion queue gives no notices");
}

static void revive_rail(struct verbs_rail *rail)
{
    rail->up = true;
    for (uint32_t i = 0; i < rail->n_slots; i++)
        if (rail->slots[i].path != NULL)
            wring_verbs_paths_hope(rail->slots[i].path->conn, 1u << rail->slots[i].path->index);
}

static void fail_queue_pairs(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    for (uint32_t i = 0; i < rail->n_slots; i++) {
        struct verbs_path *path = rail->slots[i].path;
        int what = path != NULL ? __atomic_exchange_n(&path->news.failure, 0, __ATOMIC_RELAXED) : 0;
        if (what != 0)
            wring_verbs_path_fail(path, WRING_ERR_DEVICE,
                                  library->event_type_str((enum ibv_event_type)what));
    }
}

static void rail_take_news(struct verbs_rail *rail)
{
    const struct verbs_library *library = &rail->provider->library;
    struct verbs_news news;
    if (!wring_verbs_seat_news(&rail->seat, &news))
        return;
    wring_info(&rail->provider->log, "device %s port %d: %s", rail->choice.device,
               rail->choice.port, library->event_type_str(news.last));
    if (news.broken)
        wring_verbs_rail_fail(rail, library->event_type_str(news.broken_by));
    if (news.port_failed)
        wring_verbs_rail_fail(rail, library->event_type_str(IBV_EVENT_PORT_ERR));
    if (news.queue_pairs)
        fail_queue_pairs(rail);
    if (news.port_back)
        revive_rail(rail);
}

static void handle_device_events(struct verbs_provider *verbs)
{
    uint64_t rung;
    if (read(verbs->bell, &rung, sizeof(rung)) < 0 && errno != EAGAIN)
        wring_debug(&verbs->log, "the bell: %s", strerror(errno));
    for (unsigned i = 0; i < verbs->n_rails; i++)
        rail_take_news(&verbs->rails[i]);
}

/** Words of devices that were open when another provider read them come by the bell as well. */
static void rail_take_async(struct verbs_rail *rail)
{
    wring_verbs_seat_listen(&rail->seat);
    handle_device_events(rail->provider);
}

/* ---- progress ---- */

#define SERVICE_NS (2 * WRING_NS_PER_MS) /* of silence where something is owed: look at streams */
#define QUIET_NS (100 * WRING_NS_PER_MS) /* and of any silence */
#define POLLS_PER_CLOCK 16
#define EVENTS_AT_ONCE 32

/** A connection that came to nothing before anybody above knew of it goes without a word to
 *  them. */
static void service_meeting(struct verbs_provider *verbs)
{
    verbs->meeting = false;
    for (size_t i = verbs->n_conns; i-- > 0;) {
        struct verbs_conn *conn = verbs->conns[i];
        if (conn->state < VERBS_OPEN)
            wring_verbs_oob_service(conn);
        if (conn->state < VERBS_OPEN)
            verbs->meeting = true;
        if (conn->state == VERBS_DEAD && !conn->surfaced) {
            bool ordinary = conn->turned_away || conn->status == WRING_ERR_PEER; /* both dialled */
            wring_log_line(&verbs->log, ordinary ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
                           "a connection came to nothing: %s", conn->text);
            wring_verbs_remove_conn(verbs, conn);
        }
    }
}

static void service_watch(struct verbs_provider *verbs, const struct verbs_watch *watch)
{
    switch (watch->what) {
    case VERBS_WATCH_LISTENER:
        wring_verbs_accept(verbs);
        break;
    case VERBS_WATCH_OOB:
        wring_verbs_oob_service(watch->owner);
        break;
    case VERBS_WATCH_NOTICES:
        rail_take_notices(watch->owner);
        break;
    case VERBS_WATCH_ASYNC:
        rail_take_async(watch->owner);
        break;
    case VERBS_WATCH_BELL:
        handle_device_events(verbs);
        break;
    }
}

static void service_descriptors(struct verbs_provider *verbs)
{
    struct epoll_event ready[EVENTS_AT_ONCE];
    wring_verbs_listen_again(verbs);
    int n = epoll_wait(verbs->epoll, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        service_watch(verbs, ready[i].data.ptr);
    if (verbs->meeting || n > 0)
        service_meeting(verbs);
    verbs->last_service_ns = wring_now_ns();
    verbs->quiet_since_ns = verbs->last_service_ns;
}

/** Completions show that a peer lives and that the ports work; its stream can wait as long. */
static bool note_if_silent(struct verbs_conn *conn, uint64_t now)
{
    uint64_t looked_ns = wring_verbs_of(conn)->last_service_ns;
    bool owed = false;
    if (wring_verbs_is_agreeing(conn->state)) /* its words are awaited, whatever comes besides */
        return now - looked_ns >= SERVICE_NS;
    if (conn->completions != conn->completions_seen)
        conn->heard_ns = now;
    conn->completions_seen = conn->completions;
    for (unsigned i = 0; i < conn->n_paths && !owed; i++)
        owed = wring_verbs_path_is_owed(conn->paths[i]);
    return now - (conn->heard_ns > looked_ns ? conn->heard_ns : looked_ns) >=
           (owed ? SERVICE_NS : QUIET_NS);
}

/** All peers of the job are connected, by all their paths: nobody else is awaited. */
static bool is_job_connected(const struct verbs_provider *verbs)
{
    bool whole = verbs->job_size > 0 && verbs->n_conns + 1 >= verbs->job_size;
    for (size_t i = 0; i < verbs->n_conns && whole; i++)
        whole = verbs->conns[i]->dead == 0;
    return whole;
}

/**
 * A look at the descriptors is a system call. None is needed while every peer of the job is heard
 * of by completions. Otherwise there may be news that come no other way: of peers that are new or
 * gone, of ports that are back.
 */
static bool check_service_due(struct verbs_provider *verbs)
{
    if (verbs->meeting || verbs->sleep > 0)
        return true;
    if (++verbs->skipped < POLLS_PER_CLOCK)
        return false;
    uint64_t now = wring_now_ns();
    verbs->skipped = 0;
    if (verbs->completions_seen != verbs->counters.completions)
        verbs->quiet_since_ns = now;
    verbs->completions_seen = verbs->counters.completions;
    bool due = !is_job_connected(verbs) && (now - verbs->quiet_since_ns >= SERVICE_NS ||
                                            now - verbs->last_service_ns >= QUIET_NS);
    for (size_t i = 0; i < verbs->n_conns; i++)
        due |= note_if_silent(verbs->conns[i], now);
    return due;
}

/** Before a sleep nothing may be left: what is there already gives no notice. */
static void poll_rails(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < verbs->n_rails; i++)
        do
            wring_verbs_rail_poll(&verbs->rails[i]);
        while (verbs->sleep > 0 && !verbs->rails[i].drained);
}

static size_t verbs_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    size_t n = 0;

    if (check_service_due(verbs))
        service_descriptors(verbs);
    for (size_t i = 0; i < verbs->n_conns; i++)
        wring_verbs_conn_begin_poll(verbs->conns[i]);
    poll_rails(verbs);
    if (verbs->sleep > 0)
        verbs->sleep--;
    verbs->first++; /* take turns, so that no connection starves */
    for (size_t i = 0; i < verbs->n_conns && n < max; i++) {
        struct verbs_conn *conn = verbs->conns[(verbs->first + i) % verbs->n_conns];
        if (conn->surfaced)
            n += wring_verbs_conn_events(conn, events + n, max - n);
    }
    return n;
}

/* as wring_provider_ops has them */
static void verbs_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true;
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = verbs->epoll, .events = POLLIN};
    if (!verbs->is_listening && verbs->door.retry_ns != 0 &&
        verbs->door.retry_ns < set->deadline_ns)
        set->deadline_ns = verbs->door.retry_ns;
    verbs->sleep = VERBS_TO_SLEEP; /* the poll before it and the one after look at the streams */
    for (size_t i = 0; i < verbs->n_conns; i++) {
        wring_verbs_conn_begin_poll(verbs->conns[i]);
        if (wring_verbs_conn_arm(verbs->conns[i], &set->deadline_ns))
            set->busy = true;
    }
    for (unsigned i = 0; i < verbs->n_rails && verbs->n_conns > 0; i++)
        if (ibv_req_notify_cq(verbs->rails[i].cq, 0) != 0)
            set->busy = true;
}

/* ---- verbs ---- */

#define PUT_MAX ((size_t)1 << 31)

static enum wring_status open_memory(struct verbs_provider *verbs,
                                     const struct wring_config *config)
{
    struct verbs_memory_params params = {.library = &verbs->library,
                                         .log = &verbs->log,
                                         .config = config,
                                         .n_rails = verbs->n_rails};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        params.rails[i] = (struct verbs_memory_rail){
            verbs->rails[i].pd, verbs->rails[i].choice.device, verbs->rails[i].seat.adapter};
    return wring_verbs_memory_create(&params, &verbs->memory);
}

/** All rails that are chosen have to open. */
static enum wring_status open_rails(struct verbs_provider *verbs, const struct wring_config *config)
{
    struct verbs_choice choices[VERBS_RAILS_MAX];
    size_t n;
    enum wring_status status = wring_verbs_select(
        &verbs->library, config, (const struct sockaddr *)&verbs->bind, &verbs->log, choices, &n);
    verbs->put_max_bytes = PUT_MAX;
    for (unsigned i = 0; status == WRING_OK && i < n; i++) {
        struct verbs_rail *rail = &verbs->rails[verbs->n_rails++];
        *rail = (struct verbs_rail){.provider = verbs, .index = i, .choice = choices[i]};
        status = wring_verbs_rail_open(rail, config->key);
        if (rail->max_message < verbs->put_max_bytes)
            verbs->put_max_bytes = rail->max_message;
    }
    return status == WRING_OK ? open_memory(verbs, config) : status;
}

static void provider_close(struct wring_provider *base)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (verbs == NULL)
        return;
    while (verbs->n_conns > 0)
        wring_verbs_remove_conn(verbs, verbs->conns[0]);
    wring_verbs_flusher_destroy(verbs->flusher);
    wring_verbs_memory_destroy(verbs->memory);
    while (verbs->n_rails > 0)
        wring_verbs_rail_close(&verbs->rails[--verbs->n_rails]);
    wring_verbs_library_unload(&verbs->library);
    wring_descriptor_close(verbs->listener);
    wring_descriptor_close(verbs->bell);
    wring_descriptor_close(verbs->epoll);
    free(verbs->conns);
    explicit_bzero(verbs->secret, sizeof(verbs->secret));
    free(verbs);
}

/** By which other providers of this process tell of events of a device that they share. */
static bool hang_bell(struct verbs_provider *verbs)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->rings};
    verbs->rings = (struct verbs_watch){VERBS_WATCH_BELL, verbs};
    verbs->bell = WRING_DESCRIPTOR(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return verbs->bell >= 0 && epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, verbs->bell, &event) == 0;
}

static enum wring_status fill_provider(struct verbs_provider *verbs, const char *bind,
                                       const struct wring_config *config)
{
    char reason[VERBS_TEXT];
    enum wring_status status =
        wring_tcp_address_parse(&verbs->log, bind, &verbs->bind, &verbs->bind_bytes);
    if (status == WRING_OK)
        status = wring_ports_read(&verbs->log, config->ports, &verbs->ports);
    if (status != WRING_OK)
        return status;
    if (!wring_verbs_library_load(&verbs->library, reason, sizeof(reason))) {
        wring_error(&verbs->log, "%s", reason);
        return WRING_ERR_DEVICE;
    }
    verbs->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (verbs->epoll < 0) {
        wring_error(&verbs->log, "no epoll descriptor: %s", WRING_REFUSED("epoll_create1"));
        return WRING_ERR_SYSTEM;
    }
    if (!hang_bell(verbs)) {
        wring_error(&verbs->log, "no event descriptor: %s", WRING_REFUSED("eventfd"));
        return WRING_ERR_SYSTEM;
    }
    settings_read(config, &verbs->settings);
    return open_rails(verbs, config);
}

static enum wring_status provider_open(const struct wring_provider_params *params,
                                       struct wring_provider **out)
{
    struct wring_config defaults;
    const struct wring_config *config = params->config;
    if (config == NULL) {
        enum wring_status wrong = wring_config_defaults(&defaults, params->log);
        if (wrong != WRING_OK)
            return wrong;
        config = &defaults;
    }
    struct verbs_provider *verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL)
        return WRING_ERR_NO_MEMORY;
    verbs->base.ops = &wring_provider_verbs;
    verbs->listener = verbs->epoll = verbs->bell = -1;
    verbs->door.module = WRING_MODULE;
    verbs->job_size = params->size;
    if (params->log != NULL)
        verbs->log = *params->log;
    memcpy(verbs->secret, params->secret, sizeof(verbs->secret));
    enum wring_status status =
        fill_provider(verbs, params->bind != NULL ? params->bind : "127.0.0.1", config);
    if (status != WRING_OK) {
        provider_close(&verbs->base);
        return status;
    }
    *out = &verbs->base;
    return WRING_OK;
}

static void provider_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    const struct verbs_provider *verbs = (struct verbs_provider *)base;
    *out = (struct wring_provider_caps){
        .put_max_bytes = verbs->put_max_bytes,
        .put_depth = VERBS_PUTS,
        .put_acked = true,
        .host_regions = true,
        .dmabuf_regions = wring_verbs_memory_takes_dmabuf(verbs->memory),
        .device_regions = wring_verbs_memory_takes_addresses(verbs->memory),
    };
}

static enum wring_status region_create(struct wring_provider *base,
                                       const struct wring_memory *memory, struct wring_region **out)
{
    return wring_verbs_region_create(((struct verbs_provider *)base)->memory, base, memory, out);
}

static size_t region_export(struct wring_region *region, void *key)
{
    return wring_verbs_region_export(region, key);
}

static void memory_gone(struct wring_provider *base, const void *memory, size_t bytes)
{
    wring_verbs_memory_gone(((struct verbs_provider *)base)->memory, memory, bytes);
}

bool wring_verbs_counters_of(const struct wring_provider *provider,
                             struct wring_verbs_counters *out)
{
    if (provider->ops != &wring_provider_verbs)
        return false;
    const struct verbs_provider *verbs = (const struct verbs_provider *)provider;
    *out = verbs->counters;
    out->registrations = wring_verbs_memory_registrations(verbs->memory);
    return true;
}

const struct wring_provider_ops wring_provider_verbs = {
    .name = "verbs",
    .doc = "RDMA over InfiniBand or RoCE through libibverbs",
    .probe = wring_verbs_probe,
    .suits = wring_verbs_suits,
    .open = provider_open,
    .close = provider_close,
    .capabilities = provider_capabilities,
    .listen = wring_verbs_listen,
    .reaches = wring_verbs_reaches,
    .reach_kind = wring_verbs_reach_kind,
    .connect = wring_verbs_connect,
    .disconnect = wring_verbs_disconnect,
    .region_create = region_create,
    .region_destroy = wring_verbs_region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .region_flush = wring_verbs_region_flush,
    .memory_gone = memory_gone,
    .region_export = region_export,
    .remote_import = wring_verbs_remote_import,
    .remote_release = wring_verbs_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_verbs_put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = wring_verbs_send,
    .spoil = wring_unsupported_spoil,
    .poll = verbs_poll,
    .arm = verbs_arm,
};
