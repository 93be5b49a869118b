/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/nccl/nccl_meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/handshake.h"

#define AGAIN_NS (50 * WRING_NS_PER_MS) /* between two tries to come */
#define INTRODUCTION_MAX (64u << 10)

static void close_socket(struct wring_nccl_meeting *meeting)
{
    wring_descriptor_close(meeting->fd);
    meeting->fd = -1;
}

/** @return its status, as an error */
__attribute__((format(printf, 3, 4))) static enum wring_status fail_meeting(
    struct wring_nccl_meeting *meeting, enum wring_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(meeting->why, sizeof(meeting->why), format, args);
    va_end(args);
    return status;
}

static void note_local_address(struct wring_nccl_meeting *meeting)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);

    if (getsockname(meeting->fd, (struct sockaddr *)&at, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&at, bytes, meeting->local, sizeof(meeting->local), NULL, 0,
                    NI_NUMERICHOST) != 0)
        meeting->local[0] = '\0';
}

static enum wring_status begin_proof(struct wring_nccl_meeting *meeting)
{
    uint8_t secret[WRING_SECRET_BYTES];
    const int one = 1;
    enum wring_status status = wring_secret_derive(meeting->key, strlen(meeting->key),
                                                   "wring nccl meeting", NULL, 0, secret);

    if (status != WRING_OK)
        return fail_meeting(meeting, status, "no secret can be derived from the key");
    setsockopt(meeting->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* or it is slower */
    note_local_address(meeting);
    wring_auth_init(&meeting->auth, meeting->dials, WRING_AUTH_NCCL, secret,
                    meeting->dials ? meeting->job : NULL,
                    meeting->dials ? sizeof(meeting->job) : 0);
    return WRING_OK;
}

void wring_nccl_meet_take(struct wring_nccl_meeting *meeting, int fd, const char *key,
                          uint64_t deadline_ns)
{
    *meeting = (struct wring_nccl_meeting){.fd = fd, .key = key, .deadline_ns = deadline_ns};
    if (begin_proof(meeting) != WRING_OK)
        close_socket(meeting);
}

/* ---- the side that comes ---- */

void wring_nccl_meet_dial(struct wring_nccl_meeting *meeting, const char *root, const char *key,
                          uint64_t deadline_ns)
{
    *meeting = (struct wring_nccl_meeting){
        .fd = -1, .dials = true, .root = root, .key = key, .deadline_ns = deadline_ns};
}

/** "10.0.0.1:4711" or "[fd00::1]:4711", of a handle: numbers, so that nobody is asked. */
static struct addrinfo *parse_root(const char *root)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    const char *colon = strrchr(root, ':');
    struct addrinfo *found;
    char host[64];

    if (colon == NULL || (size_t)(colon - root) >= sizeof(host))
        return NULL;
    size_t bytes = (size_t)(colon - root), skipped = root[0] == '[';
    if (bytes < 2 * skipped)
        return NULL;
    memcpy(host, root + skipped, bytes - 2 * skipped);
    host[bytes - 2 * skipped] = '\0';
    return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

static enum wring_status begin_connect(struct wring_nccl_meeting *meeting)
{
    struct addrinfo *found = parse_root(meeting->root);

    if (found == NULL)
        return fail_meeting(meeting, WRING_ERR_ADDRESS, "the handle names no address");
    if (!wring_random_bytes(meeting->job, sizeof(meeting->job)))
        return fail_meeting(meeting, WRING_ERR_SYSTEM, "the system gives no random numbers");
    meeting->fd =
        WRING_DESCRIPTOR(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = meeting->fd < 0 ? errno : 0;
    if (meeting->fd >= 0 && connect(meeting->fd, found->ai_addr, found->ai_addrlen) != 0)
        error = errno;
    freeaddrinfo(found);
    meeting->connecting = true;
    if (error == 0 || error == EINPROGRESS)
        return WRING_OK;
    char why[WRING_REFUSAL_TEXT];
    return fail_meeting(meeting, WRING_ERR_PEER, "%s",
                        wring_refusal(why, sizeof(why), "connect", error));
}

/** @return WRING_OK: it is connected */
static enum wring_status begin_proof_if_connected(struct wring_nccl_meeting *meeting)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(int), peer_bytes = sizeof(peer);
    char why[WRING_REFUSAL_TEXT];
    int error = 0;

    if (!meeting->connecting)
        return WRING_OK;
    getsockopt(meeting->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0)
        return fail_meeting(meeting, WRING_ERR_PEER, "%s",
                            wring_refusal(why, sizeof(why), "connect", error));
    if (getpeername(meeting->fd, (struct sockaddr *)&peer, &peer_bytes) != 0)
        return WRING_ERR_AGAIN;
    meeting->connecting = false;
    return begin_proof(meeting);
}

static enum wring_status step_proof(struct wring_nccl_meeting *meeting)
{
    enum wring_status status = WRING_OK;

    if (meeting->fd < 0 && meeting->dials)
        status = begin_connect(meeting);
    if (status == WRING_OK)
        status = begin_proof_if_connected(meeting);
    return status == WRING_OK ? wring_handshake_step(&meeting->auth, meeting->fd, meeting->why,
                                                     sizeof(meeting->why))
                              : status;
}

enum wring_status wring_nccl_meet_prove(struct wring_nccl_meeting *meeting)
{
    uint64_t now = wring_now_ns();
    size_t bytes;

    if (now >= meeting->deadline_ns) {
        if (meeting->why[0] == '\0')
            fail_meeting(meeting, WRING_ERR_TIMEOUT, "nobody answers there (WRING_JOIN_TIMEOUT)");
        return WRING_ERR_TIMEOUT;
    }
    if (now < meeting->again_ns)
        return WRING_ERR_AGAIN;
    enum wring_status status = step_proof(meeting);
    if (status == WRING_ERR_PEER && meeting->dials) { /* its door may be full for now */
        close_socket(meeting);
        meeting->again_ns = now + AGAIN_NS;
        return WRING_ERR_AGAIN;
    }
    if (status != WRING_OK)
        return status;
    const void *hello = wring_auth_hello(&meeting->auth, &bytes);
    if (!meeting->dials && bytes != sizeof(meeting->job))
        return fail_meeting(meeting, WRING_ERR_FRAME, "it names no link");
    if (!meeting->dials)
        memcpy(meeting->job, hello, sizeof(meeting->job));
    meeting->proven = true;
    meeting->why[0] = '\0';
    return WRING_OK;
}

/* ---- introductions ---- */

void wring_nccl_meet_tell(struct wring_nccl_meeting *meeting, enum wring_status status,
                          const char *text, const struct wring_writer *description)
{
    struct wring_writer *out = &meeting->out;

    wring_write_u32(out, 0);
    wring_write_u32(out, (uint32_t)status);
    wring_write_sized(out, text, strnlen(text, sizeof(meeting->why) - 1));
    wring_write_sized(out, description->data, description->bytes);
    if (!out->failed)
        wring_put_u32(out->data, (uint32_t)(out->bytes - sizeof(uint32_t)));
}

/** The other end's socket. @return bytes; 0: nothing now; -1: it has ended */
static ssize_t count_moved_bytes(ssize_t n)
{
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return n > 0 ? n : -1;
}

static enum wring_status send_introduction(struct wring_nccl_meeting *meeting)
{
    if (meeting->out.failed)
        return WRING_ERR_NO_MEMORY;
    while (meeting->sent < meeting->out.bytes) {
        ssize_t n = count_moved_bytes(send(meeting->fd, meeting->out.data + meeting->sent,
                                           meeting->out.bytes - meeting->sent,
                                           MSG_DONTWAIT | MSG_NOSIGNAL));
        if (n <= 0)
            return n == 0 ? WRING_ERR_AGAIN : WRING_ERR_PEER;
        meeting->sent += (size_t)n;
    }
    return WRING_OK;
}

/** How many bytes are to come in all, as far as is known. */
static size_t count_wanted_bytes(const struct wring_nccl_meeting *meeting)
{
    return meeting->in_bytes < sizeof(uint32_t) ? sizeof(uint32_t)
                                                : sizeof(uint32_t) + wring_get_u32(meeting->in);
}

static enum wring_status receive_introduction(struct wring_nccl_meeting *meeting)
{
    for (size_t most; meeting->in_bytes < (most = count_wanted_bytes(meeting));) {
        if (most > INTRODUCTION_MAX)
            return fail_meeting(meeting, WRING_ERR_FRAME, "its introduction has %zu bytes", most);
        if (meeting->in_room < most) {
            uint8_t *in = realloc(meeting->in, most);
            if (in == NULL)
                return WRING_ERR_NO_MEMORY;
            meeting->in = in;
            meeting->in_room = most;
        }
        ssize_t n = count_moved_bytes(recv(meeting->fd, meeting->in + meeting->in_bytes,
                                           most - meeting->in_bytes, MSG_DONTWAIT));
        if (n < 0)
            return fail_meeting(meeting, WRING_ERR_PEER, "the other process has gone");
        if (n == 0)
            return WRING_ERR_AGAIN;
        meeting->in_bytes += (size_t)n;
    }
    return WRING_OK;
}

/** Hostile bytes. @return what it says of itself */
static enum wring_status read_introduction(struct wring_nccl_meeting *meeting,
                                           const void **description, size_t *bytes)
{
    struct wring_reader reader = {meeting->in + sizeof(uint32_t),
                                  meeting->in_bytes - sizeof(uint32_t), false};
    char text[sizeof(meeting->why)];
    uint32_t status = wring_read_u32(&reader);

    wring_read_text(&reader, text, sizeof(text));
    *description = wring_read_sized(&reader, bytes);
    if (reader.failed || reader.bytes > 0 || status > WRING_ERR_CANCELLED ||
        status == WRING_ERR_AGAIN)
        return fail_meeting(meeting, WRING_ERR_FRAME, "its introduction is malformed");
    wring_text_clean(text);
    if (status != WRING_OK)
        snprintf(meeting->why, sizeof(meeting->why), "%s", text);
    return (enum wring_status)status;
}

enum wring_status wring_nccl_meet_hear(struct wring_nccl_meeting *meeting, const void **description,
                                       size_t *bytes)
{
    if (wring_now_ns() >= meeting->deadline_ns)
        return fail_meeting(meeting, WRING_ERR_TIMEOUT,
                            "it says nothing of itself (WRING_JOIN_TIMEOUT)");
    enum wring_status said = send_introduction(meeting), heard = receive_introduction(meeting);
    if (heard == WRING_OK)
        heard = read_introduction(meeting, description, bytes);
    if (heard != WRING_OK)
        return heard;
    return said == WRING_ERR_PEER ? fail_meeting(meeting, said, "the other process has gone")
                                  : said;
}

bool wring_nccl_meet_is_left(const struct wring_nccl_meeting *meeting)
{
    uint8_t byte;
    return count_moved_bytes(recv(meeting->fd, &byte, 1, MSG_DONTWAIT)) < 0;
}

void wring_nccl_meet_watch(struct wring_nccl_meeting *meeting, struct wring_nccl_watch *watch)
{
    bool room = meeting->connecting || meeting->sent < meeting->out.bytes ||
                (!meeting->proven && !meeting->connecting && meeting->fd >= 0 &&
                 wring_handshake_wants_room(&meeting->auth));

    if (meeting->fd >= 0)
        wring_nccl_watch_add(watch, meeting->fd, room ? POLLIN | POLLOUT : POLLIN);
    else if (meeting->dials)
        wring_nccl_watch_until(watch, meeting->again_ns);
    wring_nccl_watch_until(watch, meeting->deadline_ns);
}

void wring_nccl_meet_end(struct wring_nccl_meeting *meeting)
{
    close_socket(meeting);
    free(meeting->out.data);
    free(meeting->in);
    meeting->out = (struct wring_writer){0};
    meeting->in = NULL;
    meeting->in_bytes = meeting->in_room = 0;
}
