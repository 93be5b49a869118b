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

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define SERVICE_NS                                                                 \
    (2 * WRING_NS_PER_MS) /* how often streams are looked at while queues are busy \
                           */
#define HANDSHAKE_NS (60 * WRING_NS_PER_S) /* where there is no config */
#define POLLS_PER_CLOCK 16
#define EVENTS_AT_ONCE 32
#define ACCEPTS_AT_ONCE 16
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static bool watch_fd(struct verbs_provider *verbs, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
           epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/** The device's own things, after the device. */
static enum wring_status open_device(struct verbs_provider *verbs, const char *wish)
{
    enum wring_status status = wring_verbs_device_open(verbs, wish);
    if (status != WRING_OK)
        return status;
    verbs->pd = verbs->library.alloc_pd(verbs->device.context);
    verbs->channel = verbs->library.create_comp_channel(verbs->device.context);
    if (verbs->pd != NULL && verbs->channel != NULL &&
        watch_fd(verbs, verbs->channel->fd, &verbs->channel) &&
        watch_fd(verbs, verbs->device.context->async_fd, &verbs->device))
        return WRING_OK;
    wring_error(&verbs->log, "no protection domain or completion channel on %s: %s",
                verbs->device.name, strerror(errno));
    return WRING_ERR_DEVICE;
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

static void region_destroy(struct wring_region *base)
{
    struct verbs_region *region = (struct verbs_region *)base;
    if (region == NULL)
        return;
    struct verbs_provider *verbs = (struct verbs_provider *)base->provider;
    for (struct verbs_region **link = &verbs->regions; *link != NULL; link = &(*link)->next)
        if (*link == region) {
            *link = region->next;
            break;
        }
    verbs->library.dereg_mr(region->mr);
    free(region);
}

static void provider_close(struct wring_provider *base)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (verbs == NULL)
        return;
    while (verbs->n_conns > 0)
        remove_conn(verbs, verbs->conns[0]);
    while (verbs->regions != NULL)
        region_destroy(&verbs->regions->base);
    if (verbs->channel != NULL)
        verbs->library.destroy_comp_channel(verbs->channel);
    if (verbs->pd != NULL)
        verbs->library.dealloc_pd(verbs->pd);
    if (verbs->device.context != NULL)
        verbs->library.close_device(verbs->device.context);
    wring_verbs_library_unload(&verbs->library);
    if (verbs->listener >= 0)
        close(verbs->listener);
    if (verbs->epoll >= 0)
        close(verbs->epoll);
    free(verbs->conns);
    explicit_bzero(verbs->secret, sizeof(verbs->secret));
    free(verbs);
}

static enum wring_status fill_provider(struct verbs_provider *verbs,
                                       const struct wring_provider_params *params)
{
    char reason[VERBS_TEXT];
    const char *bind = params->bind != NULL ? params->bind : "127.0.0.1";
    enum wring_status status =
        wring_tcp_address_parse(&verbs->log, bind, &verbs->bind, &verbs->bind_bytes);
    if (status == WRING_OK)
        status = wring_ports_read(&verbs->log, params->config != NULL ? params->config->ports : "",
                                  &verbs->ports);
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
    return open_device(verbs, params->config != NULL ? params->config->verbs_device : "");
}

static enum wring_status provider_open(const struct wring_provider_params *params,
                                       struct wring_provider **out)
{
    struct verbs_provider *verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL)
        return WRING_ERR_NO_MEMORY;
    verbs->base.ops = &wring_provider_verbs;
    verbs->listener = verbs->epoll = -1;
    verbs->handshake_ns = params->config != NULL ? params->config->join_timeout_ns : HANDSHAKE_NS;
    if (params->log != NULL)
        verbs->log = *params->log;
    memcpy(verbs->secret, params->secret, sizeof(verbs->secret));
    enum wring_status status = fill_provider(verbs, params);
    if (status != WRING_OK) {
        provider_close(&verbs->base);
        return status;
    }
    *out = &verbs->base;
    return WRING_OK;
}

static void provider_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    *out = (struct wring_provider_caps){
        .lanes = 1,
        .put_max_bytes = ((struct verbs_provider *)base)->device.attr.max_msg_sz,
        .put_depth = VERBS_PUTS,
        .host_regions = true,
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
        watch_fd(verbs, verbs->listener, NULL))
        return WRING_OK;
    wring_error(&verbs->log, "cannot listen: %s", strerror(errno));
    close(verbs->listener);
    verbs->listener = -1;
    return WRING_ERR_ADDRESS;
}

static enum wring_status provider_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (verbs->listener >= 0)
        return WRING_ERR_BUSY;
    enum wring_status status = begin_listening(verbs);
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
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct verbs_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;
    *region = (struct verbs_region){.base = {base, memory->base, memory->bytes}};
    region->mr = verbs->library.reg_mr(verbs->pd, memory->base, memory->bytes, ACCESS);
    if (region->mr == NULL) {
        bool limit = errno == ENOMEM;
        wring_error(&verbs->log, "cannot register %zu bytes with %s: %s%s", memory->bytes,
                    verbs->device.name, strerror(errno),
                    limit ? " (locked memory is limited: see ulimit -l)" : "");
        free(region);
        return limit ? WRING_ERR_NO_MEMORY : WRING_ERR_DEVICE;
    }
    region->next = verbs->regions;
    verbs->regions = region;
    *out = &region->base;
    return WRING_OK;
}

static size_t region_export(struct wring_region *base, void *to)
{
    struct verbs_key key = {base->bytes, (uintptr_t)base->base,
                            ((struct verbs_region *)base)->mr->rkey};
    wring_verbs_key_pack(&key, to);
    return VERBS_KEY_BYTES;
}

static enum wring_status remote_import(struct wring_conn *conn, const void *from, size_t bytes,
                                       struct wring_remote **out)
{
    const struct verbs_conn *over = (const struct verbs_conn *)conn;
    struct verbs_key key;
    if (over->state <= VERBS_OPEN && !wring_verbs_conn_stands(over))
        return WRING_ERR_AGAIN;
    if (!wring_verbs_key_unpack(from, bytes, &key))
        return WRING_ERR_FRAME;

    struct verbs_remote *remote = malloc(sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    *remote =
        (struct verbs_remote){.base = {conn, key.bytes}, .address = key.address, .rkey = key.rkey};
    *out = &remote->base;
    return WRING_OK;
}

static void remote_release(struct wring_remote *remote)
{
    free(remote);
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
            wring_verbs_conn_service(conn);
        if (conn->state < VERBS_OPEN)
            verbs->meeting = true;
        if (conn->state == VERBS_DEAD && !conn->surfaced) {
            wring_warn(&verbs->log, "a connection came to nothing: %s", conn->text);
            remove_conn(verbs, conn);
        }
    }
}

static void fail_all(struct verbs_provider *verbs, const char *what)
{
    for (size_t i = 0; i < verbs->n_conns; i++)
        wring_verbs_conn_fail(verbs->conns[i], WRING_ERR_DEVICE, "device %s port %u: %s",
                              verbs->device.name, verbs->device.port, what);
}

static void fail_queue(struct verbs_provider *verbs, const struct ibv_qp *qp, const char *what)
{
    for (size_t i = 0; i < verbs->n_conns; i++)
        if (verbs->conns[i]->qp == qp)
            wring_verbs_conn_fail(verbs->conns[i], WRING_ERR_DEVICE, "device %s queue pair %u: %s",
                                  verbs->device.name, qp->qp_num, what);
}

/** What the device tells unasked. */
static void take_async_event(struct verbs_provider *verbs)
{
    struct ibv_async_event event;
    if (verbs->library.get_async_event(verbs->device.context, &event) != 0)
        return;
    const char *what = verbs->library.event_type_str(event.event_type);
    switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
        fail_all(verbs, what);
        break;
    case IBV_EVENT_PORT_ERR:
        if (event.element.port_num == verbs->device.port)
            fail_all(verbs, what);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        fail_queue(verbs, event.element.qp, what);
        break;
    case IBV_EVENT_CQ_ERR:
        fail_all(verbs, what); /* the completion queues are too large for this to happen */
        break;
    default:
        wring_debug(&verbs->log, "device %s: %s", verbs->device.name, what);
        break;
    }
    verbs->library.ack_async_event(&event);
}

/** Empty the channel; what there is to complete is polled for anyway. */
static void take_notices(struct verbs_provider *verbs)
{
    struct ibv_cq *cq;
    void *context;
    for (unsigned i = 0; i < EVENTS_AT_ONCE; i++) {
        if (verbs->library.get_cq_event(verbs->channel, &cq, &context) != 0)
            return;
        verbs->library.ack_cq_events(cq, 1);
    }
}

static void service_one(struct verbs_provider *verbs, void *who)
{
    if (who == NULL)
        accept_peers(verbs);
    else if (who == &verbs->channel)
        take_notices(verbs);
    else if (who == &verbs->device)
        take_async_event(verbs);
    else
        wring_verbs_conn_service(who);
}

static void service(struct verbs_provider *verbs)
{
    struct epoll_event ready[EVENTS_AT_ONCE];
    int n = epoll_wait(verbs->epoll, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        service_one(verbs, ready[i].data.ptr);
    if (verbs->meeting || n > 0)
        service_meeting(verbs);
    verbs->next_service_ns = wring_deadline_in(SERVICE_NS);
}

static bool service_is_due(struct verbs_provider *verbs)
{
    if (verbs->meeting || verbs->sleep > 0)
        return true;
    if (++verbs->skipped < POLLS_PER_CLOCK)
        return false;
    verbs->skipped = 0;
    return wring_now_ns() >= verbs->next_service_ns;
}

static size_t provider_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    size_t n = 0;

    if (service_is_due(verbs))
        service(verbs);
    if (verbs->sleep > 0)
        verbs->sleep--;
    verbs->n_messages = 0;
    verbs->first++; /* take turns, so that no connection starves */
    for (size_t i = 0; i < verbs->n_conns && n < max; i++) {
        struct verbs_conn *conn = verbs->conns[(verbs->first + i) % verbs->n_conns];
        if (conn->surfaced)
            n += wring_verbs_conn_events(conn, events + n, max - n);
    }
    return n;
}

static void provider_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true;
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = verbs->epoll, .events = POLLIN};
    verbs->sleep = 2; /* the poll before the sleep and the one after it look at the streams */
    for (size_t i = 0; i < verbs->n_conns; i++)
        if (wring_verbs_conn_arm(verbs->conns[i], &set->deadline_ns))
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
    .region_destroy = region_destroy,
    .region_export = region_export,
    .remote_import = remote_import,
    .remote_release = remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_verbs_put,
    .send = wring_verbs_send,
    .spoil = wring_unsupported_spoil,
    .poll = provider_poll,
    .arm = provider_arm,
};
