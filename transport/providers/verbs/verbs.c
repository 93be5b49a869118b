/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/providers/providers.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/verbs_query.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define SERVICE_NS (2 * WRING_NS_PER_MS) /* of silence where more is to come: look at descriptors \
                                          */
#define QUIET_NS (100 * WRING_NS_PER_MS) /* and of any silence */
#define PUT_MAX ((size_t)1 << 31)
#define POLLS_PER_CLOCK 16
#define EVENTS_AT_ONCE 32
#define ACCEPTS_AT_ONCE 16

static bool watch_listener(struct verbs_provider *verbs)
{
    verbs->listening = (struct verbs_watch){VERBS_WATCH_LISTENER, verbs};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->listening};
    return epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, verbs->listener, &event) == 0;
}

static void read_settings(const struct wring_config *config, struct verbs_settings *out)
{
    *out = (struct verbs_settings){
        .new_calls = strcmp(config->verbs_api, "classic") != 0,
        .classic_calls = strcmp(config->verbs_api, "new") != 0,
        .qps = (unsigned)config->verbs_qps,
        .stripe_bytes = config->verbs_stripe_bytes,
        .recover_ns = config->verbs_recover_ns,
        .handshake_ns = config->join_timeout_ns,
        .inline_bytes = (uint32_t)config->verbs_inline_bytes,
        .timeout = (uint8_t)config->verbs_timeout,
        .retries = (uint8_t)config->verbs_retries,
        .rnr_retries = (uint8_t)config->verbs_rnr_retries,
        .sl = (uint8_t)config->verbs_sl,
        .tc = (uint8_t)config->verbs_tc,
    };
}

static enum wring_status open_memory(struct verbs_provider *verbs,
                                     const struct wring_config *config)
{
    struct verbs_memory_params params = {.library = &verbs->library,
                                         .log = &verbs->log,
                                         .config = config,
                                         .n_rails = verbs->n_rails};
    for (unsigned i = 0; i < verbs->n_rails; i++)
        params.rails[i] =
            (struct verbs_memory_rail){verbs->rails[i].pd, verbs->rails[i].choice.device};
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
        status = wring_verbs_rail_open(rail);
        if (rail->max_message < verbs->put_max_bytes)
            verbs->put_max_bytes = rail->max_message;
    }
    return status == WRING_OK ? open_memory(verbs, config) : status;
}

static void remove_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    for (size_t i = 0; i < verbs->n_conns; i++)
        if (verbs->conns[i] == conn) {
            verbs->conns[i] = verbs->conns[--verbs->n_conns];
            break;
        }
    wring_verbs_conn_destroy(conn);
}

static void provider_disconnect(struct wring_conn *base)
{
    if (base != NULL)
        remove_conn((struct verbs_provider *)base->provider, (struct verbs_conn *)base);
}

static void provider_close(struct wring_provider *base)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (verbs == NULL)
        return;
    while (verbs->n_conns > 0)
        remove_conn(verbs, verbs->conns[0]);
    wring_verbs_memory_destroy(verbs->memory);
    while (verbs->n_rails > 0)
        wring_verbs_rail_close(&verbs->rails[--verbs->n_rails]);
    wring_verbs_library_unload(&verbs->library);
    if (verbs->listener >= 0)
        close(verbs->listener);
    if (verbs->epoll >= 0)
        close(verbs->epoll);
    free(verbs->conns);
    explicit_bzero(verbs->secret, sizeof(verbs->secret));
    free(verbs);
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
    verbs->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (verbs->epoll < 0) {
        wring_error(&verbs->log, "epoll_create1: %s", strerror(errno));
        return WRING_ERR_SYSTEM;
    }
    read_settings(config, &verbs->settings);
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
    verbs->listener = verbs->epoll = -1;
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
        .lanes = 1,
        .put_max_bytes = verbs->put_max_bytes,
        .put_depth = VERBS_PUTS,
        .host_regions = true,
        .dmabuf_regions = wring_verbs_memory_takes_dmabuf(verbs->memory),
    };
}

static enum wring_status begin_listening(struct verbs_provider *verbs)
{
    char why[VERBS_TEXT];
    verbs->listener = wring_ports_listen(&verbs->ports, &verbs->bind, verbs->bind_bytes, SOMAXCONN,
                                         why, sizeof(why));
    if (verbs->listener < 0) {
        wring_error(&verbs->log, "cannot listen: %s", why);
        return WRING_ERR_ADDRESS;
    }
    if (getsockname(verbs->listener, (struct sockaddr *)&verbs->bind, &verbs->bind_bytes) == 0 &&
        fcntl(verbs->listener, F_SETFL, fcntl(verbs->listener, F_GETFL) | O_NONBLOCK) == 0 &&
        watch_listener(verbs))
        return WRING_OK;
    wring_error(&verbs->log, "cannot listen: %s", strerror(errno));
    close(verbs->listener);
    verbs->listener = -1;
    return WRING_ERR_ADDRESS;
}

static enum wring_status provider_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    enum wring_status status = verbs->listener < 0 ? begin_listening(verbs) : WRING_ERR_BUSY;
    if (status == WRING_OK)
        *bytes = wring_tcp_address_pack(&verbs->bind, address);
    return status;
}

static enum wring_status add_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    if (verbs->n_conns == verbs->max_conns) {
        size_t grown = 2 * verbs->max_conns + 8;
        struct verbs_conn **conns = realloc(verbs->conns, grown * sizeof(conns[0]));
        if (conns == NULL)
            return WRING_ERR_NO_MEMORY;
        verbs->conns = conns;
        verbs->max_conns = grown;
    }
    verbs->conns[verbs->n_conns++] = conn;
    verbs->meeting = true;
    return WRING_OK;
}

static enum wring_status start_stream(struct verbs_provider *verbs, const struct sockaddr *to,
                                      socklen_t bytes, int *out)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        wring_error(&verbs->log, "socket: %s", strerror(errno));
        return WRING_ERR_SYSTEM;
    }
    *out = fd;
    if (connect(fd, to, bytes) == 0 || errno == EINPROGRESS)
        return WRING_OK;
    return WRING_ERR_ADDRESS;
}

static enum wring_status provider_connect(struct wring_provider *base, const void *address,
                                          size_t address_bytes, const void *hello,
                                          size_t hello_bytes, struct wring_conn **out)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct sockaddr_storage to;
    socklen_t bytes;
    int fd;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    if (wring_tcp_address_unpack(address, address_bytes, &to, &bytes) != WRING_OK)
        return WRING_ERR_FRAME;
    enum wring_status status = start_stream(verbs, (struct sockaddr *)&to, bytes, &fd);
    if (status == WRING_ERR_SYSTEM)
        return status;

    int refused = status == WRING_OK ? 0 : errno;
    struct verbs_conn *conn = wring_verbs_conn_create(verbs, false, fd, hello, hello_bytes);
    if (conn == NULL) {
        close(fd);
        return WRING_ERR_NO_MEMORY;
    }
    if (add_conn(verbs, conn) != WRING_OK) {
        wring_verbs_conn_destroy(conn);
        return WRING_ERR_NO_MEMORY;
    }
    if (refused != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(refused));
    *out = &conn->base;
    return WRING_OK;
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

void wring_verbs_peer_name(int fd, char *text, size_t bytes)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    snprintf(text, bytes, "?");
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
        wring_tcp_address_text(&peer, text, bytes);
}

static void accept_peers(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(verbs->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct verbs_conn *conn = wring_verbs_conn_create(verbs, true, fd, NULL, 0);
        if (conn == NULL)
            close(fd);
        else if (add_conn(verbs, conn) != WRING_OK)
            wring_verbs_conn_destroy(conn);
    }
}

/** What came to nothing before anybody above knew of it goes without a word to them. */
static void service_meeting(struct verbs_provider *verbs)
{
    verbs->meeting = false;
    for (size_t i = verbs->n_conns; i-- > 0;) {
        struct verbs_conn *conn = verbs->conns[i];
        if (conn->state < VERBS_OPEN)
            wring_verbs_stream_service(conn);
        if (conn->state < VERBS_OPEN)
            verbs->meeting = true;
        if (conn->state == VERBS_DEAD && !conn->surfaced) {
            wring_warn(&verbs->log, "a connection came to nothing: %s", conn->text);
            remove_conn(verbs, conn);
        }
    }
}

static void service_one(struct verbs_provider *verbs, const struct verbs_watch *watch)
{
    switch (watch->what) {
    case VERBS_WATCH_LISTENER:
        accept_peers(verbs);
        break;
    case VERBS_WATCH_STREAM:
        wring_verbs_stream_service(watch->owner);
        break;
    case VERBS_WATCH_NOTICES:
        wring_verbs_rail_take_notices(watch->owner);
        break;
    case VERBS_WATCH_ASYNC:
        wring_verbs_rail_take_async(watch->owner);
        break;
    }
}

static void service(struct verbs_provider *verbs)
{
    struct epoll_event ready[EVENTS_AT_ONCE];
    int n = epoll_wait(verbs->epoll, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        service_one(verbs, ready[i].data.ptr);
    if (verbs->meeting || n > 0)
        service_meeting(verbs);
    verbs->last_service_ns = wring_now_ns();
    verbs->quiet_since_ns = verbs->last_service_ns;
}

/** Completions show that a peer lives and that the port works; a stream can wait as long. */
static bool is_silent(struct verbs_conn *conn, uint64_t now)
{
    uint64_t looked_ns = wring_verbs_of(conn)->last_service_ns;
    bool owed = conn->state == VERBS_RESYNC;
    if (conn->completions != conn->completions_seen)
        conn->heard_ns = now;
    conn->completions_seen = conn->completions;
    for (unsigned i = 0; i < conn->n_paths && !owed; i++)
        owed = wring_verbs_path_is_owed(conn->paths[i]);
    return now - (conn->heard_ns > looked_ns ? conn->heard_ns : looked_ns) >=
           (owed ? SERVICE_NS : QUIET_NS);
}

/** All peers of the job are connected, by all their paths: what is awaited comes from them. */
static bool is_whole(const struct verbs_provider *verbs)
{
    bool whole = verbs->job_size > 0 && verbs->n_conns + 1 >= verbs->job_size;
    for (size_t i = 0; i < verbs->n_conns && whole; i++)
        whole = verbs->conns[i]->dead == 0;
    return whole;
}

/**
 * To look at the descriptors takes a system call. None is needed as long as every peer of the job
 * is heard of by completions; otherwise news may come by them alone: new peers, ports that are
 * back, peers that are gone.
 */
static bool service_is_due(struct verbs_provider *verbs)
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
    bool due = !is_whole(verbs) && (now - verbs->quiet_since_ns >= SERVICE_NS ||
                                    now - verbs->last_service_ns >= QUIET_NS);
    for (size_t i = 0; i < verbs->n_conns; i++)
        due |= is_silent(verbs->conns[i], now);
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

static size_t provider_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    size_t n = 0;

    if (service_is_due(verbs))
        service(verbs);
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

static void provider_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true;
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = verbs->epoll, .events = POLLIN};
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

const struct wring_provider_ops wring_provider_verbs = {
    .name = "verbs",
    .doc = "RDMA over InfiniBand or RoCE through libibverbs",
    .probe = wring_verbs_probe,
    .open = provider_open,
    .close = provider_close,
    .capabilities = provider_capabilities,
    .listen = provider_listen,
    .connect = provider_connect,
    .disconnect = provider_disconnect,
    .region_create = region_create,
    .region_destroy = wring_verbs_region_destroy,
    .memory_gone = memory_gone,
    .region_export = region_export,
    .remote_import = wring_verbs_remote_import,
    .remote_release = wring_verbs_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_verbs_put,
    .send = wring_verbs_send,
    .spoil = wring_unsupported_spoil,
    .poll = provider_poll,
    .arm = provider_arm,
};
