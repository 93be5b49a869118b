/* SPDX-License-Identifier: Apache-2.0 */
/** How the two ranks of a pair meet: what a session does for its own connections, for one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/host.h"
#include "runtime/session/session.h"
#include "tools/bench/bench_pair.h"
#include "tools/commands.h"
#include "transport/auth.h"
#include "transport/interface.h"
#include "transport/memory.h"
#include "transport/providers/fault/fault.h"

#define NONCE_BYTES 32

/** Short bytes of ours for the other rank's. @param theirs out, [max] @param bytes out */
static enum wring_status swap(struct wring_bench_pair *pair, const void *own, size_t own_bytes,
                              void *theirs, size_t max, size_t *bytes)
{
    struct wring_blobs blobs;
    enum wring_status status = wring_session_exchange(pair->session, own, own_bytes, &blobs);

    if (status != WRING_OK)
        return status;
    struct wring_reader reader = wring_blobs_reader(&blobs, 1 - pair->rank);
    if (reader.bytes > max)
        status = WRING_ERR_FRAME;
    else
        memcpy(theirs, reader.data, *bytes = reader.bytes);
    wring_blobs_finish(&blobs);
    return status;
}

/** Could both do it? Each failure is said once by each rank. @param what "listen" */
static enum wring_status agree(struct wring_bench_pair *pair, enum wring_status status,
                               const char *what)
{
    char text[WRING_TEXT_MAX];

    snprintf(text, sizeof(text), "rank %" PRIu32 " cannot %s: %s", pair->rank, what,
             wring_status_text(status));
    return wring_session_agree(pair->session, status, text);
}

static enum wring_status join(struct wring_bench_pair *pair)
{
    static const char *const settings[] = {"WRING_FAULT=", "WRING_PROGRESS=thread",
                                           "WRING_EXECUTOR=inline", NULL};
    struct wring_session_params params = {.provider = "tcp", .settings = settings};
    enum wring_status status = wring_session_open(&params, &pair->session);

    if (status != WRING_OK)
        return status;
    pair->rank = wring_session_rank(pair->session);
    if (wring_session_size(pair->session) == 2)
        return WRING_OK;
    if (pair->rank == 0)
        wring_fail(pair->name, "needs 2 ranks; the launcher started %" PRIu32,
                   wring_session_size(pair->session));
    return WRING_ERR_INVALID;
}

/** What both ends of the connection prove to know: from the job's key and a number of rank 0's. */
static enum wring_status make_secret(struct wring_bench_pair *pair, uint8_t *secret)
{
    const char *key = pair->session->config.key;
    uint8_t own[NONCE_BYTES], theirs[NONCE_BYTES];
    size_t bytes;

    if (getrandom(own, sizeof(own), 0) != sizeof(own))
        return WRING_ERR_SYSTEM;
    enum wring_status status = swap(pair, own, sizeof(own), theirs, sizeof(theirs), &bytes);
    if (status == WRING_OK && bytes != NONCE_BYTES)
        status = WRING_ERR_FRAME;
    if (status != WRING_OK)
        return status;
    return wring_secret_derive(key, strlen(key), "wring bench p2p", pair->rank == 0 ? own : theirs,
                               NONCE_BYTES, secret);
}

/**
 * The address to listen on, as sessions choose it: without a key it is loopback. What of it cannot
 * be, the pair's own session has refused already.
 * @param found [WRING_INTERFACE_ADDRESS], filled if need be @param out NULL: loopback
 */
static enum wring_status choose_bind(const struct wring_bench_pair *pair, char *found,
                                     const char **out)
{
    const struct wring_session *session = pair->session;
    const char *address = session->config.bind;

    if (address[0] == '\0' && session->config.key[0] != '\0')
        address = session->bootstrap->ops->local_address(session->bootstrap);
    *out = address[0] != '\0' ? address : NULL;
    if (session->config.iface[0] == '\0')
        return WRING_OK;
    *out = found;
    return wring_interface_find(&pair->log, session->config.iface, address, found);
}

static enum wring_status wrap(struct wring_bench_pair *pair,
                              const struct wring_provider_params *params)
{
    struct wring_provider *inner = pair->provider;

    if (pair->config->fault[0] == '\0')
        return WRING_OK;
    return wring_fault_wrap(pair->config->fault, params, inner, &pair->provider);
}

static enum wring_status open_provider(struct wring_bench_pair *pair,
                                       const struct wring_provider_ops *ops, size_t memory_bytes)
{
    struct wring_provider_params params = {
        .log = &pair->log, .config = pair->config, .rank = pair->rank, .size = 2};
    char address[WRING_INTERFACE_ADDRESS];
    enum wring_status status = make_secret(pair, params.secret);

    if (status == WRING_OK)
        status = choose_bind(pair, address, &params.bind);
    if (status == WRING_OK)
        status = ops->open(&params, &pair->provider);
    if (status == WRING_OK)
        status = wrap(pair, &params);
    if (status == WRING_OK)
        status = wring_memory_alloc(memory_bytes, &pair->memory);
    if (status != WRING_OK)
        return status;
    memset(pair->memory.base, 0, pair->memory.bytes);
    ops = pair->provider->ops;
    ops->capabilities(pair->provider, &pair->caps);
    return ops->region_create(pair->provider, &pair->memory, &pair->region);
}

/** Can the provider reach from one rank to the other? Both find the same. */
static enum wring_status check_hosts(struct wring_bench_pair *pair)
{
    char own[WRING_CONFIG_TEXT] = "", theirs[WRING_CONFIG_TEXT];
    size_t bytes;

    wring_host_of_rank(pair->config->node, pair->rank, own, sizeof(own));
    enum wring_status status = swap(pair, own, strlen(own), theirs, sizeof(theirs), &bytes);
    bool same = status == WRING_OK && bytes == strlen(own) && memcmp(own, theirs, bytes) == 0;
    if (status != WRING_OK || same || !pair->caps.same_host_only)
        return status;
    if (pair->rank == 0)
        wring_fail(pair->name,
                   "the ranks are on two hosts, and %s reaches one only; try "
                   "--provider tcp",
                   pair->provider_name);
    return WRING_ERR_UNSUPPORTED;
}

/** Rank 1 connects to rank 0. */
static enum wring_status connect_pair(struct wring_bench_pair *pair)
{
    const struct wring_provider_ops *ops = pair->provider->ops;
    uint8_t own[WRING_ADDRESS_MAX], theirs[WRING_ADDRESS_MAX];
    size_t own_bytes = 0, bytes;
    enum wring_status status = ops->listen(pair->provider, own, &own_bytes);

    status = agree(pair, status, "listen");
    if (status != WRING_OK)
        return status;
    status = swap(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);
    if (status != WRING_OK)
        return status;
    if (pair->rank == 1)
        status = ops->connect(pair->provider, theirs, bytes, "p2p", 3, &pair->conn);
    uint64_t deadline = wring_deadline_in(pair->config->join_timeout_ns);
    while (status == WRING_OK && !pair->connected) {
        status = wring_bench_pair_poll(pair);
        if (status == WRING_OK && wring_now_ns() >= deadline)
            status = WRING_ERR_PEER;
    }
    return agree(pair, status, "connect");
}

static enum wring_status import_memory(struct wring_bench_pair *pair)
{
    const struct wring_provider_ops *ops = pair->provider->ops;
    uint8_t own[WRING_REGION_KEY_MAX], theirs[WRING_REGION_KEY_MAX];
    size_t own_bytes = ops->region_export(pair->region, own), bytes;
    enum wring_status status = swap(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);

    if (status == WRING_OK)
        status = ops->remote_import(pair->conn, theirs, bytes, &pair->remote);
    return agree(pair, status, "use the other's memory");
}

enum wring_status wring_bench_pair_open(struct wring_bench_pair *pair,
                                        const struct wring_bench_pair_params *params)
{
    *pair = (struct wring_bench_pair){
        .name = params->name,
        .config = params->config,
        .provider_name = params->provider->name,
        .log = {.level = wring_config_log_level(params->config)},
        .deadline_ns = WRING_NEVER,
    };
    enum wring_status status = join(pair);
    if (status != WRING_OK)
        return status; /* said */
    status = agree(pair, open_provider(pair, params->provider, params->memory_bytes),
                   "open the provider");
    if (status == WRING_OK)
        status = check_hosts(pair);
    if (status == WRING_OK)
        status = connect_pair(pair);
    if (status == WRING_OK)
        status = import_memory(pair);
    return status;
}

void wring_bench_pair_finish(struct wring_bench_pair *pair)
{
    if (pair->provider != NULL) {
        const struct wring_provider_ops *ops = pair->provider->ops;
        ops->remote_release(pair->remote);
        ops->disconnect(pair->conn);
        ops->region_destroy(pair->region);
        ops->close(pair->provider);
    }
    wring_memory_free(&pair->memory);
    wring_session_close(pair->session);
}
