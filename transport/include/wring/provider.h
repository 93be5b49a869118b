/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For authors of transport providers: how bytes get from this rank's memory into a peer's.
 *
 * There is one data primitive, put: copy bytes into memory that the peer has registered and
 * exported, and tell it so with a 32-bit immediate. On verbs that is an RDMA write with immediate;
 * providers without remote writes place framed bytes at the target themselves. Besides there is a
 * small send for control messages. Credits, slots and reassembly live above, in the channel.
 *
 * Everything here is non-blocking and is called by one thread at a time, the one that makes
 * progress; providers start no threads and keep no process-wide state. All bytes that come from
 * outside are hostile: a provider bounds every put by the region it names and drops the
 * connection, never the process, on anything malformed.
 *
 * docs/add-a-provider.md says how to write one, tests/provider holds all of them against this.
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
#define WRING_HELLO_MAX 32      /* bytes a connecting side says about itself */
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
                           whoever sets this calls memory_gone before the memory goes */
};

/* Each provider embeds these as the first member of structs of its own. */
struct wring_provider {
    const struct wring_provider_ops *ops;
};
struct wring_conn {
    struct wring_provider *provider;
    void *user; /* the layer above's; NULL until it sets it */
};
struct wring_region { /* local memory, registered */
    struct wring_provider *provider;
    void *base;
    size_t bytes;
    struct wring_memory_place place; /* the layer above's: what kind of memory it registered */
};
struct wring_remote { /* a peer's region, imported over one connection */
    struct wring_conn *conn;
    uint64_t bytes;
};

struct wring_provider_params {
    const struct wring_log *log;        /* borrowed for the provider's life */
    const struct wring_config *config;  /* borrowed for the provider's life */
    const char *bind;                   /* local address to listen on; NULL: loopback. For those
                                           that have such addresses; others ignore it */
    uint8_t secret[WRING_SECRET_BYTES]; /* both ends of a connection prove that they know it */
    uint32_t rank, size;                /* of this process and its job; 0 of 0: no job */
};

struct wring_provider_caps {
    size_t put_max_bytes; /* largest single put, 1 MiB or more */
    unsigned put_depth;   /* puts that may be under way per connection; so many can be posted
                             without a poll in between */
    bool local_any;       /* put takes any local pointer: region may be NULL */
    bool put_copies;      /* put has read its source when it returns: see WRING_NO_PUT_DONE */
    bool put_acked;       /* PUT_DONE waits for the peer's acknowledgement, a round trip */
    bool host_regions;    /* region_create takes WRING_MEMORY_HOST too; SHARED all do */
    bool dmabuf_regions;  /* and WRING_MEMORY_DEVICE */
    bool remote_map;      /* wring_provider_ops.remote_map works */
    bool same_host_only;  /* reaches peers of one boot id and network namespace only */
};

/**
 * A connection begins with CONNECTED, ACCEPTED or, where a connect fails, CLOSED. From the first
 * two on it stands; nothing can be imported, put or sent over it before. Peers that do not know the
 * secret are refused without an event.
 */
enum wring_event_kind {
    WRING_EVENT_CONNECTED, /* a connect of ours succeeded */
    WRING_EVENT_ACCEPTED,  /* a peer connected: conn is new, data/bytes is its hello */
    WRING_EVENT_PUT_DONE,  /* the source of the put with that cookie may be used again */
    WRING_EVENT_ARRIVED,   /* a peer's put lies in our memory: imm, bytes */
    WRING_EVENT_MESSAGE,   /* a peer's send: data/bytes */
    WRING_EVENT_CLOSED,    /* the connection is dead: status, text. Its last event: what came whole
                              before the peer ended it is told first; puts that had no PUT_DONE
                              will get none. WRING_ERR_ADDRESS: nobody listens there, _AUTH and
                              _VERSION: refused, _FRAME: the peer broke a rule, _PEER: it left,
                              died or was cut off. Call disconnect to free it. */
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
 * No entry is NULL; abilities that a provider lacks are the wring_unsupported_ functions.
 * Unless said otherwise, errors are WRING_ERR_NO_MEMORY, WRING_ERR_DEVICE and WRING_ERR_SYSTEM,
 * logged by the provider.
 */
struct wring_provider_ops {
    const char *name;
    const char *doc; /* one line */

    /**
     * Can it work on this machine? Leaves nothing open. @param reason out, [bytes], one line: why
     * not, and what to do about it; written on failure only.
     */
    enum wring_status (*probe)(char *reason, size_t bytes);

    /**
     * Would WRING_PROVIDER=auto do well to take it here, with these settings? Asked after probe has
     * said yes; wring_suits_always for those that nothing is lost by. The others must be ready to
     * be closed before anybody connects: auto takes them where every rank of the job has them.
     * @param config NULL: defaults @param reason as probe's
     */
    enum wring_status (*suits)(const struct wring_config *config, char *reason, size_t bytes);

    enum wring_status (*open)(const struct wring_provider_params *params,
                              struct wring_provider **out);

    /** Drops all connections and regions, also forgotten ones; remotes the caller has released
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
     * Asked before anybody connects, also about two others: where the answer is no, another
     * provider is taken. wring_reaches_always for those whose addresses tell nothing of it.
     * @param reason out, [bytes], one line: what differs between `one` and `the other`
     * Errors: WRING_ERR_UNSUPPORTED, with the reason; WRING_ERR_FRAME for a malformed address.
     */
    enum wring_status (*reaches)(struct wring_provider *provider, const void *one, size_t one_bytes,
                                 const void *other, size_t other_bytes, char *reason, size_t bytes);

    /**
     * Begin to connect; CONNECTED or CLOSED follows from poll, CLOSED also where the system refuses
     * at once or the peer does not answer in time. The hello, 0..WRING_HELLO_MAX bytes, is copied
     * and reaches the peer's ACCEPTED event, proven to come from someone who knows the secret.
     * Errors: WRING_ERR_FRAME for a malformed address, WRING_ERR_INVALID for a long hello.
     */
    enum wring_status (*connect)(struct wring_provider *provider, const void *address,
                                 size_t address_bytes, const void *hello, size_t hello_bytes,
                                 struct wring_conn **out);

    /**
     * Close now, without a word to the peer, and free. No event follows, and what the last poll
     * gave of it already is void. On return our memory is ours alone: sources of puts under way are
     * not read any more, targets not written. The peer sees CLOSED. NULL is fine.
     */
    void (*disconnect)(struct wring_conn *conn);

    /** Register local memory. Its descriptor is borrowed for the call. Errors:
     * WRING_ERR_UNSUPPORTED for a kind it cannot take. */
    enum wring_status (*region_create)(struct wring_provider *provider,
                                       const struct wring_memory *memory,
                                       struct wring_region **out);

    /**
     * Peers should have stopped putting into it: one that has not loses its connection. On return
     * nothing is written there any more, and no key of it names anything, even where the same
     * memory is registered again. NULL is fine.
     */
    void (*region_destroy)(struct wring_region *region);

    /**
     * The same while peers may still put into it, who keep their connections: on return nothing is
     * written there any more. What comes for it raises ARRIVED as ever, and goes nowhere. Errors:
     * WRING_ERR_UNSUPPORTED, where peers write there by themselves or would lose their connections;
     * the region is as before.
     */
    enum wring_status (*region_revoke)(struct wring_region *region);

    /**
     * Memory that was registered as `source_only` is about to be unmapped, or mapped anew: what is
     * kept of regions there that were destroyed is dropped. Regions that live are the caller's to
     * destroy first. Providers that keep nothing have nothing to do.
     */
    void (*memory_gone)(struct wring_provider *provider, const void *base, size_t bytes);

    /** What a peer needs to import it. @param key out, [WRING_REGION_KEY_MAX] @return bytes. Not
     * for `source_only` memory */
    size_t (*region_export)(struct wring_region *region, void *key);

    /**
     * Make a peer's region usable over one connection; at once, where the key came in a message
     * that the peer sent after it had made the region. Errors: WRING_ERR_AGAIN before that stands,
     * WRING_ERR_FRAME for a malformed key; WRING_ERR_CLOSED for one that leads nowhere, as the peer
     * has destroyed the region, which may also be left for the peer to find, at the first put;
     * WRING_ERR_PEER or WRING_ERR_SYSTEM, logged, where the connection
     * ended over it.
     */
    enum wring_status (*remote_import)(struct wring_conn *conn, const void *key, size_t key_bytes,
                                       struct wring_remote **out);

    /** Forget a peer's region, also after its connection was disconnected. NULL is fine. */
    void (*remote_release)(struct wring_remote *remote);

    /**
     * A pointer to the peer's memory, valid until released. A put from there to the same place
     * copies nothing, but raises ARRIVED. Errors: WRING_ERR_UNSUPPORTED.
     */
    enum wring_status (*remote_map)(struct wring_remote *remote, void **out);

    /**
     * Copy bytes (0 is fine) from `local` to `remote_offset` of the peer's region, then raise
     * ARRIVED there and PUT_DONE here. `local` lies in `region`, which may be NULL only where
     * caps.local_any, where there are no bytes, or where they lie there already, as remote_map
     * told; it is left alone until PUT_DONE. Puts of one connection
     * arrive in their order, and so do their PUT_DONE. With
     * caps.put_copies the cookie may be WRING_NO_PUT_DONE. Errors: WRING_ERR_AGAIN (queue full:
     * poll first), WRING_ERR_INVALID (out of bounds on either side, a remote of
     * another connection), WRING_ERR_CLOSED (it is dead, perhaps before CLOSED was given). Nothing
     * has happened then.
     */
    enum wring_status (*put)(struct wring_conn *conn, struct wring_region *region,
                             const void *local, struct wring_remote *remote, uint64_t remote_offset,
                             size_t bytes, uint32_t imm, uint64_t cookie);

    /**
     * Puts that were made over this connection read our memory no more on return: of those that
     * have not left yet the rest is copied. They arrive as ever, with the bytes that were there,
     * and raise PUT_DONE. Errors: WRING_ERR_UNSUPPORTED, where the device reads sources by itself;
     * WRING_ERR_NO_MEMORY. Sources are then to be left alone as before.
     */
    enum wring_status (*copy_sources)(struct wring_conn *conn);

    /**
     * Send a control message of 1..WRING_SEND_MAX bytes, copied at once. Not ordered with puts, but
     * with other messages. It leaves at once where it can: the caller may disconnect after it.
     * Errors: as put's; WRING_ERR_AGAIN also before the connection stands, WRING_ERR_INVALID for
     * other sizes.
     */
    enum wring_status (*send)(struct wring_conn *conn, const void *data, size_t bytes);

    /**
     * For fault injection: the next put or send on this connection leaves with one byte changed,
     * below all that protects the wire. @param at which, modulo the length of what travels
     * @param mask bits that flip; 0 takes the last call back. Errors: WRING_ERR_UNSUPPORTED.
     */
    enum wring_status (*spoil)(struct wring_conn *conn, uint64_t at, uint8_t mask);

    /**
     * Make progress, a bounded share of it per connection and call. What has no room in
     * events[max], max >= 1, comes with a later call. @return events written; 0 when there is
     * nothing to tell
     */
    size_t (*poll)(struct wring_provider *provider, struct wring_event *events, size_t max);

    /**
     * Prepare for sleep: add descriptors, lower the deadline, or set busy, also where the set has
     * no room left. The caller polls once more after this, and if that gives no event sleeps in
     * ppoll; the next poll ends it. That poll may have made progress and left some undone: whoever
     * sleeps is woken by whatever polling would have shown.
     */
    void (*arm)(struct wring_provider *provider, struct wring_wait_set *set);
};

/** All providers of this build, best first, NULL-terminated; absent ones are stubs that say why. */
const struct wring_provider_ops *const *wring_provider_list(void);

/** The provider of that name, or NULL. */
const struct wring_provider_ops *wring_provider_find(const char *name);

/** Stand-ins for abilities that a provider lacks; they answer WRING_ERR_UNSUPPORTED. */
enum wring_status wring_unsupported_remote_map(struct wring_remote *remote, void **out);
enum wring_status wring_unsupported_region_revoke(struct wring_region *region);
enum wring_status wring_unsupported_copy_sources(struct wring_conn *conn);
enum wring_status wring_unsupported_spoil(struct wring_conn *conn, uint64_t at, uint8_t mask);

/** For providers that work wherever probe says so, as well as anything there: WRING_OK. */
enum wring_status wring_suits_always(const struct wring_config *config, char *reason, size_t bytes);

/** For providers whose addresses say nothing about who can reach whom: WRING_OK. */
enum wring_status wring_reaches_always(struct wring_provider *provider, const void *one,
                                       size_t one_bytes, const void *other, size_t other_bytes,
                                       char *reason, size_t bytes);

/** For providers that keep nothing of regions that were destroyed: does nothing. */
void wring_nothing_kept(struct wring_provider *provider, const void *base, size_t bytes);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
