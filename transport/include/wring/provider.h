/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For authors of transport providers: how bytes get from this rank's memory into a peer's.
 *
 * There is one data primitive, put: it copies bytes into memory that the peer has registered and
 * exported, and tells the peer with a 32-bit immediate. On verbs it is an RDMA write with
 * immediate; providers without remote writes place framed bytes at the target themselves. For
 * control messages there is a small send. Credits, slots and reassembly live above, in the channel.
 *
 * No function here blocks. One thread at a time, the one that makes progress, calls them; providers
 * start no threads and keep no process-wide state. All bytes from outside are hostile: a provider
 * bounds every put by the region it names. On anything malformed it drops the connection, and never
 * ends the process.
 *
 * docs/add-a-provider.md says how to write one; tests/provider holds all of them against this.
 */
#ifndef WRING_PROVIDER_H
#define WRING_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/log.h>
#include <wring/memory.h>
#include <wring/status.h>
#include <wring/wait_set.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

#define WRING_ADDRESS_MAX 128   /* bytes of an address blob (NCCL's handles are no larger) */
#define WRING_REGION_KEY_MAX 64 /* bytes of an exported region */
#define WRING_HELLO_MAX 32      /* bytes that a connecting side says about itself */
#define WRING_SEND_MAX 256      /* bytes of a control message */
#define WRING_SECRET_BYTES 32
#define WRING_NO_PUT_DONE \
    UINT64_MAX /* the cookie of a put that raises no PUT_DONE, for providers */
               /* with caps.put_copies: its source is free at once */

struct wring_log;
struct wring_config;

/** A piece of memory to be registered. */
struct wring_memory {
    void *base;
    size_t bytes;
    enum wring_memory_kind kind;
    int32_t ordinal;    /* DEVICE: which one, as its driver counts; else 0 */
    int fd;             /* SHARED: the file behind it, DEVICE: its dma-buf; borrowed for the call;
                           else -1 */
    uint64_t fd_offset; /* SHARED, DEVICE: where base lies in it */
    bool source_only;   /* the source of puts and nothing else: it is not exported, no peer can
                           reach it. Its registration may be shared and outlive its regions, so
                           the caller calls memory_gone before the memory goes */
    bool by_address;    /* DEVICE, without a dma-buf: the kernel knows whose address that is */
    bool common;        /* providers of this process may share one registration of it, and a key
                           names it as long as any has it. The caller promises that peers have
                           stopped before it destroys a region, and that no region outlives what
                           is mapped there */
};

/* Each provider embeds these as the first member of structs of its own. */
struct wring_provider {
    const struct wring_provider_ops *ops;
};

/** What a connection leads over, as far as its provider has found out when it stood. */
struct wring_path {
    uint64_t round_trip_ns; /* there and back, at the least; 0: unknown, or not worth a word */
    uint64_t bytes_per_s;   /* that the interface can send; 0: unknown */
    unsigned sockets;       /* that the connection has, each with buffers of its own; 0: one */
};

struct wring_conn {
    struct wring_provider *provider;
    void *user; /* of the layer above; NULL until it sets it */
    struct wring_path path;
    uint64_t taken_per_s; /* bytes per second that the way took when it was kept full; 0: it was
                             not, or nobody measured. Any thread may read it, by a relaxed load */
};
struct wring_region { /* local memory, registered */
    struct wring_provider *provider;
    void *base;
    size_t bytes;
    struct wring_memory_place place; /* of the layer above: the kind of memory that it registered */
};
struct wring_remote { /* a peer's region, imported over one connection */
    struct wring_conn *conn;
    uint64_t bytes;
};

struct wring_provider_params {
    const struct wring_log *log;        /* borrowed for the provider's life */
    const struct wring_config *config;  /* borrowed for the provider's life */
    const char *bind;                   /* local address to listen on; NULL: loopback. Providers
                                           without such addresses ignore it */
    uint8_t secret[WRING_SECRET_BYTES]; /* both ends of a connection prove that they know it */
    uint32_t rank, size;                /* of this process and its job; 0 of 0: no job */
};

struct wring_provider_caps {
    size_t put_max_bytes;      /* largest single put, 1 MiB or more */
    unsigned put_depth;        /* puts that may be under way per connection: so many the caller can
                                  post without a poll in between */
    bool local_any;            /* put takes any local pointer: region may be NULL */
    bool put_copies;           /* put has read its source when it returns: see WRING_NO_PUT_DONE */
    bool put_acked;            /* PUT_DONE waits for the peer's acknowledgement, a round trip */
    bool host_regions;         /* region_create takes WRING_MEMORY_HOST too; all take SHARED */
    bool dmabuf_regions;       /* and WRING_MEMORY_DEVICE, by its dma-buf */
    bool device_regions;       /* and that by its address, where the caller asks for it */
    bool remote_map;           /* wring_provider_ops.remote_map works */
    unsigned conn_descriptors; /* that a connection takes once it stands */
    size_t conn_bytes;         /* of memory, likewise; buffers of the kernel not counted */
    bool same_host_only;       /* reaches peers of one boot id and network namespace only */
};

/**
 * A connection begins with CONNECTED, ACCEPTED or, if a connect fails, CLOSED. It stands from
 * CONNECTED or ACCEPTED on; nothing can be imported, put or sent over it before. The provider
 * refuses peers that do not know the secret without an event.
 */
enum wring_event_kind {
    WRING_EVENT_CONNECTED, /* a connect of ours succeeded */
    WRING_EVENT_ACCEPTED,  /* a peer connected: conn is new, data/bytes is its hello */
    WRING_EVENT_PUT_DONE,  /* the source of the put with that cookie may be used again */
    WRING_EVENT_ARRIVED,   /* a peer's put lies in our memory: imm, bytes */
    WRING_EVENT_MESSAGE,   /* a peer's send: data/bytes */
    WRING_EVENT_CLOSED,    /* the connection is dead: status, text. Its last event: messages and
                              puts that came whole before the peer ended it have their events
                              first; puts that had no PUT_DONE will get none. WRING_ERR_ADDRESS:
                              nobody listens there, _AUTH and _VERSION: refused, _FRAME: the peer
                              broke a rule, _PEER: it left, died or was cut off. Call disconnect to
                              free it. */
};

struct wring_event {
    enum wring_event_kind kind;
    struct wring_conn *conn;
    uint64_t cookie;
    uint32_t imm;
    size_t bytes;
    const void *data; /* valid until the next call into this provider; each event has its own */
    enum wring_status status;
    const char *text; /* CLOSED: one line that says why; valid as data is */
};

/**
 * No entry is NULL; for abilities that a provider lacks it has the wring_unsupported_ functions.
 * Unless said otherwise, errors are WRING_ERR_NO_MEMORY, WRING_ERR_DEVICE and WRING_ERR_SYSTEM,
 * logged by the provider.
 */
struct wring_provider_ops {
    const char *name;
    const char *doc; /* one line */

    /**
     * Can it work on this machine? Leaves nothing open. @param reason out, [bytes], one line: why
     * not, and how to change that; written on failure only.
     */
    enum wring_status (*probe)(char *reason, size_t bytes);

    /**
     * Should WRING_PROVIDER=auto take it here, with these settings? Called after probe has said
     * yes. Use wring_suits_always if taking it costs nothing. Any other provider must be ready to
     * be closed before anybody connects: auto takes it only if every rank of the job has it.
     * @param config NULL: defaults @param reason as probe's
     */
    enum wring_status (*suits)(const struct wring_config *config, char *reason, size_t bytes);

    enum wring_status (*open)(const struct wring_provider_params *params,
                              struct wring_provider **out);

    /** Drops all connections and regions, also forgotten ones. The caller has released its remotes
     * before. NULL is fine. */
    void (*close)(struct wring_provider *provider);

    void (*capabilities)(struct wring_provider *provider, struct wring_provider_caps *out);

    /**
     * Begin to listen, once in the provider's life.
     * @param address out, [WRING_ADDRESS_MAX], what a peer passes to connect
     * @param bytes out. Errors: WRING_ERR_ADDRESS; WRING_ERR_BUSY: it listens already, and goes on.
     */
    enum wring_status (*listen)(struct wring_provider *provider, void *address, size_t *bytes);

    /**
     * Could two ranks that listen at these addresses be connected, as far as the addresses say?
     * Called before anybody connects, also about two other ranks: if the answer is no, they take
     * another provider. Use wring_reaches_always if addresses do not tell.
     * @param reason out, [bytes], one line: what differs between `one` and `the other`
     * Errors: WRING_ERR_UNSUPPORTED, with the reason; WRING_ERR_FRAME for a malformed address.
     */
    enum wring_status (*reaches)(struct wring_provider *provider, const void *one, size_t one_bytes,
                                 const void *other, size_t other_bytes, char *reason, size_t bytes);

    /**
     * What of an address decides whom it reaches: of two addresses that say the same here,
     * `reaches` says the same, too. So it is not asked about each two of a thousand ranks.
     * Addresses that were malformed say whatever they are. Use wring_reach_kind_none beside
     * wring_reaches_always.
     * @param kind out, within the address  @return its bytes
     */
    size_t (*reach_kind)(struct wring_provider *provider, const void *address, size_t bytes,
                         const void **kind);

    /**
     * Begin to connect. CONNECTED or CLOSED follows from poll; CLOSED also if the system refuses at
     * once or the peer does not answer in time. The hello, 0..WRING_HELLO_MAX bytes, is copied. It
     * reaches the peer's ACCEPTED event, proven to come from a side that knows the secret.
     * Errors: WRING_ERR_FRAME for a malformed address, WRING_ERR_INVALID for a long hello.
     */
    enum wring_status (*connect)(struct wring_provider *provider, const void *address,
                                 size_t address_bytes, const void *hello, size_t hello_bytes,
                                 struct wring_conn **out);

    /**
     * Close now, without a word to the peer, and free. No event follows, and events of it that the
     * last poll gave are void. On return our memory is ours alone: nobody reads sources of puts
     * under way or writes targets any more. The peer sees CLOSED. NULL is fine.
     */
    void (*disconnect)(struct wring_conn *conn);

    /** Register local memory. Its descriptor is borrowed for the call. Errors:
     * WRING_ERR_UNSUPPORTED for a kind it cannot take. */
    enum wring_status (*region_create)(struct wring_provider *provider,
                                       const struct wring_memory *memory,
                                       struct wring_region **out);

    /**
     * Peers should have stopped putting into it: one that has not loses its connection. On return
     * nothing is written there any more. No key of it names anything, even if the same memory is
     * registered again. NULL is fine.
     */
    void (*region_destroy)(struct wring_region *region);

    /**
     * The same while peers may still put into it. They keep their connections, and on return
     * nothing is written there any more. Later puts raise ARRIVED as ever, and their bytes are
     * dropped. Errors: WRING_ERR_UNSUPPORTED, if peers write there by themselves or would lose
     * their connections; the region is as before.
     */
    enum wring_status (*region_revoke)(struct wring_region *region);

    /**
     * Device memory only: let that device see all bytes that peers have put there and whose ARRIVED
     * was given. A call with *ticket 0 begins a flush and writes its ticket. Later calls with this
     * ticket ask whether the flush has ended.
     * @param at  in the region, the last byte that was put there
     * @param ticket  stays 0 if too many flushes are under way: try again
     * @return WRING_OK: it has ended. Errors: WRING_ERR_AGAIN until then, WRING_ERR_UNSUPPORTED,
     * WRING_ERR_INVALID (not in the region), WRING_ERR_DEVICE: what has come may not be visible.
     */
    enum wring_status (*region_flush)(struct wring_region *region, const void *at,
                                      uint64_t *ticket);

    /**
     * Memory that was registered as `source_only` is about to be unmapped, or mapped anew: drop all
     * that is kept of destroyed regions there. The caller has destroyed living regions before.
     * Providers that keep nothing use wring_nothing_kept.
     */
    void (*memory_gone)(struct wring_provider *provider, const void *base, size_t bytes);

    /** The key by which a peer imports it. @param key out, [WRING_REGION_KEY_MAX] @return bytes.
     * Not for `source_only` memory */
    size_t (*region_export)(struct wring_region *region, void *key);

    /**
     * Make a peer's region usable over one connection. That takes effect at once if the key came in
     * a message that the peer sent after it had made the region. Errors: WRING_ERR_AGAIN before the
     * connection stands; WRING_ERR_FRAME for a malformed key; WRING_ERR_CLOSED if the peer has
     * destroyed the region, which a provider may also leave for the peer to find at the first put;
     * WRING_ERR_PEER or WRING_ERR_SYSTEM, logged, if the connection ended over it.
     */
    enum wring_status (*remote_import)(struct wring_conn *conn, const void *key, size_t key_bytes,
                                       struct wring_remote **out);

    /** Forget a peer's region, also after its connection was disconnected. NULL is fine. */
    void (*remote_release)(struct wring_remote *remote);

    /**
     * A pointer to the peer's memory, valid until remote_release. A put from there to the same
     * place copies nothing, but raises ARRIVED. Errors: WRING_ERR_UNSUPPORTED.
     */
    enum wring_status (*remote_map)(struct wring_remote *remote, void **out);

    /**
     * Copy bytes (0 is fine) from `local` to `remote_offset` of the peer's region, then raise
     * ARRIVED there and PUT_DONE here. `local` lies in `region`. `region` may be NULL only with
     * caps.local_any, for 0 bytes, or if the bytes already lie at their place, by remote_map. The
     * caller leaves `local` alone until PUT_DONE. Puts of one connection arrive in their order, and
     * so do their PUT_DONE. With caps.put_copies the cookie may be WRING_NO_PUT_DONE. After an
     * error nothing has happened. Errors: WRING_ERR_AGAIN (queue full: poll first),
     * WRING_ERR_INVALID (out of bounds on either side, a remote of another connection),
     * WRING_ERR_CLOSED (the connection is dead, perhaps before CLOSED was given).
     */
    enum wring_status (*put)(struct wring_conn *conn, struct wring_region *region,
                             const void *local, struct wring_remote *remote, uint64_t remote_offset,
                             size_t bytes, uint32_t imm, uint64_t cookie);

    /**
     * Copy the bytes of earlier puts over this connection that have not left yet: on return no put
     * reads our memory any more. The puts arrive as ever, with the bytes that were there, and raise
     * PUT_DONE. Errors: WRING_ERR_UNSUPPORTED, if the device reads sources by itself;
     * WRING_ERR_NO_MEMORY. The caller then leaves sources alone as before.
     */
    enum wring_status (*copy_sources)(struct wring_conn *conn);

    /**
     * Send a control message of 1..WRING_SEND_MAX bytes, copied at once. Messages keep their order
     * among themselves, not with puts. A message leaves at once if it can: the caller may
     * disconnect after it. Errors: as put's; WRING_ERR_AGAIN also before the connection stands,
     * WRING_ERR_INVALID for other sizes.
     */
    enum wring_status (*send)(struct wring_conn *conn, const void *data, size_t bytes);

    /**
     * For fault injection: the next put or send on this connection leaves with one byte changed,
     * below all that protects the wire. @param at which byte, modulo the length that travels
     * @param mask bits that flip; 0 takes the last call back. Errors: WRING_ERR_UNSUPPORTED.
     */
    enum wring_status (*spoil)(struct wring_conn *conn, uint64_t at, uint8_t mask);

    /**
     * Make progress, a bounded share of it per connection and call. Events that have no room in
     * events[max], max >= 1, come with a later call. @return events written; 0 if there are none
     */
    size_t (*poll)(struct wring_provider *provider, struct wring_event *events, size_t max);

    /**
     * Prepare for sleep: add descriptors, lower the deadline, or set busy. Set busy also if the set
     * has no room left. The caller polls once more after this. If that poll gives no event, the
     * caller sleeps in ppoll; its next poll ends the preparation. The poll before sleep may have
     * left work undone: each event that another poll would give must wake the sleeper.
     */
    void (*arm)(struct wring_provider *provider, struct wring_wait_set *set);
};

/** All providers of this build, best first, NULL-terminated; missing ones are stubs that say why.
 */
const struct wring_provider_ops *const *wring_provider_list(void);

/** The provider of that name, or NULL. */
const struct wring_provider_ops *wring_provider_find(const char *name);

/** Stand-ins for abilities that a provider lacks; they answer WRING_ERR_UNSUPPORTED. */
enum wring_status wring_unsupported_remote_map(struct wring_remote *remote, void **out);
enum wring_status wring_unsupported_region_revoke(struct wring_region *region);
enum wring_status wring_unsupported_region_flush(struct wring_region *region, const void *at,
                                                 uint64_t *ticket);
enum wring_status wring_unsupported_copy_sources(struct wring_conn *conn);
enum wring_status wring_unsupported_spoil(struct wring_conn *conn, uint64_t at, uint8_t mask);

/** For providers that are as good as any other wherever probe succeeds: WRING_OK. */
enum wring_status wring_suits_always(const struct wring_config *config, char *reason, size_t bytes);

/** For providers whose addresses do not tell which ranks can reach each other: WRING_OK. */
enum wring_status wring_reaches_always(struct wring_provider *provider, const void *one,
                                       size_t one_bytes, const void *other, size_t other_bytes,
                                       char *reason, size_t bytes);
size_t wring_reach_kind_none(struct wring_provider *provider, const void *address, size_t bytes,
                             const void **kind);

/** For providers that keep nothing of regions that were destroyed: does nothing. */
void wring_nothing_kept(struct wring_provider *provider, const void *base, size_t bytes);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
