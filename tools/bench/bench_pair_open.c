/* SPDX-License-Identifier: Apache-2.0 */
/** How the two ranks of a pair meet: what a session does for its own connections, for one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/refusal.h"
#include "runtime/session/session.h"
#include "tools/bench/bench_pair.h"
#include "tools/commands.h"
#include "transport/auth.h"
#include "transport/interface.h"
#include "transport/memory.h"
#include "transport/providers/fault/fault.h"

#define NONCE_BYTES 32

static bool looks_on(const struct wring_bench_pair *pair)
{
    return pair->rank == WRING_PAIR_LOOKS_ON;
}

/** Short bytes of ours for the other rank's; who looks on gives and gets none.
 *  @param theirs out, [max] @param bytes out */
static enum wring_status swap(struct wring_bench_pair *pair, const void *own, size_t own_bytes,
                              void *theirs, size_t max, size_t *bytes)
{
    struct wring_blobs blobs;
    enum wring_status status =
        wring_session_exchange(pair->session, own, looks_on(pair) ? 0 : own_bytes, &blobs);

    *bytes = 0;
    if (status != WRING_OK)
        return status;
    struct wring_reader reader = wring_blobs_reader(&blobs, pair->peer);
    if (looks_on(pair))
        reader.bytes = 0;
    if (reader.bytes > max)
        status = WRING_ERR_FRAME;
    else if (reader.bytes > 0)
        memcpy(theirs, reader.data, *bytes = reader.bytes);
    wring_blobs_finish(&blobs);
    return status;
}

/** Could both do it? Each failure is said once by each rank. @param what "listen" */
static enum wring_status agree(struct wring_bench_pair *pair, enum wring_status status,
                               const char *what)
{
    char text[WRING_TEXT_MAX];

    snprintf(text, sizeof(text), "rank %" PRIu32 " cannot %s: %s",
             wring_session_rank(pair->session), what, wring_status_text(status));
    return wring_session_agree(pair->session, status, text);
}

/** A session of its own. */
static enum wring_status join(struct wring_bench_pair *pair)
{
    static const char *const settings[] = {"WRING_FAULT=", "WRING_PROGRESS=thread",
                                           "WRING_EXECUTOR=inline", NULL};
    struct wring_session_params params = {.provider = "tcp", .settings = settings};
    enum wring_status status = wring_session_open(&params, &pair->session);

    if (status != WRING_OK)
        return status;
    pair->owns_session = true;
    pair->rank = wring_session_rank(pair->session);
    pair->peer = 1 - pair->rank;
    if (wring_session_size(pair->session) == 2)
        return WRING_OK;
    if (pair->rank == 0)
        wring_fail(pair->name, "needs 2 ranks; the launcher started %" PRIu32,
                   wring_session_size(pair->session));
    return WRING_ERR_INVALID;
}

/** That of a job. */
static void borrow(struct wring_bench_pair *pair, const struct wring_bench_pair_params *params)
{
    uint32_t own = wring_session_rank(params->session);

    pair->session = params->session;
    pair->rank = own == params->ranks[0] ? 0 : own == params->ranks[1] ? 1 : WRING_PAIR_LOOKS_ON;
    pair->peer = params->ranks[pair->rank == 0];
}

/** What both ends of the connection prove to know: from the job's key and a number of rank 0's. */
static enum wring_status make_secret(struct wring_bench_pair *pair, uint8_t *secret)
{
    const char *key = pair->session->config.key;
    uint8_t own[NONCE_BYTES], theirs[NONCE_BYTES];
    size_t bytes;

    if (getrandom(own, sizeof(own), 0) != sizeof(own)) {
        wring_fail(pair->name, "no random numbers: %s", WRING_REFUSED("getrandom"));
        return WRING_ERR_SYSTEM;
    }
    enum wring_status status = swap(pair, own, sizeof(own), theirs, sizeof(theirs), &bytes);
    if (status == WRING_OK && bytes != NONCE_BYTES && !looks_on(pair))
        status = WRING_ERR_FRAME;
    if (status != WRING_OK || looks_on(pair))
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
        address = session->local_address;
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

    if (looks_on(pair))
        return status;
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

    wring_host_of_rank(pair->config->node, wring_session_rank(pair->session), own, sizeof(own));
    enum wring_status status = swap(pair, own, strlen(own), theirs, sizeof(theirs), &bytes);
    if (looks_on(pair))
        return status;
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

static enum wring_status wait_connected(struct wring_bench_pair *pair, const uint8_t *address,
                                        size_t bytes)
{
    uint64_t deadline = wring_deadline_in(pair->config->join_timeout_ns);
    enum wring_status status = WRING_OK;

    if (pair->rank == 1)
        status =
            pair->provider->ops->connect(pair->provider, address, bytes, "p2p", 3, &pair->conn);
    while (status == WRING_OK && !pair->connected) {
        status = wring_bench_pair_poll(pair);
        if (status == WRING_OK && wring_now_ns() >= deadline)
            status = WRING_ERR_PEER;
    }
    return status;
}

/** Rank 1 connects to rank 0. */
static enum wring_status connect_pair(struct wring_bench_pair *pair)
{
    uint8_t own[WRING_ADDRESS_MAX], theirs[WRING_ADDRESS_MAX];
    size_t own_bytes = 0, bytes;
    enum wring_status status = WRING_OK;

    if (!looks_on(pair))
        status = pair->provider->ops->listen(pair->provider, own, &own_bytes);
    status = agree(pair, status, "listen");
    if (status != WRING_OK)
        return status;
    status = swap(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);
    if (status != WRING_OK)
        return status;
    if (!looks_on(pair))
        status = wait_connected(pair, theirs, bytes);
    return agree(pair, status, "connect");
}

static enum wring_status import_memory(struct wring_bench_pair *pair)
{
    uint8_t own[WRING_REGION_KEY_MAX], theirs[WRING_REGION_KEY_MAX];
    size_t own_bytes = 0, bytes;

    if (!looks_on(pair))
        own_bytes = pair->provider->ops->region_export(pair->region, own);
    enum wring_status status = swap(pair, own, own_bytes, theirs, sizeof(theirs), &bytes);
    if (status == WRING_OK && !looks_on(pair))
        status = pair->provider->ops->remote_import(pair->conn, theirs, bytes, &pair->remote);
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
    enum wring_status status = WRING_OK;
    if (params->session != NULL)
        borrow(pair, params);
    else
        status = join(pair);
    if (status != WRING_OK)
        return status; /* said */
    status = agree(pair, open_provider(pair, params->provider, params->memory_bytes),
                   "open the provider");
    if (status == WRING_OK)
        status = agree(pair, check_hosts(pair), "reach the other rank");
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
    if (pair->owns_session)
        wring_session_close(pair->session);
}
