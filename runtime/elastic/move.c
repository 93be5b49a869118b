/* SPDX-License-Identifier: Apache-2.0 */
/* What the application has pointers to goes from one session to another. */
#include "runtime/elastic/elastic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/plan/bucket_fusion.h"
#include "transport/door.h"

#define WRING_MODULE "elastic"
#define BACKLOG 1024 /* ranks that dial at once; the system may allow fewer */

enum wring_status wring_elastic_check(const struct wring_session *session)
{
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};

    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (!at->dropped && at->whole == NULL && at->group != session->world) {
                wring_error(&session->log,
                            "bucket '%s' belongs to a group, which ends with its session: drop it "
                            "by wring_bucket_drop(), and register it in a group of the new one",
                            at->name);
                return WRING_ERR_UNSUPPORTED;
            }
    return WRING_OK;
}

enum wring_status wring_elastic_uncommit(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    wring_commit_undo(session);
    wring_legs_remove(session);
    wring_progress_unlock(session->progress);
    enum wring_status status = wring_bucket_fusion_part_all(session);
    wring_commit_free_dropped(session);
    return status;
}

/* ---- buffers ---- */

/** Known to no provider; the memory stays. */
static void detach_buffer(struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;

    buffer->block.owned = false;
    wring_block_finish(&buffer->block);
    buffer->block = (struct wring_block){.memory = memory, .owned = owned};
}

static enum wring_status attach_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    struct wring_memory memory = buffer->block.memory;
    bool owned = buffer->block.owned;
    struct wring_block block;

    enum wring_status status = wring_block_borrow_memory(session->fabric, &memory, &block);
    if (status != WRING_OK)
        return status;
    block.memory = memory;
    block.owned = owned;
    buffer->block = block;
    return WRING_OK;
}

static void move_list_of_buffers(struct wring_session *from, struct wring_session *to)
{
    to->buffers = from->buffers;
    to->buffer_index = from->buffer_index;
    to->arena_bytes = from->arena_bytes;
    atomic_store(&to->n_device_buffers, atomic_load(&from->n_device_buffers));
    from->buffers = NULL;
    from->buffer_index = (struct wring_buffer_index){0};
    from->arena_bytes = 0;
    atomic_store(&from->n_device_buffers, 0);
}

static void detach_buffers(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        detach_buffer(at);
    wring_progress_unlock(session->progress);
}

static enum wring_status attach_buffers(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    wring_progress_lock(session->progress);
    for (struct wring_buffer *at = session->buffers; at != NULL && status == WRING_OK;
         at = at->next)
        status = attach_buffer(session, at);
    wring_progress_unlock(session->progress);
    return status;
}

/* ---- both ---- */

static void append_bucket(struct wring_session *session, struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != NULL)
        at = &(*at)->next;
    *at = bucket;
    bucket->next = NULL;
}

/** One that fails to stays in the list that it was in. */
static enum wring_status move_buckets(struct wring_session *from, struct wring_session *to)
{
    enum wring_status status = WRING_OK;

    while (from->buckets != NULL && status == WRING_OK) {
        struct wring_bucket *bucket = from->buckets;
        from->buckets = bucket->next;
        status = wring_bucket_move(bucket, to);
        append_bucket(to, bucket);
    }
    return status;
}

enum wring_status wring_elastic_move(struct wring_session *from, struct wring_session *to)
{
    detach_buffers(from);
    move_list_of_buffers(from, to);
    enum wring_status status = attach_buffers(to);
    return status == WRING_OK ? move_buckets(from, to) : status;
}

void wring_elastic_move_back(struct wring_session *from, struct wring_session *to)
{
    wring_elastic_uncommit(from);
    if (from->buffers != NULL) {
        detach_buffers(from);
        move_list_of_buffers(from, to);
    }
    move_buckets(from, to);
}

/* ---- where the others meet this rank ---- */

/** A number, with its zone: names are not looked up here. */
static bool parse_number(const char *text, struct sockaddr_storage *out, socklen_t *bytes)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;

    if (getaddrinfo(text, NULL, &hints, &found) != 0)
        return false;
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

enum wring_status wring_elastic_listen(const struct wring_session *session, char *address,
                                       uint16_t *port, int *fd)
{
    const struct wring_config *config = &session->config;
    struct sockaddr_storage storage = {0};
    socklen_t bytes = 0;
    struct wring_ports ports;
    char why[160] = "it is no address";
    const char *text = "127.0.0.1";

    if (config->key[0] != '\0' && session->local_address[0] != '\0')
        text = session->local_address;
    if (config->bind[0] != '\0')
        text = config->bind;
    enum wring_status status = wring_ports_read(&session->log, config->ports, &ports);
    if (status != WRING_OK)
        return status;
    int listening = -1;
    if (parse_number(text, &storage, &bytes))
        listening = wring_ports_listen(&ports, &storage, bytes, BACKLOG, why, sizeof(why));
    if (listening < 0) {
        wring_error(&session->log, "this rank cannot listen for the others at %s: %s", text, why);
        return WRING_ERR_ADDRESS;
    }
    bytes = sizeof(storage);
    getsockname(listening, (struct sockaddr *)&storage, &bytes);
    *port = ntohs(storage.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&storage)->sin6_port
                                                : ((const struct sockaddr_in *)&storage)->sin_port);
    snprintf(address, WRING_INTERFACE_ADDRESS, "%.*s", WRING_INTERFACE_ADDRESS - 1, text);
    *fd = listening;
    return WRING_OK;
}

void wring_elastic_name_root(const char *address, uint16_t port, char *text, size_t bytes)
{
    snprintf(text, bytes, strchr(address, ':') != NULL ? "[%s]:%u" : "%s:%u", address, port);
}
