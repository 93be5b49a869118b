/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What NCCL listens at: a socket each.
 *
 * The first process that connects to ours by one of them comes to the socket, which our thread
 * watches. Whoever proves the handle's key there gets a link. Later connections of the same process
 * go by that link and name the listen by its number. Sockets for CollNet are watched by nobody:
 * rank 0's connect() opens the session there.
 */
#include "dropin/nccl/nccl_own.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/door.h"

/* ---- the door ---- */

#define GUESTS 32u                    /* that have proven nothing yet, of all listens */
#define PROOF_NS (5 * WRING_NS_PER_S) /* for each */
#define SLOW_NS (1 * WRING_NS_PER_S)  /* then it may have to make room */
#define FULL_NS (5 * WRING_NS_PER_MS) /* until it is asked again who has to */

struct guest {
    struct wring_nccl_meeting meeting;
    struct wring_door_guest seat;
    const struct wring_nccl_listen *listen;
};

static struct { /* under the mutex */
    struct guest guests[GUESTS];
    unsigned n;
    bool full; /* somebody waits outside */
    struct wring_door door;
} hall = {.door = {.module = WRING_MODULE}};

static bool is_watched(const struct wring_nccl_listen *listen)
{
    return listen->fd >= 0 && listen->handle.purpose == WRING_NCCL_MESSAGES;
}

/** It goes, or has become a link's. */
static void remove_guest(unsigned i)
{
    hall.guests[i] = hall.guests[--hall.n];
}

static void turn_out_guest(unsigned i)
{
    wring_nccl_meet_end(&hall.guests[i].meeting);
    remove_guest(i);
}

/** @return false: nobody has to go for those outside */
static bool make_room_for_guest(uint64_t now)
{
    struct wring_door_guest seats[GUESTS];

    if (hall.n < GUESTS)
        return true;
    for (unsigned i = 0; i < hall.n; i++) {
        seats[i] = hall.guests[i].seat;
        seats[i].silent = !wring_auth_has_heard(&hall.guests[i].meeting.auth);
    }
    int victim = wring_door_choose(seats, hall.n, now, SLOW_NS);
    if (victim >= 0)
        turn_out_guest((unsigned)victim);
    return victim >= 0;
}

static void let_guests_in(const struct wring_nccl_listen *listen, uint64_t now)
{
    struct sockaddr_storage from;
    int fd;

    while (wring_door_is_open(&hall.door, now)) {
        hall.full = !make_room_for_guest(now);
        if (hall.full || wring_door_accept(&hall.door, &wring_nccl_own.log, listen->fd, 0, &fd,
                                           &from) != WRING_DOOR_ACCEPTED)
            return;
        struct guest *guest = &hall.guests[hall.n++];
        *guest = (struct guest){.listen = listen,
                                .seat = {.since_ns = now, .from = wring_door_origin(&from)}};
        wring_nccl_meet_take(&guest->meeting, fd, listen->key, now + PROOF_NS);
    }
}

/** @return false: it has left its place */
static bool serve_or_refuse_guest(struct guest *guest)
{
    enum wring_status status =
        guest->meeting.fd >= 0 ? wring_nccl_meet_prove(&guest->meeting) : WRING_ERR_SYSTEM;

    if (status == WRING_ERR_AGAIN)
        return true;
    if (status == WRING_OK) {
        wring_nccl_link_serve(guest->listen, &guest->meeting);
        remove_guest((unsigned)(guest - hall.guests));
        return false;
    }
    wring_nccl_say(WRING_NCCL_LOG_INFO, "wring: refused who came to %s: %s: %s",
                   guest->listen->handle.root, wring_status_text(status), guest->meeting.why);
    turn_out_guest((unsigned)(guest - hall.guests));
    return false;
}

void wring_nccl_listens_serve(const struct wring_nccl_watch *watch)
{
    uint64_t now = wring_now_ns();
    bool again = hall.full;

    for (const struct wring_nccl_listen *at = wring_nccl_own.listens; at != NULL; at = at->next)
        if (is_watched(at) && (again || wring_nccl_watch_saw(watch, at->at, at->fd)))
            let_guests_in(at, now);
    for (unsigned i = 0; i < hall.n;)
        i += serve_or_refuse_guest(&hall.guests[i]);
}

void wring_nccl_listens_watch(struct wring_nccl_watch *watch)
{
    bool open = wring_door_is_open(&hall.door, wring_now_ns());

    for (struct wring_nccl_listen *at = wring_nccl_own.listens; at != NULL; at = at->next)
        at->at = open && !hall.full && is_watched(at) ? wring_nccl_watch_add(watch, at->fd, POLLIN)
                                                      : UINT_MAX;
    for (unsigned i = 0; i < hall.n; i++)
        wring_nccl_meet_watch(&hall.guests[i].meeting, watch);
    if (!open)
        wring_nccl_watch_until(watch, hall.door.retry_ns);
    if (hall.full)
        wring_nccl_watch_until(watch, wring_deadline_in(FULL_NS));
}

/* ---- making one ---- */

/** Where our sockets are. @return its bytes; 0: the address cannot be read, which is logged */
static socklen_t own_address(struct sockaddr_storage *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    int failed = getaddrinfo(wring_nccl_own.address, NULL, &hints, &found);

    if (failed != 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: cannot listen at '%s': %s",
                       wring_nccl_own.address, gai_strerror(failed));
        return 0;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    socklen_t bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return bytes;
}

/** "10.0.0.1:4000". @return false: it is too long for a handle */
static bool write_root(int fd, char *root)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);
    char host[INET6_ADDRSTRLEN], port[8];
    int n;

    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&at, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    n = snprintf(root, WRING_NCCL_ROOT, at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return n > 0 && n < WRING_NCCL_ROOT;
}

static int open_socket(char *root)
{
    struct wring_ports ports;
    struct sockaddr_storage address;
    char why[160];

    if (wring_ports_read(&wring_nccl_own.log, wring_nccl_own.config.ports, &ports) != WRING_OK)
        return -1;
    socklen_t bytes = own_address(&address);
    if (bytes == 0)
        return -1;
    int fd = wring_ports_listen(&ports, &address, bytes, SOMAXCONN, why, sizeof(why));
    if (fd < 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: cannot listen at %s: %s",
                       wring_nccl_own.address, why);
        return -1;
    }
    if (write_root(fd, root))
        return fd;
    wring_nccl_say(
        WRING_NCCL_LOG_WARN,
        "wring: the address %s does not fit into a handle: set WRING_BIND to another one",
        wring_nccl_own.address);
    wring_descriptor_close(fd);
    return -1;
}

/** The mutex is held. */
static bool open_listen(struct wring_nccl_listen *listen, int device,
                        enum wring_nccl_purpose purpose)
{
    struct wring_nccl_handle *handle = &listen->handle;

    handle->purpose = (uint32_t)purpose;
    handle->device = (uint8_t)device;
    handle->n_devices = (uint8_t)wring_nccl_own.n_devices;
    handle->keyed = wring_nccl_own.key[0] != '\0';
    memcpy(handle->process, wring_nccl_own.process, WRING_NCCL_PROCESS);
    handle->listen = ++wring_nccl_own.n_listens;
    if (!handle->keyed && !wring_random_bytes(handle->secret, WRING_NCCL_SECRET)) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: the system gives no random numbers");
        return false;
    }
    wring_nccl_key_of(handle, listen->key);
    listen->at = UINT_MAX;
    listen->last = &listen->arrivals;
    listen->fd = open_socket(handle->root);
    return listen->fd >= 0;
}

int wring_nccl_listen_create(int device, enum wring_nccl_purpose purpose, void *handle,
                             void **listen)
{
    int code = wring_nccl_check_device(device);
    if (code != WRING_NCCL_SUCCESS)
        return code;
    struct wring_nccl_listen *new = calloc(1, sizeof(*new));
    if (new == NULL)
        return WRING_NCCL_SYSTEM_ERROR;
    pthread_mutex_lock(&wring_nccl_own.mutex);
    bool made = open_listen(new, device, purpose) &&
                (purpose != WRING_NCCL_MESSAGES || wring_nccl_watch_start());
    if (made) {
        new->next = wring_nccl_own.listens;
        wring_nccl_own.listens = new;
        wring_nccl_handle_write(&new->handle, handle);
    } else {
        wring_descriptor_close(new->fd);
        free(new);
    }
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    if (!made)
        return WRING_NCCL_SYSTEM_ERROR;
    wring_nccl_watch_wake();
    *listen = new;
    return WRING_NCCL_SUCCESS;
}

/* ---- finding and closing one ---- */

struct wring_nccl_listen *wring_nccl_listen_find(const void *listen)
{
    struct wring_nccl_listen *at = wring_nccl_own.listens;
    while (at != NULL && at != listen)
        at = at->next;
    return at;
}

struct wring_nccl_listen *wring_nccl_listen_of(uint64_t number)
{
    struct wring_nccl_listen *at = wring_nccl_own.listens;
    while (at != NULL && at->handle.listen != number)
        at = at->next;
    return at != NULL && !at->closed ? at : NULL;
}

/** @param refuses  who waits to be accepted hears of it */
static void free_listen(struct wring_nccl_listen *listen, bool refuses)
{
    struct wring_nccl_listen **at = &wring_nccl_own.listens;
    while (*at != listen)
        at = &(*at)->next;
    *at = listen->next;
    for (unsigned i = hall.n; i-- > 0;)
        if (hall.guests[i].listen == listen)
            turn_out_guest(i);
    while (listen->arrivals != NULL) {
        struct wring_nccl_arrival *arrival = listen->arrivals;
        listen->arrivals = arrival->next;
        if (refuses) {
            arrival->link->n_arrivals--;
            wring_nccl_link_refuse(arrival->link, arrival->conn);
        }
        free(arrival);
    }
    wring_descriptor_close(listen->fd);
    free(listen);
}

/** Of CollNet: what NCCL may name again after it has closed it. The mutex is held. */
static void close_listen_socket(struct wring_nccl_listen *listen)
{
    wring_descriptor_close(listen->fd);
    listen->fd = -1;
}

void wring_nccl_listen_served(struct wring_nccl_listen *listen)
{
    listen->serves = false;
    close_listen_socket(listen);
}

int wring_nccl_listen_close(void *listen)
{
    pthread_mutex_lock(&wring_nccl_own.mutex);
    wring_nccl_links_poll();
    struct wring_nccl_listen *found = wring_nccl_listen_find(listen);
    if (found != NULL)
        found->closed = true;
    if (found != NULL && found->handle.purpose == WRING_NCCL_MESSAGES)
        free_listen(found, true);
    else if (found != NULL && !found->serves)
        close_listen_socket(found);
    wring_nccl_own.leave();
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    wring_nccl_watch_wake();
    return WRING_NCCL_SUCCESS;
}

bool wring_nccl_listens_are_open(void)
{
    for (const struct wring_nccl_listen *at = wring_nccl_own.listens; at != NULL; at = at->next)
        if (!at->closed)
            return true;
    return false;
}

void wring_nccl_listens_finish(void)
{
    while (wring_nccl_own.listens != NULL)
        free_listen(wring_nccl_own.listens, false);
}
