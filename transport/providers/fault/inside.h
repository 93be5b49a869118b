/* SPDX-License-Identifier: Apache-2.0 */
/** The fault provider's objects, private to this folder. */
#ifndef WRING_FAULT_INSIDE_H
#define WRING_FAULT_INSIDE_H

#include "base/log.h"
#include "transport/providers/fault/fault.h"

#define WRING_MODULE "fault"
#define FAULT_EVENTS_MAX 1024 /* late ones of a kind; while there are so many, all else waits */
#define FAULT_TEXT 256

struct fault_remote {
    struct wring_remote base;
    struct wring_provider *provider; /* inner */
    struct wring_remote *inner;
    uint32_t waiting; /* puts there that have not left yet: it stays for them */
    bool released;    /* by the layer above */
};

/** A put that has not left yet. */
struct fault_put {
    struct wring_region *region;
    const void *local;
    struct fault_remote *remote;
    uint64_t remote_offset, cookie, due_ns;
    uint64_t number; /* of all puts, in the order in which they took the link */
    size_t bytes;
    uint32_t imm;
};

struct fault_conn {
    struct wring_conn base;
    struct wring_conn *inner; /* NULL: cut */
    struct fault_conn *next;
    bool closed;     /* no put or message leaves any more; CLOSED may still be to be reported */
    bool cut_untold; /* cut here, and CLOSED is still to be reported */
    char text[FAULT_TEXT];
    uint64_t arrived_due_ns, heard_due_ns; /* the last ones': later ones do not overtake them */
    uint32_t n_held;                       /* events about it, of both queues */
    uint32_t first, n;                     /* puts that wait, in their order */
    uint64_t left, done;     /* puts that the inner provider has taken, and of these is done with */
    bool blocked;            /* the inner provider had no room for the first one, when last tried */
    struct fault_put puts[]; /* [caps.put_depth], a ring */
};

/** An event that the layer above has not seen yet. */
struct fault_event {
    struct wring_event event; /* conn NULL: its connection is gone */
    uint64_t due_ns;
};

/** Events in the order in which they are due. */
struct fault_queue {
    struct fault_event events[FAULT_EVENTS_MAX];
    uint32_t first, n;
};

/** The payload of a put under way, with a byte changed, or whose source is not to be read. */
struct fault_copy {
    struct fault_copy *next;
    const struct fault_conn *conn;
    uint64_t number;             /* of the put, as conn->left counts */
    struct wring_region *region; /* of the inner provider; NULL where that sends from any memory */
    uint8_t data[];
};

struct fault_provider {
    struct wring_provider base;
    struct wring_provider *inner;
    struct wring_provider_caps caps; /* of inner */
    const struct wring_log *log;
    struct wring_fault_schedule schedule;
    uint32_t rank;
    struct fault_conn *conns;
    struct fault_copy *copies;
    uint64_t puts, put_bytes, messages, arrivals, messages_seen; /* so far: they number the draws */
    uint64_t posted;                                             /* puts that took the link */
    uint32_t cuts_untold;

    struct fault_queue arrived;                      /* and CLOSED, which comes last */
    struct fault_queue heard;                        /* control messages */
    uint8_t texts[FAULT_EVENTS_MAX][WRING_SEND_MAX]; /* of the messages in `heard` */
    uint32_t free_texts[FAULT_EVENTS_MAX], n_free_texts;
    int timer;             /* wakes a sleeper that does not know the next due time */
    bool armed, timing;    /* the caller may sleep after the next poll; the timer is set */
    uint64_t known_due_ns; /* as arm told it */
    double egress_free_ns, ingress_free_ns; /* when the link's two directions are idle again */
};

static inline struct fault_provider *fault_of(struct wring_provider *base)
{
    return (struct fault_provider *)base;
}

static inline struct fault_conn *fault_conn_of(struct wring_conn *base)
{
    return (struct fault_conn *)base;
}

/* fault.c */

/* fault/fault.c: what was seen and is not due */

/** Forget what waits for a connection. */
void wring_fault_forget(struct fault_provider *provider, struct fault_conn *conn);

/* fault/harm.c: what the schedule does to puts and messages as they leave */

/** Cut the connection if the schedule says so for its next put. @return true if it is cut now */
bool wring_fault_cut(struct fault_provider *provider, struct fault_conn *conn, size_t bytes);

/** Hand a put to the inner provider, spoiled where the schedule says so. Errors: as put has. */
enum wring_status wring_fault_deliver(struct fault_provider *provider, struct fault_conn *conn,
                                      const struct fault_put *put);

/** The same for a control message. */
enum wring_status wring_fault_send(struct wring_conn *conn, const void *data, size_t bytes);

/** Have the i-th put that waits leave from a copy. @return false: no memory */
bool wring_fault_copy_source(struct fault_provider *provider, const struct fault_conn *conn,
                             uint32_t i, struct fault_put *put);

/** The inner provider is done with its next put: the source is not needed any more. */
void wring_fault_put_done(struct fault_provider *provider, struct fault_conn *conn);

/** Free the copies of a connection; NULL: all. */
void wring_fault_copies_free(struct fault_provider *provider, const struct fault_conn *conn);

#endif
