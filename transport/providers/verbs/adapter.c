/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/adapter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/hash.h"
#include "transport/providers/verbs/library.h"

#define BUCKETS 64
#define EVENTS_AT_ONCE 64

/* ---- the process's adapters ---- */

struct verbs_adapter {
    struct adapters *all; /* that it is one of */
    char device[VERBS_NAME];
    uint64_t key; /* a hash of the job's */
    unsigned users;
    atomic_bool broken;
    struct verbs_adapter *next; /* this, users and device belong to the process's list */
    struct verbs_library library;
    struct ibv_context *context;
    struct ibv_pd *pd;
    pthread_mutex_t events; /* of seats and their news; an event is read and told under it */
    struct verbs_seat *seats;
    pthread_mutex_t memory; /* of shares, while they are made as well */
    struct verbs_share *shares[BUCKETS];
};

/** All of one process. A child of fork() makes its own, and leaves this alone: another thread may
 *  have been in it. */
struct adapters {
    unsigned forked; /* wring_forked_count() of the process that made it */
    pthread_mutex_t mutex;
    struct verbs_adapter *first;
    struct adapters *parent; /* so that it can be reached */
};

static struct adapters *_Atomic ours;

/** @return NULL with errno */
static struct adapters *find_adapters(void)
{
    struct adapters *found = atomic_load_explicit(&ours, memory_order_acquire);
    while (found == NULL || found->forked != wring_forked_count()) {
        struct adapters *made = calloc(1, sizeof(*made));
        if (made == NULL)
            return NULL;
        made->forked = wring_forked_begin();
        made->parent = found;
        pthread_mutex_init(&made->mutex, NULL);
        if (atomic_compare_exchange_strong(&ours, &found, made))
            return made;
        pthread_mutex_destroy(&made->mutex);
        free(made); /* another thread was faster */
    }
    return found;
}

/** The library's own descriptors: above 2 as ours, and no child is to keep the device in use. */
static bool lend_descriptors(const struct ibv_context *context)
{
    int fd = context->async_fd;
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
           wring_descriptor_lend(context->cmd_fd) && wring_descriptor_lend(fd);
}

static void close_adapter(struct verbs_adapter *adapter)
{
    int saved = errno;
    if (adapter->pd != NULL)
        adapter->library.dealloc_pd(adapter->pd);
    if (adapter->context != NULL) {
        wring_descriptor_take_back(adapter->context->async_fd);
        wring_descriptor_take_back(adapter->context->cmd_fd);
        adapter->library.close_device(adapter->context);
    }
    wring_verbs_library_unload(&adapter->library);
    pthread_mutex_destroy(&adapter->memory);
    pthread_mutex_destroy(&adapter->events);
    free(adapter);
    errno = saved;
}

/** @return NULL with errno */
static struct verbs_adapter *open_adapter(const char *device, uint64_t key)
{
    char reason[VERBS_WHY];
    struct wring_stdio stdio;
    struct verbs_adapter *adapter = calloc(1, sizeof(*adapter));
    if (adapter == NULL)
        return NULL;
    snprintf(adapter->device, sizeof(adapter->device), "%s", device);
    adapter->key = key;
    pthread_mutex_init(&adapter->events, NULL);
    pthread_mutex_init(&adapter->memory, NULL);
    if (!wring_verbs_library_load(&adapter->library, reason, sizeof(reason))) {
        errno = ELIBACC; /* its caller has loaded it before */
        close_adapter(adapter);
        return NULL;
    }
    wring_stdio_fill(&stdio);
    adapter->context = wring_verbs_open_named(&adapter->library, device);
    int saved = errno;
    wring_stdio_free(&stdio);
    errno = saved;
    if (adapter->context != NULL && lend_descriptors(adapter->context))
        adapter->pd = adapter->library.alloc_pd(adapter->context);
    if (adapter->pd != NULL)
        return adapter;
    close_adapter(adapter);
    return NULL;
}

static struct verbs_adapter *find_adapter(struct adapters *all, const char *device, uint64_t key)
{
    struct verbs_adapter *at = all->first;
    while (at != NULL &&
           (at->key != key || strcmp(at->device, device) != 0 || atomic_load(&at->broken)))
        at = at->next;
    return at;
}

bool wring_verbs_seat_take(const char *device, const char *key, struct verbs_seat *seat)
{
    uint64_t hash = wring_fnv64(WRING_FNV64, key, strlen(key));
    struct adapters *all = find_adapters();
    if (all == NULL)
        return false;
    pthread_mutex_lock(&all->mutex);
    struct verbs_adapter *adapter = find_adapter(all, device, hash);
    if (adapter == NULL) {
        adapter = open_adapter(device, hash);
        if (adapter != NULL) {
            adapter->all = all;
            adapter->next = all->first;
            all->first = adapter;
        }
    }
    if (adapter != NULL) {
        adapter->users++;
        pthread_mutex_lock(&adapter->events);
        seat->adapter = adapter;
        seat->context = adapter->context;
        seat->pd = adapter->pd;
        seat->news = (struct verbs_news){0};
        seat->next = adapter->seats;
        adapter->seats = seat;
        pthread_mutex_unlock(&adapter->events);
    }
    pthread_mutex_unlock(&all->mutex);
    return adapter != NULL;
}

/** The last user has gone. The list is locked. */
static void remove_adapter(struct verbs_adapter *adapter)
{
    struct verbs_adapter **at = &adapter->all->first;
    while (*at != adapter)
        at = &(*at)->next;
    *at = adapter->next;
    close_adapter(adapter);
}

void wring_verbs_seat_leave(struct verbs_seat *seat)
{
    struct verbs_adapter *adapter = seat->adapter;
    if (adapter == NULL || adapter->all->forked != wring_forked_count())
        return; /* the parent's: another thread may have been in it */
    struct adapters *all = adapter->all;
    pthread_mutex_lock(&all->mutex);
    pthread_mutex_lock(&adapter->events);
    struct verbs_seat **at = &adapter->seats;
    while (*at != seat)
        at = &(*at)->next;
    *at = seat->next;
    pthread_mutex_unlock(&adapter->events);
    seat->adapter = NULL;
    if (--adapter->users == 0)
        remove_adapter(adapter);
    pthread_mutex_unlock(&all->mutex);
}

static struct ibv_context *borrow_context(const char *device)
{
    struct adapters *all = find_adapters();
    if (all == NULL)
        return NULL;
    pthread_mutex_lock(&all->mutex);
    struct verbs_adapter *at = all->first;
    while (at != NULL && (strcmp(at->device, device) != 0 || atomic_load(&at->broken)))
        at = at->next;
    if (at != NULL)
        at->users++;
    pthread_mutex_unlock(&all->mutex);
    return at != NULL ? at->context : NULL;
}

static void give_back_context(struct ibv_context *context)
{
    struct adapters *all = find_adapters(); /* there is one: it was borrowed here */
    pthread_mutex_lock(&all->mutex);
    struct verbs_adapter *at = all->first;
    while (at->context != context)
        at = at->next;
    if (--at->users == 0)
        remove_adapter(at);
    pthread_mutex_unlock(&all->mutex);
}

const struct verbs_opened wring_verbs_opened = {.borrow = borrow_context,
                                                .give_back = give_back_context};

/* ---- events ---- */

static void ring_seat(struct verbs_seat *seat, enum ibv_event_type what)
{
    const uint64_t one = 1;
    seat->news.any = true;
    seat->news.last = what;
    if (write(seat->bell, &one, sizeof(one)) < 0)
        return; /* it is full: it rings already */
}

static void tell_broken(struct verbs_seat *seat, enum ibv_event_type what)
{
    seat->news.broken = true;
    seat->news.broken_by = what;
    ring_seat(seat, what);
}

static void tell_port(struct verbs_seat *seat, enum ibv_event_type what)
{
    seat->news.port_back = what == IBV_EVENT_PORT_ACTIVE;
    seat->news.port_failed |= what == IBV_EVENT_PORT_ERR;
    ring_seat(seat, what);
}

static void tell_queue_pair(struct verbs_qp_news *news, enum ibv_event_type what)
{
    if (news == NULL || news->seat == NULL)
        return;
    __atomic_store_n(&news->failure, (int)what, __ATOMIC_RELAXED);
    news->seat->news.queue_pairs = true;
    ring_seat(news->seat, what);
}

/** Until it is acknowledged the event's queue pair or completion queue is not gone. */
static void tell(struct verbs_adapter *adapter, const struct ibv_async_event *event)
{
    enum ibv_event_type what = event->event_type;
    switch (what) {
    case IBV_EVENT_CQ_ERR: /* completion queues are too large for this to happen */
        if (event->element.cq->cq_context != NULL)
            tell_broken(event->element.cq->cq_context, what);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        tell_queue_pair(event->element.qp->qp_context, what);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        atomic_store(&adapter->broken, true);
        for (struct verbs_seat *at = adapter->seats; at != NULL; at = at->next)
            tell_broken(at, what);
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        for (struct verbs_seat *at = adapter->seats; at != NULL; at = at->next)
            if (at->port == event->element.port_num)
                tell_port(at, what);
        break;
    default: /* addresses and keys that change, path migration: nothing that we use */
        break;
    }
}

void wring_verbs_seat_listen(struct verbs_seat *seat)
{
    struct verbs_adapter *adapter = seat->adapter;
    struct ibv_async_event event;
    pthread_mutex_lock(&adapter->events); /* so two threads keep the events in order */
    for (unsigned i = 0;
         i < EVENTS_AT_ONCE && adapter->library.get_async_event(adapter->context, &event) == 0;
         i++) {
        tell(adapter, &event);
        adapter->library.ack_async_event(&event);
    }
    pthread_mutex_unlock(&adapter->events);
}

bool wring_verbs_seat_news(struct verbs_seat *seat, struct verbs_news *out)
{
    pthread_mutex_lock(&seat->adapter->events);
    *out = seat->news;
    seat->news = (struct verbs_news){0};
    pthread_mutex_unlock(&seat->adapter->events);
    return out->any;
}

/* ---- memory ---- */

static struct verbs_share **bucket_of(struct verbs_adapter *adapter,
                                      const struct verbs_share_key *key)
{
    return &adapter->shares[wring_fold(key->bytes, key->base) % BUCKETS];
}

static bool is_key(const struct verbs_share *share, const struct verbs_share_key *key)
{
    return !share->gone && share->key.base == key->base && share->key.bytes == key->bytes &&
           share->key.access == key->access && share->key.kind == key->kind;
}

/** The memory is locked. @return NULL with errno */
static struct verbs_share *make_share(struct verbs_share **bucket,
                                      const struct verbs_share_key *key,
                                      struct ibv_mr *(*make)(void *arg), void *arg)
{
    struct verbs_share *share = calloc(1, sizeof(*share));
    if (share == NULL)
        return NULL;
    share->key = *key;
    share->mr = make(arg);
    if (share->mr == NULL) {
        int saved = errno;
        free(share);
        errno = saved;
        return NULL;
    }
    share->next = *bucket;
    *bucket = share;
    return share;
}

struct verbs_share *wring_verbs_share_take(struct verbs_adapter *adapter,
                                           const struct verbs_share_key *key,
                                           struct ibv_mr *(*make)(void *arg), void *arg)
{
    struct verbs_share **bucket = bucket_of(adapter, key);
    pthread_mutex_lock(&adapter->memory);
    struct verbs_share *share = *bucket;
    while (share != NULL && !is_key(share, key))
        share = share->next;
    if (share == NULL)
        share = make_share(bucket, key, make, arg);
    if (share != NULL)
        share->users++;
    pthread_mutex_unlock(&adapter->memory);
    return share;
}

void wring_verbs_share_drop(struct verbs_adapter *adapter, struct verbs_share *share)
{
    pthread_mutex_lock(&adapter->memory);
    if (--share->users == 0) {
        struct verbs_share **at = bucket_of(adapter, &share->key);
        while (*at != share)
            at = &(*at)->next;
        *at = share->next;
        adapter->library.dereg_mr(share->mr);
        free(share);
    }
    pthread_mutex_unlock(&adapter->memory);
}

void wring_verbs_shares_gone(struct verbs_adapter *adapter, uintptr_t base, size_t bytes)
{
    pthread_mutex_lock(&adapter->memory);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct verbs_share *at = adapter->shares[i]; at != NULL; at = at->next)
            at->gone |= base < at->key.base + at->key.bytes && at->key.base < base + bytes;
    pthread_mutex_unlock(&adapter->memory);
}
