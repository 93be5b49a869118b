/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An RDMA device as this process has it: one context, one protection domain and one registration
 * of each piece of common memory, for all rails of all providers on it. Each rail has a seat there.
 *
 *     provider ── rail ── seat ─┐
 *     provider ── rail ── seat ─┼── adapter (device, key) ── context, protection domain, shares
 *     provider ── rail ── seat ─┘
 *
 * Providers whose jobs have different keys have different adapters: a peer that knows the one key
 * cannot reach what the other protects, whatever remote keys it tries.
 *
 * The device's own events come once. Whichever provider reads one hands it to the seats that it
 * concerns and wakes them: a port's to all rails on that port, a queue pair's and a completion
 * queue's to their owner alone. A device that broke is given out to nobody new.
 *
 * A child of fork() has none of its parent's adapters, and opens its own.
 *
 * Threads: safe. No function is called where messages move.
 */
#ifndef WRING_VERBS_ADAPTER_H
#define WRING_VERBS_ADAPTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verbs_adapter;
struct verbs_opened;

/** The events of a seat since it was last asked. */
struct verbs_news {
    bool any;
    bool broken;      /* the device, or its completion queue */
    bool port_failed; /* at some time; and it is back: port_back */
    bool port_back;
    bool queue_pairs; /* some of these: see verbs_qp_news */
    enum ibv_event_type broken_by, last;
};

struct verbs_seat {
    struct verbs_adapter *adapter; /* NULL: it has none */
    struct ibv_context *context;   /* the adapter's, as is pd */
    struct ibv_pd *pd;
    struct verbs_seat *next; /* this and the news belong to the adapter */
    struct verbs_news news;
    uint8_t port;
    int bell; /* an eventfd of its owner, written to when there is news */
};

/** Behind a queue pair, as its qp_context. */
struct verbs_qp_news {
    struct verbs_seat *seat; /* NULL: nobody wants to know */
    int failure;             /* an enum ibv_event_type; 0: none. Atomic */
};

/**
 * Take a seat, and open the device if nobody has one.
 *
 * @param key   of the job, a text
 * @param seat  port and bell are set. Queue pairs have a verbs_qp_news as their context, completion
 *              queues the seat
 * @return false with errno: there is no such device, or it does not open
 */
bool wring_verbs_seat_take(const char *device, const char *key, struct verbs_seat *seat);

/** Its queue pairs, completion queues and shares are gone. One that was never taken is fine. */
void wring_verbs_seat_leave(struct verbs_seat *seat);

/** The context's async_fd is readable: read it, and tell all that it concerns. */
void wring_verbs_seat_listen(struct verbs_seat *seat);

/** @return false: there are none */
bool wring_verbs_seat_news(struct verbs_seat *seat, struct verbs_news *out);

/** What registrations have to have in common to be one. */
struct verbs_share_key {
    uintptr_t base;
    size_t bytes;
    unsigned access, kind;
};

/** The adapters' devices, whichever key they are for: to read what their ports say. */
extern const struct verbs_opened wring_verbs_opened;

/** A registration and its users. All but `mr` belongs to the adapter. */
struct verbs_share {
    struct ibv_mr *mr;
    struct verbs_share_key key;
    unsigned users;
    bool gone; /* its memory is another's now */
    struct verbs_share *next;
};

/**
 * Use a registration that is there, or else make it. Others who want the same one wait meanwhile.
 * @param make  registers; NULL with errno
 * @return NULL with errno
 */
struct verbs_share *wring_verbs_share_take(struct verbs_adapter *adapter,
                                           const struct verbs_share_key *key,
                                           struct ibv_mr *(*make)(void *arg), void *arg);

/** One user less; the last one deregisters. */
void wring_verbs_share_drop(struct verbs_adapter *adapter, struct verbs_share *share);

/** This memory is another's now: nobody new gets a registration of it. */
void wring_verbs_shares_gone(struct verbs_adapter *adapter, uintptr_t base, size_t bytes);

#endif
