/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the shm provider: ranks on one host copy straight into each other's memory.
 *
 * Ranks meet on UNIX sockets without a name in the file system, prove the job's key, and hand each
 * other descriptors of files without names: one ring per direction, and every region. So there is
 * nothing to be left behind, whatever kills a rank, and nobody without the key or of another user
 * gets at any of it. A put is a copy into the peer's region and one ring entry; a rank that does
 * not sleep makes no system call.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_SHM_H
#define WRING_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/door.h"
#include <wring/provider.h>
#include <wring/status.h>

/*
 * One direction of a shared-memory connection: a ring of descriptors with one producer and one
 * consumer, in a file without a name that the consumer made. transport/WIRE.md, "shm", has the
 * layout.
 *
 * Each entry has a cache line, and in it a mark that says that it is there: the consumer looks at
 * nothing else, so that one line that changes cores is what a message costs. A small message
 * travels in that line, too.
 *
 * The other process can write to all of it at any time. Each side therefore keeps its own index in
 * private memory, publishes it for the other to see, and believes of the other's index only what
 * can be true. Nothing here loops.
 *
 * Objects are used by one thread at a time.
 */

#define SHM_RING_ENTRIES 256 /* a power of two */
#define SHM_INSIDE_MAX 32    /* bytes that travel in the entry's line */

enum shm_kind {
    SHM_PUT = 1,     /* region, offset, bytes, imm: the data lies there already */
    SHM_MESSAGE = 2, /* bytes: a long one is in the message slot of the same number */
    SHM_INSIDE = 3,  /* a put whose data is in the entry: the consumer takes it to its place */
};

struct shm_entry {
    uint64_t region; /* the id under which the consumer announced it */
    uint64_t offset;
    uint64_t bytes;
    uint32_t imm;
    uint32_t kind;
};

/* an entry as it lies in the file; all but the mark is written before it */
struct shm_cell {
    alignas(64) uint64_t region;
    uint64_t offset;
    uint64_t bytes;
    uint32_t imm;
    _Atomic uint32_t mark; /* kind, and above its 8 bits the entry's number + 1 */
    uint8_t inside[SHM_INSIDE_MAX];
};

/* what lies in the file; every writer has cache lines of its own */
struct shm_inbox {
    alignas(64) _Atomic uint32_t head;   /* producer: entries ever written */
    _Atomic uint32_t left;               /* producer: it closes on purpose */
    alignas(64) _Atomic uint32_t tail;   /* consumer: entries ever taken */
    alignas(64) _Atomic uint32_t asleep; /* consumer sets it, the producer that wakes it clears */
    _Atomic uint32_t gone;               /* consumer: how many regions of its are no more */
    struct shm_cell cells[SHM_RING_ENTRIES];
    uint8_t messages[SHM_RING_ENTRIES][WRING_SEND_MAX];
};

struct shm_ring {
    struct shm_inbox *inbox; /* NULL until made or mapped */
    uint32_t head;           /* producer: entries written */
    uint32_t tail;           /* consumer: entries taken; producer: what it last saw of that */
};

/**
 * Make the consumer's end.
 * @param fd    out, to be sent to the producer; the caller closes it
 * @param call  out: the call that the system refused, for the log
 * Errors: WRING_ERR_SYSTEM, with errno.
 */
enum wring_status wring_shm_ring_create(struct shm_ring *ring, int *fd, const char **call);

/** Map the producer's end; WRING_ERR_FRAME if fd is not what create makes, WRING_ERR_SYSTEM
 *  with errno. fd stays open. */
enum wring_status wring_shm_ring_map(struct shm_ring *ring, int fd);

/** Unmap. Fine for a zeroed ring. */
void wring_shm_ring_finish(struct shm_ring *ring);

/** Producer: may one entry be pushed? WRING_ERR_AGAIN if full, WRING_ERR_FRAME if tampered with. */
enum wring_status wring_shm_ring_room(struct shm_ring *ring);

/**
 * Producer: publish one entry; there must be room.
 * @param data  [entry->bytes] for a SHM_MESSAGE and for SHM_INSIDE, which has SHM_INSIDE_MAX at
 * most
 * @return true: the consumer sleeps and must be woken
 */
bool wring_shm_ring_push(struct shm_ring *ring, const struct shm_entry *entry, const void *data);

/**
 * Consumer: take one entry. Its fields are copied but not checked, save for the size of its data.
 * @param data  out, [WRING_SEND_MAX]: of a SHM_MESSAGE or SHM_INSIDE, entry->bytes of it
 * Errors: WRING_ERR_AGAIN (empty), WRING_ERR_FRAME (tampered with).
 */
enum wring_status wring_shm_ring_take(struct shm_ring *ring, struct shm_entry *entry, void *data);

/** Consumer, once the producer is no more: the number at which it stopped. WRING_ERR_FRAME if that
 * cannot be. */
enum wring_status wring_shm_ring_end(const struct shm_ring *ring, uint32_t *end);

/** Consumer: the next push shall say wake. @return false if there is something to take already */
bool wring_shm_ring_sleep(struct shm_ring *ring);

void wring_shm_ring_awake(struct shm_ring *ring);

/*
 * The UNIX stream beside a shared-memory connection: frames of one size, some with a descriptor.
 * It carries what is rare (rings, regions, wake-ups) and, by its end, tells of the peer's end.
 * Nothing here waits; frames that find no room are queued.
 *
 * Objects are used by one thread at a time.
 */

enum shm_frame_kind {
    SHM_FRAME_RING = 1,   /* + fd: put your entries in here. Once, before all others */
    SHM_FRAME_REGION = 2, /* + fd: region `id` is `bytes` of it from `offset` on */
    SHM_FRAME_GONE = 3,   /* region `id` is no more */
    SHM_FRAME_WAKE = 4,   /* there is something in your ring */
};

struct shm_frame {
    uint32_t kind;
    uint32_t zero;
    uint64_t id;
    uint64_t offset;
    uint64_t bytes;
};

struct shm_queued;

struct shm_socket {
    int fd; /* -1: closed */
    struct shm_frame frame;
    size_t got;   /* bytes of frame */
    int frame_fd; /* that came with it, or -1 */
    struct shm_queued *first, *last;
};

void wring_shm_socket_init(struct shm_socket *sock, int fd);

/** Close all that is open, drop what is queued. */
void wring_shm_socket_finish(struct shm_socket *sock);

/**
 * Send a frame, now or later. @param fd  to go with it, borrowed; -1 for none
 * Errors: WRING_ERR_PEER (the stream is broken), WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (no free
 * descriptor; errno says why).
 */
enum wring_status wring_shm_socket_send(struct shm_socket *sock, const struct shm_frame *frame,
                                        int fd);

/** Send a wake-up, or nothing where the socket is full: then it wakes the peer as it is. */
void wring_shm_socket_wake(struct shm_socket *sock);

/** Send what is queued, so far as there is room. Same errors. */
enum wring_status wring_shm_socket_flush(struct shm_socket *sock);

bool wring_shm_socket_wants_room(const struct shm_socket *sock);

/**
 * Take one frame. @param fd  out, owned by the caller; -1 for none
 * Errors: WRING_ERR_AGAIN, WRING_ERR_PEER (ended), WRING_ERR_FRAME, WRING_ERR_SYSTEM (no free
 * descriptor; errno says why).
 */
enum wring_status wring_shm_socket_receive(struct shm_socket *sock, struct shm_frame *frame,
                                           int *fd);

#define SHM_TEXT 160
#define SHM_MESSAGES 32 /* control messages that one poll hands out at most */
#define SHM_NONSENSE "process %d wrote nonsense into the ring"

enum shm_state {
    SHM_CONNECTING, /* the listener's queue is full: ask again */
    SHM_AUTH,       /* proving the key */
    SHM_MEETING,    /* our ring is sent, the peer's is awaited */
    SHM_OPEN,
    SHM_DRAINING, /* the peer is gone; what it put before is still to be handed out */
    SHM_DEAD,
};

struct shm_region {
    struct wring_region base;
    uint64_t id; /* slot in provider->regions, and above it a count that never comes back */
    int fd;      /* ours */
    uint64_t fd_offset;
};

/* a peer's region, mapped; kept by its connection and by the remotes made of it */
struct shm_mapping {
    struct shm_mapping *next;
    uint64_t id;
    void *map; /* whole pages */
    size_t map_bytes;
    uint8_t *base; /* where the region begins */
    uint64_t bytes;
    unsigned users;
    bool known; /* in the list of its connection */
};

struct shm_remote {
    struct wring_remote base;
    struct shm_mapping *mapping;
};

struct shm_conn {
    struct wring_conn base;
    enum shm_state state;
    bool accepted;    /* else it is one that we made */
    bool surfaced;    /* the layer above knows it */
    bool news;        /* CONNECTED or ACCEPTED is to be told */
    bool told_closed; /* CLOSED has been told */
    bool turned_away; /* for others who wait */
    bool in_epoll, room_in_epoll;
    struct shm_socket sock;
    pid_t pid; /* of the peer; 0 where the system does not tell */
    uint64_t since_ns, deadline_ns;
    struct sockaddr_un address;
    socklen_t address_bytes;
    struct wring_auth auth;

    struct shm_ring in, out;
    uint32_t gone;                   /* of the peer's regions: how many we know to be no more */
    uint32_t end;                    /* DRAINING: index in `in` at which the peer stopped */
    uint64_t done[SHM_RING_ENTRIES]; /* cookies of puts whose PUT_DONE is to be told */
    uint32_t done_head, done_tail;
    bool starved; /* the peer's ring was full when last asked, and the caller may wait for room */
    struct shm_mapping *mappings;

    enum wring_status status;
    char text[SHM_TEXT];
};

struct shm_provider {
    struct wring_provider base;
    struct wring_log log;
    uint64_t handshake_ns;
    uint8_t secret[WRING_SECRET_BYTES];
    int epoll;
    int listener; /* -1: none */
    struct wring_door door;
    bool is_listening; /* the epoll set speaks for the listener */
    char name[64];

    struct shm_conn **conns;
    size_t n_conns, max_conns, first;
    struct shm_region **regions; /* by slot; NULL is free */
    size_t n_regions;
    uint32_t generation;

    unsigned sleep; /* polls to go until the rings forget that we sleep */
    unsigned skipped;
    bool idle;    /* nothing has come since the clock was last read */
    bool meeting; /* a connection is not open yet */
    uint64_t next_service_ns;
    unsigned n_messages;
    uint8_t messages[SHM_MESSAGES][WRING_SEND_MAX];
};

static inline struct shm_provider *shm_of(const struct shm_conn *conn)
{
    return (struct shm_provider *)conn->base.provider;
}

/* shm/shm.c */
enum wring_status wring_shm_remote_import(struct wring_conn *base, const void *key,
                                          size_t key_bytes, struct wring_remote **out);
void wring_shm_remote_release(struct wring_remote *base);
enum wring_status wring_shm_remote_map(struct wring_remote *base, void **out);

/** Where a peer may put these bytes; NULL if it may not. */
uint8_t *wring_shm_region_at(const struct shm_provider *shm, uint64_t id, uint64_t offset,
                             uint64_t bytes);

/** Send all regions there are to a connection that is being made. */
enum wring_status wring_shm_regions_announce(struct shm_conn *conn);

/** A peer's region: map it. fd is borrowed. Errors: WRING_ERR_FRAME, _NO_MEMORY, _SYSTEM with errno
 *  of mmap(). */
enum wring_status wring_shm_mapping_add(struct shm_conn *conn, const struct shm_frame *frame,
                                        int fd);

/** A peer's region is no more. Unknown ids are fine. */
void wring_shm_mapping_remove(struct shm_conn *conn, uint64_t id);

/** Learn now which of the peer's regions are no more, if there are any that we do not know of. */
void wring_shm_mappings_refresh(struct shm_conn *conn);

/** Forget all regions of a peer; remotes keep theirs until they are released. */
void wring_shm_mappings_finish(struct shm_conn *conn);

/* shm/listen.c */
enum wring_status wring_shm_listen(struct wring_provider *base, void *address, size_t *bytes);
enum wring_status wring_shm_connect(struct wring_provider *base, const void *address,
                                    size_t address_bytes, const void *hello, size_t hello_bytes,
                                    struct wring_conn **out);
void wring_shm_accept_peers(struct shm_provider *shm);

/** After a while without: look again whether there are descriptors for those who come. */
void wring_shm_listen_again(struct shm_provider *shm, uint64_t now);

/* shm/conn.c */
struct shm_conn *wring_shm_conn_create(struct shm_provider *shm, bool accepted, int fd,
                                       const void *hello, size_t hello_bytes);
void wring_shm_conn_destroy(struct shm_conn *conn);

/** Has the layer above been told of it, and may it use it? */
static inline bool wring_shm_conn_stands(const struct shm_conn *conn)
{
    return conn->state == SHM_OPEN && !conn->news;
}

/** Do what can be done on the socket side now. */
void wring_shm_conn_service(struct shm_conn *conn);

/** End it: CLOSED will be told. The text is a format. */
__attribute__((format(printf, 3, 4))) void wring_shm_conn_fail(struct shm_conn *conn,
                                                               enum wring_status status,
                                                               const char *format, ...);

/** Send a frame beside the rings; a failure ends the connection. */
void wring_shm_conn_say(struct shm_conn *conn, const struct shm_frame *frame, int fd);

/** Lower *deadline_ns; @return true if there is something to poll already. */
bool wring_shm_conn_arm(struct shm_conn *conn, uint64_t *deadline_ns);

/* shm/conn.c */
enum wring_status wring_shm_put(struct wring_conn *base, struct wring_region *region,
                                const void *local, struct wring_remote *remote,
                                uint64_t remote_offset, size_t bytes, uint32_t imm,
                                uint64_t cookie);
enum wring_status wring_shm_send(struct wring_conn *base, const void *data, size_t bytes);

/** Hand out events. @return how many of events[max] were written */
size_t wring_shm_conn_events(struct shm_conn *conn, struct wring_event *events, size_t max);

#endif
