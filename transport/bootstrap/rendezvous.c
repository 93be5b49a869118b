/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/parse.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/bootstrap/rendezvous_tree.h"
#include <wring/bootstrap.h>

#define WRING_MODULE "rendezvous"

void wring_blobs_finish(struct wring_blobs *blobs)
{
    if (blobs->release != NULL) {
        blobs->release(blobs);
    } else {
        free(blobs->offsets);
        free(blobs->storage);
    }
    *blobs = (struct wring_blobs){0};
}

/* ---- endpoints ---- */

/* Where the root may be: its addresses as a rank that joins understands them. */

#define ENTRY_BYTES 320

static const struct sockaddr_in6 *as_v6(const struct sockaddr *address)
{
    return (const struct sockaddr_in6 *)address;
}

static const uint8_t *raw_address_bytes(const struct sockaddr *address, size_t *n)
{
    if (address->sa_family == AF_INET) {
        *n = sizeof(struct in_addr);
        return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    }
    *n = sizeof(struct in6_addr);
    return as_v6(address)->sin6_addr.s6_addr;
}

/** Is an address on the network of one of this host's interfaces? */
static bool is_on_network(const struct sockaddr *address, const struct ifaddrs *at)
{
    if (at->ifa_addr == NULL || at->ifa_netmask == NULL || (at->ifa_flags & IFF_UP) == 0 ||
        at->ifa_addr->sa_family != address->sa_family)
        return false;
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as_v6(address)->sin6_addr) &&
        as_v6(address)->sin6_scope_id != if_nametoindex(at->ifa_name))
        return false;
    size_t n;
    const uint8_t *theirs = raw_address_bytes(address, &n),
                  *ours = raw_address_bytes(at->ifa_addr, &n);
    const uint8_t *mask = raw_address_bytes(at->ifa_netmask, &n);
    for (size_t i = 0; i < n; i++)
        if (((theirs[i] ^ ours[i]) & mask[i]) != 0)
            return false;
    return true;
}

static void add_endpoint(struct wring_rendezvous_endpoints *endpoints, const struct ifaddrs *all,
                         const struct sockaddr *address, socklen_t bytes)
{
    if (endpoints->n == WRING_RENDEZVOUS_ENDPOINTS)
        return;
    struct wring_rendezvous_endpoint *endpoint = &endpoints->at[endpoints->n++];
    *endpoint = (struct wring_rendezvous_endpoint){.bytes = bytes};
    memcpy(&endpoint->address, address, bytes);
    for (; all != NULL && !endpoint->near; all = all->ifa_next)
        endpoint->near = is_on_network(address, all);
}

/** A zone names an interface of the host that wrote it: here the link may be any of ours. */
static void add_link_endpoints(struct wring_rendezvous_endpoints *endpoints,
                               const struct ifaddrs *all, const struct sockaddr_in6 *address)
{
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        struct sockaddr_in6 link = *address;
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET6 ||
            (at->ifa_flags & IFF_UP) == 0 ||
            !IN6_IS_ADDR_LINKLOCAL(&as_v6(at->ifa_addr)->sin6_addr))
            continue;
        link.sin6_scope_id = if_nametoindex(at->ifa_name);
        if (link.sin6_scope_id != 0 && link.sin6_scope_id != address->sin6_scope_id)
            add_endpoint(endpoints, all, (const struct sockaddr *)&link, sizeof(link));
    }
}

/** Take the zone out of "[fe80::1%zone]:port". @param zone out, [IF_NAMESIZE], "" without one */
static void cut_zone(char *entry, char *zone)
{
    char *percent = strchr(entry, '%');
    char *end = percent != NULL ? strpbrk(percent, "]:") : NULL;
    zone[0] = '\0';
    if (end == NULL)
        return;
    snprintf(zone, IF_NAMESIZE, "%.*s", (int)(end - percent) - 1, percent + 1);
    memmove(percent, end, strlen(end) + 1);
}

/** One "host:port" of the root's. Errors are logged. */
static enum wring_status add_entry(struct wring_rendezvous_endpoints *endpoints,
                                   const struct wring_log *log, const struct ifaddrs *all,
                                   const char *text)
{
    char entry[ENTRY_BYTES], zone[IF_NAMESIZE];
    struct addrinfo *found;
    bool is_name;

    snprintf(entry, sizeof(entry), "%s", text);
    cut_zone(entry, zone);
    /* a scope that we have is an interface's name, or its number in digits */
    unsigned scope = if_nametoindex(zone);
    if (scope == 0 && strspn(zone, "0123456789") == strlen(zone))
        sscanf(zone, "%9u", &scope);
    enum wring_status status = wring_rendezvous_resolve(log, entry, &found, &is_name);
    if (status != WRING_OK)
        return status;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        struct sockaddr_in6 link;
        if (at->ai_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&as_v6(at->ai_addr)->sin6_addr)) {
            add_endpoint(endpoints, all, at->ai_addr, at->ai_addrlen);
            continue;
        }
        link = *as_v6(at->ai_addr);
        if (link.sin6_scope_id == 0)
            link.sin6_scope_id = scope;
        if (link.sin6_scope_id != 0)
            add_endpoint(endpoints, all, (const struct sockaddr *)&link, sizeof(link));
        if (link.sin6_scope_id == 0 || endpoints->several)
            add_link_endpoints(endpoints, all, &link);
    }
    freeaddrinfo(found);
    return WRING_OK;
}

/** Each of several; where a name means nothing here, another may do. */
static enum wring_status add_entries(struct wring_rendezvous_endpoints *endpoints,
                                     const struct wring_rendezvous_params *params,
                                     const struct ifaddrs *all)
{
    if (!endpoints->several)
        return add_entry(endpoints, params->log, all, params->root);
    const char *rest = params->root;
    for (struct wring_list_item item; wring_list_next(&rest, &item);) {
        char entry[ENTRY_BYTES];
        snprintf(entry, sizeof(entry), "%.*s", (int)item.length, item.text);
        if (item.length >= sizeof(entry) || item.length == 0) {
            wring_error(params->log,
                        "WRING_ROOT=%s: needs host:port, or several with commas "
                        "between them",
                        params->root);
            return WRING_ERR_INVALID;
        }
        enum wring_status status = add_entry(endpoints, params->log, all, entry);
        if (status == WRING_ERR_INVALID)
            return status;
    }
    if (endpoints->n == 0)
        wring_error(params->log, "WRING_ROOT=%s: none of these means anything on this host",
                    params->root);
    return endpoints->n > 0 ? WRING_OK : WRING_ERR_ADDRESS;
}

/** Near ones first; else in the root's order. */
static void put_near_first(struct wring_rendezvous_endpoints *endpoints)
{
    for (unsigned i = 1, near = 0; i <= endpoints->n; i++) {
        struct wring_rendezvous_endpoint endpoint = endpoints->at[i - 1];
        if (!endpoint.near)
            continue;
        memmove(&endpoints->at[near + 1], &endpoints->at[near], (i - 1 - near) * sizeof(endpoint));
        endpoints->at[near++] = endpoint;
    }
}

/** Without a key only this host is believed. */
static enum wring_status drop_distant(struct wring_rendezvous_endpoints *endpoints,
                                      const struct wring_rendezvous_params *params)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < endpoints->n; i++)
        if (!wring_rendezvous_needs_key(params, (const struct sockaddr *)&endpoints->at[i].address))
            endpoints->at[kept++] = endpoints->at[i];
    if (kept == endpoints->n || (kept > 0 && endpoints->several)) {
        endpoints->n = kept;
        return WRING_OK;
    }
    wring_error(params->log,
                "WRING_ROOT=%s: joining over a network needs a key: set the same WRING_KEY or "
                "WRING_KEY_FILE on all ranks",
                params->root);
    return WRING_ERR_AUTH;
}

enum wring_status wring_rendezvous_find_endpoints(const struct wring_rendezvous_params *params,
                                                  struct wring_rendezvous_endpoints *out)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        wring_debug(params->log, "cannot list the network interfaces: %s", strerrordesc_np(errno));
        all = NULL; /* nothing is near, then */
    }
    *out = (struct wring_rendezvous_endpoints){.several = strchr(params->root, ',') != NULL};
    enum wring_status status = add_entries(out, params, all);
    if (all != NULL)
        freeifaddrs(all);
    if (status == WRING_OK && out->n == 0) /* link-local, and there is no link */
        status = wring_rendezvous_refuse_zone(params->log, params->root);
    if (status == WRING_OK)
        status = drop_distant(out, params);
    put_near_first(out);
    return status;
}

/* ---- gather ---- */

/* Rank 0's side of an exchange: collect from all, hand out to all. */

/** The part of one rank's contribution that has come. */
struct contribution {
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;
    uint8_t *body;
    uint64_t got; /* bytes, head included */
    bool complete;
};

static enum wring_status fail_for_rank(struct wring_rendezvous *rendezvous,
                                       enum wring_status status, uint32_t rank, const char *what)
{
    char text[WRING_RENDEZVOUS_TEXT];
    snprintf(text, sizeof(text), "rank %" PRIu32 " %s", rank, what);
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, status, rank, text);
    return status;
}

static enum wring_status fail_for_lost_rank(struct wring_rendezvous *rendezvous)
{
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        struct pollfd pollfd = {rendezvous->fds[i], POLLRDHUP, 0};
        if (poll(&pollfd, 1, 0) > 0 && (pollfd.revents & WRING_RENDEZVOUS_GONE) != 0)
            return fail_for_rank(rendezvous, WRING_ERR_PEER, i,
                                 "ended while ranks connected to each other");
    }
    return WRING_OK;
}

/** Read what there is. Errors: PEER (closed), FRAME, NO_MEMORY. */
static enum wring_status read_contribution(struct wring_rendezvous *rendezvous, int fd,
                                           struct contribution *from)
{
    while (!from->complete) {
        bool in_head = from->got < sizeof(from->head);
        uint8_t *at =
            in_head ? from->head + from->got : from->body + (from->got - sizeof(from->head));
        uint64_t want = sizeof(from->head) + (in_head ? 0 : from->frame.bytes) - from->got;
        ssize_t got = want > 0 ? recv(fd, at, want, MSG_DONTWAIT) : 0;
        if (got == 0 && want > 0)
            return WRING_ERR_PEER;
        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? WRING_OK : WRING_ERR_PEER;
        from->got += (uint64_t)got;
        if (in_head && from->got == sizeof(from->head)) {
            if (!wring_rendezvous_parse(from->head, &from->frame) ||
                from->frame.kind != WRING_RENDEZVOUS_BLOB || from->frame.bytes > WRING_BLOB_MAX ||
                from->frame.sequence != rendezvous->sequence)
                return WRING_ERR_FRAME;
            from->body = malloc(from->frame.bytes + 1);
            if (from->body == NULL)
                return WRING_ERR_NO_MEMORY;
        }
        from->complete = from->got == sizeof(from->head) + from->frame.bytes && from->body != NULL;
    }
    return WRING_OK;
}

/** Someone did not contribute in time: who? */
static enum wring_status fail_late(struct wring_rendezvous *rendezvous,
                                   const struct contribution *from)
{
    struct wring_rendezvous_names late = {0};
    char text[WRING_RENDEZVOUS_TEXT];

    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (!from[i].complete)
            wring_rendezvous_name(&late, i);
    snprintf(text, sizeof(text),
             "%s did not take part in opening, committing or making a group in time "
             "(WRING_JOIN_TIMEOUT)",
             wring_rendezvous_named(&late));
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, WRING_ERR_PEER, late.first, text);
    return WRING_ERR_PEER;
}

/** Take what has come from rank i. @param pollfd in: of the last wait; out: for the next */
static enum wring_status collect_from(struct wring_rendezvous *rendezvous, uint32_t i,
                                      struct contribution *from, struct pollfd *pollfd,
                                      const struct wring_patience *patience)
{
    enum wring_status status = read_contribution(rendezvous, rendezvous->fds[i], from);
    bool left = from->complete && (pollfd->revents & WRING_RENDEZVOUS_GONE) != 0;
    left |= status == WRING_ERR_PEER;
    if (left && wring_stream_called_off(patience))
        return WRING_ERR_CLOSED;
    if (left)
        return fail_for_rank(rendezvous, WRING_ERR_PEER, i,
                             "ended, or closed its session, while the others "
                             "were opening, committing or making a group");
    if (status != WRING_OK)
        return fail_for_rank(rendezvous, status, i, "sent malformed bytes to the rendezvous");
    *pollfd = (struct pollfd){rendezvous->fds[i], from->complete ? POLLRDHUP : POLLIN, 0};
    return WRING_OK;
}

/** @param fds  [size], for waiting */
static enum wring_status collect_contributions(struct wring_rendezvous *rendezvous,
                                               struct contribution *from, struct pollfd *fds,
                                               const struct wring_patience *patience)
{
    uint32_t size = rendezvous->base.size;
    for (;;) {
        bool waiting = false;
        for (uint32_t i = 1; i < size; i++) {
            enum wring_status status = collect_from(rendezvous, i, &from[i], &fds[i], patience);
            if (status != WRING_OK)
                return status;
            waiting |= !from[i].complete;
        }
        if (!waiting)
            return WRING_OK;
        enum wring_status status = wring_stream_poll(fds + 1, size - 1, patience);
        if (status == WRING_ERR_TIMEOUT)
            return fail_late(rendezvous, from);
        if (status != WRING_OK)
            return status;
    }
}

/** All blobs in rank order, both as the result frame and as our own copy. */
static enum wring_status hand_out_blobs(struct wring_rendezvous *rendezvous,
                                        const struct contribution *from, const void *blob,
                                        size_t bytes, const struct wring_patience *patience,
                                        struct wring_blobs *out)
{
    uint32_t size = rendezvous->base.size;
    struct wring_writer message = {0};
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES] = {0};
    struct wring_blobs blobs = {size, calloc(size + 1, sizeof(size_t)), NULL, NULL};
    struct wring_writer own = {0};

    wring_write(&message, head, sizeof(head));
    for (uint32_t i = 0; i < size && blobs.offsets != NULL; i++) {
        const void *data = i == 0 ? blob : from[i].body;
        size_t n = i == 0 ? bytes : from[i].frame.bytes;
        wring_write_u64(&message, n);
        wring_write(&message, data, n);
        wring_write(&own, data, n);
        blobs.offsets[i + 1] = own.bytes;
    }
    wring_write(&own, "", 1); /* never empty */
    blobs.storage = own.data;
    if (message.failed || own.failed || blobs.offsets == NULL) {
        free(message.data);
        wring_blobs_finish(&blobs);
        return WRING_ERR_NO_MEMORY;
    }
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_RESULT,
                                           .sequence = rendezvous->sequence,
                                           .bytes = message.bytes - sizeof(head)};
    wring_rendezvous_pack(&frame, message.data);
    enum wring_status status = WRING_OK;
    for (uint32_t i = 1; i < size && status == WRING_OK; i++) {
        status = wring_stream_write(rendezvous->fds[i], message.data, message.bytes, patience);
        if (status == WRING_ERR_PEER && wring_stream_called_off(patience))
            status = WRING_ERR_CLOSED;
        else if (status == WRING_ERR_PEER || status == WRING_ERR_TIMEOUT)
            status =
                fail_for_rank(rendezvous, WRING_ERR_PEER, i, "stopped listening to the rendezvous");
    }
    free(message.data);
    if (status != WRING_OK)
        wring_blobs_finish(&blobs);
    else
        *out = blobs;
    return status;
}

enum wring_status wring_rendezvous_gather(struct wring_rendezvous *rendezvous, const void *blob,
                                          size_t bytes, const struct wring_patience *patience,
                                          struct wring_blobs *out)
{
    uint32_t size = rendezvous->base.size;
    struct contribution *from = calloc(size, sizeof(*from));
    struct pollfd *fds = calloc(size, sizeof(*fds));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (from != NULL && fds != NULL)
        status = collect_contributions(rendezvous, from, fds, patience);
    if (status == WRING_OK)
        status = hand_out_blobs(rendezvous, from, blob, bytes, patience, out);
    for (uint32_t i = 0; from != NULL && i < size; i++)
        free(from[i].body);
    free(from);
    free(fds);
    return status;
}

/* ---- rendezvous ---- */

static enum wring_status rendezvous_exchange(struct wring_bootstrap *bootstrap, const void *blob,
                                             size_t bytes, uint64_t deadline_ns,
                                             const struct wring_cancel *cancel,
                                             struct wring_blobs *out)
{
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    struct wring_patience patience = {deadline_ns, cancel};

    if (bytes > WRING_BLOB_MAX)
        return WRING_ERR_INVALID;
    rendezvous->sequence++;
    bool has_tree = rendezvous->tree != NULL;
    if (bootstrap->rank == 0)
        return has_tree ? wring_rendezvous_tree_exchange(rendezvous, blob, bytes, &patience, out)
                        : wring_rendezvous_gather(rendezvous, blob, bytes, &patience, out);

    /* the root knows who is late: give it the time to say so */
    static const uint64_t grace_ns = 5 * WRING_NS_PER_S;
    patience.deadline_ns =
        deadline_ns > WRING_NEVER - grace_ns ? WRING_NEVER : deadline_ns + grace_ns;
    if (has_tree)
        return wring_rendezvous_tree_exchange(rendezvous, blob, bytes, &patience, out);
    return wring_rendezvous_contribute(rendezvous, blob, bytes, &patience, out);
}

static enum wring_status rendezvous_check(struct wring_bootstrap *bootstrap)
{
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    if (rendezvous->tree != NULL)
        return wring_rendezvous_tree_check(rendezvous);
    return bootstrap->rank == 0 ? fail_for_lost_rank(rendezvous)
                                : wring_rendezvous_hear(rendezvous);
}

static const char *rendezvous_local_address(struct wring_bootstrap *bootstrap)
{
    return ((struct wring_rendezvous *)bootstrap)->local_address;
}

static void rendezvous_close(struct wring_bootstrap *bootstrap)
{
    if (bootstrap == NULL)
        return;
    struct wring_rendezvous *rendezvous = (struct wring_rendezvous *)bootstrap;
    uint32_t n = bootstrap->rank == 0 ? bootstrap->size : 1;
    for (uint32_t i = 0; i < n; i++)
        wring_descriptor_close(rendezvous->fds[i]);
    wring_rendezvous_tree_destroy(rendezvous->tree);
    free(rendezvous->fds);
    free(rendezvous);
}

static const struct wring_bootstrap_ops rendezvous_ops = {
    .name = "rendezvous",
    .exchange = rendezvous_exchange,
    .check = rendezvous_check,
    .local_address = rendezvous_local_address,
    .close = rendezvous_close,
};

/**
 * Our end of the streams that leave this host; where several interfaces serve them, the one that
 * most use. Where none leaves it rank 0 says its end of any, and the others leave it to rank 0:
 * what reaches the root from its own host need not reach it from elsewhere.
 */
static void find_local_address(struct wring_rendezvous *rendezvous)
{
    char here[WRING_RENDEZVOUS_ADDRESS], (*all)[WRING_RENDEZVOUS_ADDRESS];
    uint32_t n = rendezvous->base.rank == 0 ? rendezvous->base.size : 1, found = 0, most = 0;

    all = calloc(n, sizeof(*all));
    for (uint32_t i = 0; i < n && all != NULL; i++) {
        if (rendezvous->fds[i] < 0)
            continue;
        if (wring_rendezvous_local(rendezvous->fds[i], here))
            memcpy(all[found++], here, sizeof(here));
        else if (found == 0 && rendezvous->base.rank == 0)
            memcpy(rendezvous->local_address, here, sizeof(here));
    }
    for (uint32_t i = 0; i < found; i++) {
        uint32_t alike = 0;
        for (uint32_t k = 0; k < found; k++)
            alike += strcmp(all[i], all[k]) == 0;
        if (alike > most)
            memcpy(rendezvous->local_address, all[i], sizeof(here));
        most = alike > most ? alike : most;
    }
    free(all);
}

enum wring_status wring_rendezvous_create(const struct wring_rendezvous_params *params,
                                          struct wring_bootstrap **out)
{
    struct wring_rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
    uint32_t n = params->rank == 0 ? params->size : 1;
    int *fds = malloc(n * sizeof(*fds));
    uint8_t secret[WRING_SECRET_BYTES];

    if (rendezvous == NULL || fds == NULL) {
        free(rendezvous);
        free(fds);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++)
        fds[i] = -1;
    *rendezvous = (struct wring_rendezvous){
        .base = {&rendezvous_ops, params->rank, params->size, -1}, .log = params->log, .fds = fds};

    const char *key = params->key != NULL ? params->key : "";
    const char *job = params->job != NULL ? params->job : "";
    enum wring_status status =
        wring_secret_derive(key, strlen(key), "wring rendezvous", job, strlen(job), secret);
    if (status == WRING_OK)
        status = params->rank == 0 ? wring_rendezvous_host(rendezvous, params, secret)
                                   : wring_rendezvous_join(rendezvous, params, secret);
    if (status == WRING_OK) {
        find_local_address(rendezvous);
        if (params->size > WRING_RENDEZVOUS_DIRECT)
            status = wring_rendezvous_plant(rendezvous, params, secret);
    }
    if (status != WRING_OK) {
        rendezvous_close(&rendezvous->base);
        return status;
    }
    *out = &rendezvous->base;
    return WRING_OK;
}
