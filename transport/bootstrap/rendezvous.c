/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous_private.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

#define WRING_MODULE "rendezvous"
#define MAGIC 0x565A5257u /* "WRZV" */

void wring_rendezvous_pack(const struct wring_rendezvous_frame *frame, uint8_t *bytes)
{
    wring_put_u32(bytes, MAGIC);
    wring_put_u32(bytes + 4, frame->kind);
    wring_put_u32(bytes + 8, frame->sequence);
    wring_put_u32(bytes + 12, frame->status);
    wring_put_u32(bytes + 16, frame->rank);
    wring_put_u64(bytes + 20, frame->bytes);
}

bool wring_rendezvous_parse(const uint8_t *bytes, struct wring_rendezvous_frame *out)
{
    uint32_t kind = wring_get_u32(bytes + 4);
    *out = (struct wring_rendezvous_frame){
        .kind = (enum wring_rendezvous_kind)kind,
        .sequence = wring_get_u32(bytes + 8),
        .status = wring_get_u32(bytes + 12),
        .rank = wring_get_u32(bytes + 16),
        .bytes = wring_get_u64(bytes + 20),
    };
    return wring_get_u32(bytes) == MAGIC && kind >= WRING_RENDEZVOUS_BLOB &&
           kind <= WRING_RENDEZVOUS_FAILURE;
}

bool wring_rendezvous_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/** Cut "host:port" or "[v6]:port" in two. */
static bool split(const char *root, char *host, size_t host_bytes, const char **port)
{
    const char *colon = strrchr(root, ':');
    if (colon == NULL || colon == root || colon[1] == '\0')
        return false;
    const char *begin = root, *end = colon;
    if (*begin == '[' && end[-1] == ']')
        begin++, end--;
    if ((size_t)(end - begin) >= host_bytes || end <= begin)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = colon + 1;
    return true;
}

enum wring_status wring_rendezvous_resolve(const struct wring_log *log, const char *root,
                                           struct sockaddr_storage *address, socklen_t *bytes,
                                           bool *is_name)
{
    char host[256];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;

    if (!split(root, host, sizeof(host), &port)) {
        wring_error(log, "WRING_ROOT=%s: needs host:port, for example 10.0.0.1:5555", root);
        return WRING_ERR_INVALID;
    }
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        wring_error(log, "WRING_ROOT=%s: %s", root, gai_strerror(failed));
        return WRING_ERR_ADDRESS;
    }
    struct in6_addr number;
    *is_name = inet_pton(AF_INET, host, &number) != 1 && inet_pton(AF_INET6, host, &number) != 1;
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return WRING_OK;
}

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
    if (bootstrap->rank == 0)
        return wring_rendezvous_gather(rendezvous, blob, bytes, &patience, out);

    /* the root knows who is late: give it the time to say so */
    static const uint64_t grace_ns = 5 * WRING_NS_PER_S;
    patience.deadline_ns =
        deadline_ns > WRING_NEVER - grace_ns ? WRING_NEVER : deadline_ns + grace_ns;
    return wring_rendezvous_contribute(rendezvous, blob, bytes, &patience, out);
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
        if (rendezvous->fds[i] >= 0)
            close(rendezvous->fds[i]);
    free(rendezvous->fds);
    free(rendezvous);
}

static const struct wring_bootstrap_ops rendezvous_ops = {
    .name = "rendezvous",
    .exchange = rendezvous_exchange,
    .local_address = rendezvous_local_address,
    .close = rendezvous_close,
};

static void note_local_address(struct wring_rendezvous *rendezvous, int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return;
    getnameinfo((struct sockaddr *)&address, bytes, rendezvous->local_address,
                sizeof(rendezvous->local_address), NULL, 0, NI_NUMERICHOST);
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
        .base = {&rendezvous_ops, params->rank, params->size}, .log = params->log, .fds = fds};

    const char *key = params->key != NULL ? params->key : "";
    enum wring_status status =
        wring_secret_derive(key, strlen(key), "wring rendezvous", NULL, 0, secret);
    if (status == WRING_OK)
        status = params->rank == 0 ? wring_rendezvous_host(rendezvous, params, secret)
                                   : wring_rendezvous_join(rendezvous, params, secret);
    if (status != WRING_OK) {
        rendezvous_close(&rendezvous->base);
        return status;
    }
    note_local_address(rendezvous, params->rank == 0 ? fds[1] : fds[0]);
    *out = &rendezvous->base;
    return WRING_OK;
}
