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

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/door.h"
#include "transport/providers/shm/listen.h"
#include "transport/providers/shm/ring.h"
#include <wring/provider.h>

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

/* shm/region.c */
enum wring_status wring_shm_region_create(struct wring_provider *base,
                                          const struct wring_memory *memory,
                                          struct wring_region **out);
void wring_shm_region_destroy(struct wring_region *base);
size_t wring_shm_region_export(struct wring_region *base, void *key);
enum wring_status wring_shm_remote_import(struct wring_conn *base, const void *key,
                                          size_t key_bytes, struct wring_remote **out);
void wring_shm_remote_release(struct wring_remote *base);
enum wring_status wring_shm_remote_map(struct wring_remote *base, void **out);

/** Where a peer may put these bytes; NULL if it may not. */
uint8_t *wring_shm_region_place(const struct shm_provider *shm, uint64_t id, uint64_t offset,
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
