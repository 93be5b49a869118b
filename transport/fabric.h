/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The fabric: this rank's open providers (devices) and its connection to every other rank; signs
 * of life, and the one place where a job's failure is decided and told to everyone.
 *
 * Used by one thread at a time, the one that makes progress; wring_fabric_failure() alone is safe
 * from any thread.
 */
#ifndef WRING_TRANSPORT_FABRIC_H
#define WRING_TRANSPORT_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/log.h"
#include "base/wait_set.h"
#include "transport/put_window.h"
#include "transport/trace.h"
#include <wring/bootstrap.h>
#include <wring/provider.h>

#define WRING_DEVICES_MAX 4
#define WRING_TEXT_MAX 512
#define WRING_NAME_BYTES 32 /* of a provider's name */

/** An open provider. */
struct wring_device {
    struct wring_provider *provider;
    const char *name;
    bool optional; /* taken by "auto": closed where not every rank has it */
    struct wring_provider_caps caps;
    uint8_t address[WRING_ADDRESS_MAX];
    size_t address_bytes;
};

/** Does registering host memory with it cost next to nothing? It is all the same to it then. */
static inline bool wring_device_registers_freely(const struct wring_device *device)
{
    return device->caps.host_regions && device->caps.local_any;
}

/** How it stands with the connection to a peer. */
enum wring_peer_state {
    WRING_PEER_NONE,       /* known by its addresses: nobody has dialled yet */
    WRING_PEER_CONNECTING, /* we have dialled, and it has not taken us yet */
    WRING_PEER_READY,      /* connected */
    WRING_PEER_GONE,       /* was connected, or cannot be: there is no way to it any more */
};

struct wring_dial;
struct wring_fabric;

/** All zero until there is something for that rank or from it (met): many never are. */
struct wring_peer {
    struct wring_fabric *fabric;
    struct wring_peer *next_met;
    bool met;
    uint32_t rank;
    atomic_uint detour;  /* 1 + the device that leads there, where it is not the roster's; else 0 */
    uint32_t device;     /* index of ours that reaches it */
    const void *address; /* of its device, within its description */
    size_t address_bytes;
    enum wring_peer_state state;
    struct wring_conn *conn; /* CONNECTING: that we dialled; READY: to be used; else NULL */
    struct wring_dial *dial; /* CONNECTING: what else there is to know of it; else NULL */
    uint64_t heard_ns, sent_ns;
    struct wring_put_window window; /* where puts copy, of poll number `put_polled` */
    uint64_t put_polled;
    uint64_t puts, arrivals; /* over its connection: ours to it, and its to us */
    bool put_copies;         /* its device's */
    bool beside;       /* runs on other cores of this machine than we: it needs none of ours */
    bool left;         /* said good-bye */
    bool acked;        /* heard our abort, or our good-bye */
    bool owes_abort;   /* the abort could not be sent yet */
    bool owes_bye;     /* nor the good-bye */
    bool owes_welcome; /* nor could the word that we have taken its connection */
};

enum wring_fabric_state {
    WRING_FABRIC_JOINING,
    WRING_FABRIC_WORKING,
    WRING_FABRIC_FAILING, /* the abort is being told, a short while at most */
    WRING_FABRIC_FAILED,  /* all connections are closed, but for the tree's */
};

/** Why the job failed. */
struct wring_failure {
    enum wring_status status;
    int32_t rank; /* at fault; -1 unknown */
    char text[WRING_TEXT_MAX];
};

struct wring_control;

/** Events for the layer above. */
struct wring_fabric_handler {
    void *arg;
    void (*arrived)(void *arg, struct wring_peer *peer, uint32_t imm, size_t bytes);
    void (*put_done)(void *arg, struct wring_peer *peer, uint64_t cookie);
    void (*credit)(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t generation,
                   uint32_t sequence);
    void (*call)(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t generation,
                 uint32_t number, const char *text);
    void (*standstill)(void *arg, struct wring_peer *peer, uint32_t channel, uint32_t bucket,
                       uint32_t step, const char *text);
    void (*ring)(void *arg, struct wring_peer *peer, const void *data, size_t bytes);
    void (*group)(void *arg, struct wring_peer *peer, const struct wring_control *control);
    /* where ranks are: flight.h. A rank speaks; the job fails, while it worked; meanwhile a
     * neighbour in the control tree is lost, too; have all been accounted for? */
    void (*flight)(void *arg, uint32_t from, const struct wring_control *control);
    void (*failing)(void *arg);
    void (*lost)(void *arg, uint32_t rank);
    bool (*account)(void *arg);
    /* who is left: membership.h */
    void (*member)(void *arg, uint32_t from, const struct wring_control *control);
};

/** Why ranks could not connect while the session opened. */
struct wring_mishap {
    enum wring_status status; /* WRING_OK: they could */
    char text[3 * WRING_TEXT_MAX];
};

struct wring_control_tree;

/** What follows from the descriptions of all ranks: roster.h. Does not change once it is made. */
struct wring_roster {
    uint32_t
        *nodes; /* [size] the first rank of each one's host, which names it; NULL: all on one */
    uint32_t *sites;  /* [size] the first rank of each one's site; NULL: hosts are all there is */
    uint32_t *places; /* [size] of each one's site on a ring, as was measured; NULL: it was not */
    uint32_t *kinds;  /* [size]; NULL: all are of one */
    uint32_t n_kinds, own_kind;
    struct {
        int8_t device[4]; /* [2 * it is on our host + its rank is lower]: of ours; -1: none */
    } * choices;          /* [n_kinds] */
};

static inline uint32_t wring_roster_node(const struct wring_roster *roster, uint32_t rank)
{
    return roster->nodes != NULL ? roster->nodes[rank] : 0;
}

/** The first rank at the same site, or on the same host if nobody named a site. */
static inline uint32_t wring_roster_site(const struct wring_roster *roster, uint32_t rank)
{
    return roster->sites != NULL ? roster->sites[rank] : wring_roster_node(roster, rank);
}

/** Of a rank's site on a ring; 0 for all where sites follow one another by their first members. */
static inline uint32_t wring_roster_place(const struct wring_roster *roster, uint32_t rank)
{
    return roster->places != NULL ? roster->places[rank] : 0;
}

static inline uint32_t wring_roster_kind(const struct wring_roster *roster, uint32_t rank)
{
    return roster->kinds != NULL ? roster->kinds[rank] : 0;
}

/** Which device of rank `own`'s leads to another one; -1: none. */
static inline int wring_roster_device(const struct wring_roster *roster, uint32_t own,
                                      uint32_t rank)
{
    bool near = wring_roster_node(roster, rank) == wring_roster_node(roster, own);
    return roster->choices[wring_roster_kind(roster, rank)].device[2 * near + (rank < own)];
}

struct wring_fabric {
    const struct wring_config *config;
    const struct wring_log *log;
    struct wring_fabric_handler handler;
    uint32_t rank, size;
    uint8_t job[16]; /* random, told apart from other jobs by it */
    struct wring_device devices[WRING_DEVICES_MAX];
    uint32_t n_devices;
    char lacks[WRING_TEXT_MAX]; /* what "auto" goes without, and why; "" nothing */
    struct wring_peer *peers;   /* [size] */
    struct wring_peer *met;     /* those that cost something */
    bool any_left;              /* some rank has said good-bye, or there is no way to it */
    struct wring_roster roster;
    struct wring_blobs blobs; /* what all ranks said of themselves */
    enum wring_fabric_state state;
    struct wring_mishap mishap;
    struct wring_control_tree *tree; /* NULL: there is but one rank, or two without it */
    bool told_apart;                 /* of a peer on this host that shares no memory with us */
    bool has_chores;                 /* for the next poll: one of these two */
    bool owes_welcomes;              /* some peer has not heard that it was taken */
    bool armed;                      /* somebody may sleep after it */
    bool owes_dials;                 /* some dial is to be repeated */
    bool deaf;                       /* we leave: see wring_fabric_turn_deaf() */
    atomic_uint changes;             /* grows whenever a connection stands */
    bool crowded;                    /* ranks of this machine have fewer cores than they are */
    uint32_t turns;                  /* then: ranks that share a core, 1 or more */
    bool told_pages;                 /* what buffers lie on was logged */
    struct wring_event *events;      /* [n_events], of this poll, that are yet to be handled */
    size_t n_events;
    uint64_t tick_ns;   /* when events were polled, about: see wring_fabric_poll() */
    unsigned unticked;  /* polls since */
    bool ticked;        /* the last one read the clock */
    bool moving;        /* the last one brought something */
    uint64_t polled;    /* how often they were */
    uint64_t judged_ns; /* when the tree and peers' silence were last looked at */
    uint64_t due_ns;    /* when that is due again; 0: with each poll, but while it works */
    uint64_t failing_until_ns;
    struct wring_failure failure;
    atomic_int failed;           /* enum wring_status; set after failure was written */
    struct wring_clocks *clocks; /* borrowed; rank 0's is asked for the time. NULL: nobody asks */
    bool owes_credits;           /* some channel could not return all of its own */
    atomic_ullong bytes_sent, bytes_received, puts_sent;
    atomic_ullong controls_sent; /* credits among them; not those of the tree */
};

struct wring_fabric_params {
    const struct wring_config *config; /* borrowed */
    const struct wring_log *log;       /* borrowed */
    uint32_t rank, size;
    const char *provider; /* "auto", or names joined by ',' */
    const char *bind;     /* local address for network providers; "" = loopback */
    bool treeless;        /* of two ranks: what they have to say goes over their connection alone */
    uint8_t secret[WRING_SECRET_BYTES];
    uint8_t job[16];
    struct wring_fabric_handler handler;
};

/**
 * Open the devices and listen.
 * Errors: WRING_ERR_UNSUPPORTED (no such provider, or why it cannot work), those of the provider.
 */
enum wring_status wring_fabric_create(const struct wring_fabric_params *params,
                                      struct wring_fabric **out);

/** Fit each peer's put window to the configuration's chunk size, which has changed. The engine
 *  is idle. */
void wring_fabric_renew_windows(struct wring_fabric *fabric);

/** A rank's entry. It costs nothing more than a name, until there is something for that rank. */
static inline struct wring_peer *wring_fabric_peer(struct wring_fabric *fabric, uint32_t rank)
{
    struct wring_peer *peer = &fabric->peers[rank];
    if (peer->fabric == NULL) {
        peer->fabric = fabric;
        peer->rank = rank;
    }
    return peer;
}

/** Which device leads to a rank, whether or not there is a connection. Threads: safe. */
static inline uint32_t wring_fabric_device_index(const struct wring_fabric *fabric, uint32_t rank)
{
    unsigned detour = atomic_load_explicit(&fabric->peers[rank].detour, memory_order_relaxed);
    return detour > 0 ? detour - 1
                      : (uint32_t)wring_roster_device(&fabric->roster, fabric->rank, rank);
}

static inline const struct wring_device *wring_fabric_device(const struct wring_fabric *fabric,
                                                             uint32_t rank)
{
    return &fabric->devices[wring_fabric_device_index(fabric, rank)];
}

/** Write the description that others need to connect to us, with the cores that we may run on. */
void wring_fabric_describe(const struct wring_fabric *fabric, struct wring_writer *out);

/**
 * Connect in the control tree, which blocks until that stands; to other ranks connections come
 * about when something is sent.
 * @param bootstrap  borrowed for the call: says at once when a rank ends meanwhile; NULL: without a
 * tree there is nothing to wait for
 * @param blobs      everyone's description; becomes the fabric's
 * Errors: WRING_ERR_PEER (names the rank), WRING_ERR_FRAME, WRING_ERR_UNSUPPORTED (two ranks
 * have no provider in common).
 */
enum wring_status wring_fabric_connect(struct wring_fabric *fabric,
                                       struct wring_bootstrap *bootstrap, struct wring_blobs *blobs,
                                       uint64_t deadline_ns);

/**
 * The way to our parent in the control tree, made worse by WRING_FAULT as the others are. All 0:
 * there is no parent, or it is on our host and nothing makes it worse. If any two ranks are far
 * from each other, some rank is far from its parent.
 */
struct wring_path wring_fabric_way_up(const struct wring_fabric *fabric);

/** How long the way to a rank and back is, as wring_tcp_measure_way() says. Blocks until the
 *  deadline at most. */
uint64_t wring_fabric_measure_way(const struct wring_fabric *fabric, uint32_t rank,
                                  uint64_t deadline_ns);

/**
 * Begin to connect to a peer, unless that has begun. Errors: WRING_ERR_AGAIN until the connection
 * stands; WRING_ERR_CLOSED: it never will.
 */
enum wring_status wring_fabric_reach(struct wring_fabric *fabric, struct wring_peer *peer);

/**
 * Progress: dispatch events, send signs of life, judge peers. The clock is read by those polls that
 * follow one which brought nothing, and now and then. @return true if anything came.
 */
bool wring_fabric_poll(struct wring_fabric *fabric);

/** Add what a sleeper must watch. */
void wring_fabric_arm(struct wring_fabric *fabric, struct wring_wait_set *set);

/** Send a credit. Errors: WRING_ERR_AGAIN, WRING_ERR_CLOSED. */
enum wring_status wring_fabric_send_credit(struct wring_fabric *fabric, struct wring_peer *peer,
                                           uint32_t channel, uint32_t generation,
                                           uint32_t sequence);

/**
 * A put through the peer's device that keeps few bytes in flight, so that priorities count. Where
 * peer->put_copies the source is free on return; there is no put_done.
 */
enum wring_status wring_fabric_put(struct wring_fabric *fabric, struct wring_peer *peer,
                                   struct wring_region *region, const void *local,
                                   struct wring_remote *remote, uint64_t remote_offset,
                                   size_t bytes, uint32_t imm, uint64_t cookie);

/** Nothing can be sent to that peer: decide what that means for the job. */
void wring_fabric_put_failed(struct wring_peer *peer, enum wring_status status);

/**
 * Our puts to a peer read no memory of ours any more on return, but arrive as ever. Errors: as
 * those of wring_provider_ops.copy_sources; what they are made of is to be left alone then.
 */
enum wring_status wring_fabric_copy_sources(const struct wring_peer *peer);

/** Add to a counter that only the thread that makes progress writes and others may read. */
static inline void wring_count(atomic_ullong *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/**
 * The job has failed: log it, tell all peers. The first cause stays.
 * @param rank at fault, -1 if unknown
 */
__attribute__((format(printf, 4, 5))) void wring_fabric_fail(struct wring_fabric *fabric,
                                                             enum wring_status status, int32_t rank,
                                                             const char *format, ...);

/** WRING_OK, or why the job failed. Threads: safe. */
static inline enum wring_status wring_fabric_status(const struct wring_fabric *fabric)
{
    return (enum wring_status)atomic_load_explicit(&fabric->failed, memory_order_acquire);
}

/** The same, with all that is known about it. @param out may be NULL */
enum wring_status wring_fabric_failure(struct wring_fabric *fabric, struct wring_failure *out);

/**
 * Steps and messages under way are about to end, and their memory may go at any time. So pieces
 * that peers still send are dropped from now on, as are ends of our own puts. Peers may go, too.
 * Signs of life, good-byes and failures are heard as before. Says good-bye: memory that a peer
 * still puts into may go with its connection, and a peer that has heard blames nobody.
 */
void wring_fabric_turn_deaf(struct wring_fabric *fabric);

/** Wait a moment until the good-bye was heard. After wring_fabric_turn_deaf(). */
void wring_fabric_leave(struct wring_fabric *fabric);

/** Drops all connections at once. NULL is fine. */
void wring_fabric_destroy(struct wring_fabric *fabric);

/** Registered memory: one region per device that takes it. */
struct wring_block {
    struct wring_fabric *fabric;
    struct wring_memory memory; /* freed with the block if `owned` */
    bool owned;
    struct wring_region *regions[WRING_DEVICES_MAX]; /* NULL: that device cannot take it */
};

/** Allocate and register memory for the application's data; every device takes such. */
enum wring_status wring_block_alloc_data(struct wring_fabric *fabric, size_t bytes,
                                         struct wring_block *out);

/** The same for wring's own use: forked children do not have it. */
enum wring_status wring_block_alloc(struct wring_fabric *fabric, size_t bytes,
                                    struct wring_block *out);

#define WRING_BLOCK_FEW_RANKS 16

/** As wring_block_alloc(), for memory that may never be touched as a whole. In jobs of more ranks
 * it lies on small pages: one large page for each slot would be most of its memory. */
enum wring_status wring_block_alloc_sparse(struct wring_fabric *fabric, size_t bytes,
                                           struct wring_block *out);

/** The same for memory that is only ever put from: no peer can write into it, and it has no key. */
enum wring_status wring_block_alloc_source(struct wring_fabric *fabric, size_t bytes,
                                           struct wring_block *out);

/**
 * Have all pages now, and not at the steps that use each first: a ring has many. Where the kernel
 * cannot, they come at those steps. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM.
 */
enum wring_status wring_block_populate(const struct wring_block *block);

/** Register memory of the application's with the devices that can take it. Errors, logged:
 *  WRING_ERR_UNSUPPORTED (an accelerator's memory, which one of them cannot take); the providers'.
 */
enum wring_status wring_block_borrow(struct wring_fabric *fabric, void *base, size_t bytes,
                                     struct wring_memory_place endpoint, struct wring_block *out);

/** The same, of memory that the caller describes: its descriptor is borrowed for the call. Device
 *  memory needs one, a dma-buf. */
enum wring_status wring_block_borrow_memory(struct wring_fabric *fabric,
                                            const struct wring_memory *memory,
                                            struct wring_block *out);

/** True if every device in use can put into this memory. */
bool wring_block_complete(const struct wring_block *block);

/** True if every device in use can put from this memory; NULL: from any. */
bool wring_block_sendable(const struct wring_fabric *fabric, const struct wring_block *block);

void wring_block_finish(struct wring_block *block);

/** A flush of device memory under way; zeroed at first. */
struct wring_block_flush {
    uint64_t tickets[WRING_DEVICES_MAX];
    bool ended[WRING_DEVICES_MAX];
};

/**
 * Let the device see what peers have put into a block: begin, and ask again until it has ended.
 * @param at  in it, the last byte that came
 * @return WRING_OK: it has ended. Errors: WRING_ERR_AGAIN until then; those of
 * wring_provider_ops.region_flush.
 */
enum wring_status wring_block_flush(const struct wring_fabric *fabric,
                                    const struct wring_block *block, const void *at,
                                    struct wring_block_flush *flush);

/**
 * Keys to a block's memory that can be revoked by themselves, with those devices where registration
 * costs nothing; others have none. Not of memory that a device must have registered to send from.
 */
enum wring_status wring_block_add_keys(const struct wring_block *block, struct wring_block *out);

/** Revoke what can be. @return the devices by which peers cannot write there any more, a bit each
 */
uint32_t wring_block_revoke(struct wring_block *keys);

/** Write the keys for the other ranks. @param keys  first of all these, where there are; or NULL */
void wring_block_export(const struct wring_block *block, const struct wring_block *keys,
                        struct wring_writer *out);

/** Peers' regions that were imported together and are released together. Zeroed at first. */
struct wring_imports {
    struct wring_import {
        struct wring_provider *provider; /* outlives the connection */
        struct wring_remote *remote;
    } * all;
    uint32_t n;
};

/** Import a key to a block of that peer, and keep it. */
enum wring_status wring_imports_add(struct wring_imports *imports, struct wring_fabric *fabric,
                                    struct wring_peer *peer, struct wring_reader *in,
                                    struct wring_remote **out);

/** The same, of a key that came over the connection to that peer. Errors: those of the provider. */
enum wring_status wring_imports_add_key(struct wring_imports *imports, struct wring_peer *peer,
                                        const void *key, size_t bytes, struct wring_remote **out);
void wring_imports_finish(struct wring_imports *imports);

#endif
