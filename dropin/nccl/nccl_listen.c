/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What NCCL listens at: a socket each, so that a session of two can meet there.
 *
 * The first process that connects to ours by one of them comes to the socket, which a thread of
 * ours watches; it opens a link then. Later connections of the same process go by that link and
 * name the listen by its number. Sockets for CollNet are watched by nobody: rank 0's connect()
 * opens the session there.
 */
#include "dropin/nccl/nccl_own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/auth.h"
#include "transport/door.h"

static struct {
    pthread_t thread;
    bool runs; /* under the mutex */
    atomic_bool stops;
    atomic_int wake; /* an eventfd; -1: nobody watches */
} watcher = {.wake = -1};

void wring_nccl_listens_wake(void)
{
    uint64_t one = 1;
    int fd = atomic_load(&watcher.wake);
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        return; /* it is awake as it is */
}

/* ---- the thread that watches ---- */

/** Whoever stops this thread holds the mutex meanwhile. @return false: it is to stop */
static bool lock(void)
{
    const struct timespec pause = {0, 1000000};

    while (pthread_mutex_trylock(&wring_nccl_own.mutex) != 0) {
        if (atomic_load(&watcher.stops))
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/** The sockets to which somebody may come. @param fds out, from malloc(); NULL: no memory
 *  @return 0: there are none to look at now */
static unsigned collect(struct pollfd **fds, uint64_t **numbers)
{
    unsigned n = 1;

    *fds = NULL;
    *numbers = NULL;
    if (!lock())
        return 0;
    for (const struct wring_nccl_listen *at = wring_nccl_own.listens; at != NULL; at = at->next)
        n++;
    *fds = malloc(n * sizeof(**fds));
    *numbers = malloc(n * sizeof(**numbers));
    n = 0;
    if (*fds != NULL && *numbers != NULL) {
        (*fds)[n++] = (struct pollfd){atomic_load(&watcher.wake), POLLIN, 0};
        for (const struct wring_nccl_listen *at = wring_nccl_own.listens; at != NULL; at = at->next)
            if (at->fd >= 0 && !at->serves && at->handle.purpose == WRING_NCCL_MESSAGES) {
                (*numbers)[n] = at->handle.listen;
                (*fds)[n++] = (struct pollfd){at->fd, POLLIN, 0};
            }
    }
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    return n;
}

/** Somebody has come to these. */
static void serve(const struct pollfd *fds, const uint64_t *numbers, unsigned n)
{
    for (unsigned i = 1; i < n; i++) {
        if (fds[i].revents == 0 || !lock())
            continue;
        struct wring_nccl_listen *listen = wring_nccl_listen_of(numbers[i]);
        if (listen != NULL && listen->fd == fds[i].fd && !listen->serves)
            wring_nccl_link_serve(listen);
        pthread_mutex_unlock(&wring_nccl_own.mutex);
    }
}

static void *watch(void *arg)
{
    (void)arg;
    while (!atomic_load(&watcher.stops)) {
        struct pollfd *fds;
        uint64_t *numbers, count;
        unsigned n = collect(&fds, &numbers);
        if (n == 0)
            poll(NULL, 0, 100); /* no memory: later */
        else if (poll(fds, n, 1000) > 0) {
            if (fds[0].revents != 0 && read(fds[0].fd, &count, sizeof(count)) < 0)
                n = 1;
            serve(fds, numbers, n);
        }
        free(fds);
        free(numbers);
    }
    return NULL;
}

/** The mutex is held. */
static bool start_watcher(void)
{
    if (watcher.runs)
        return true;
    int wake = WRING_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (wake < 0) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: cannot listen: %s", WRING_REFUSED("eventfd"));
        return false;
    }
    atomic_store(&watcher.wake, wake);
    atomic_store(&watcher.stops, false);
    int error = wring_thread_create(&watcher.thread, watch, NULL);
    if (error == 0) {
        watcher.runs = true;
        return true;
    }
    wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: cannot listen: no thread: %s", strerror(error));
    atomic_store(&watcher.wake, -1);
    wring_descriptor_close(wake);
    return false;
}

void wring_nccl_listens_stop(void)
{
    if (!watcher.runs)
        return;
    atomic_store(&watcher.stops, true);
    wring_nccl_listens_wake();
    pthread_join(watcher.thread, NULL);
    wring_descriptor_close(atomic_exchange(&watcher.wake, -1));
    watcher.runs = false;
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
static bool fill(struct wring_nccl_listen *listen, int device, enum wring_nccl_purpose purpose)
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
    bool made = fill(new, device, purpose) && (purpose != WRING_NCCL_MESSAGES || start_watcher());
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
    wring_nccl_listens_wake();
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
static void drop_socket(struct wring_nccl_listen *listen)
{
    wring_descriptor_close(listen->fd);
    listen->fd = -1;
}

void wring_nccl_listen_served(struct wring_nccl_listen *listen)
{
    listen->serves = false;
    if (listen->handle.purpose == WRING_NCCL_COLLECTIVES)
        drop_socket(listen);
    else if (listen->closed)
        free_listen(listen, true);
    wring_nccl_listens_wake();
}

int wring_nccl_listen_close(void *listen)
{
    pthread_mutex_lock(&wring_nccl_own.mutex);
    wring_nccl_links_poll();
    struct wring_nccl_listen *found = wring_nccl_listen_find(listen);
    if (found != NULL)
        found->closed = true;
    if (found != NULL && !found->serves) {
        if (found->handle.purpose == WRING_NCCL_MESSAGES)
            free_listen(found, true);
        else
            drop_socket(found);
    }
    wring_nccl_own.leave();
    pthread_mutex_unlock(&wring_nccl_own.mutex);
    wring_nccl_listens_wake();
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
