/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Memory that the devices read and write: one registration (MR) per rail for each piece.
 *
 * Memory that peers may write into has registrations of its own, made with the region and gone with
 * it: a key that was handed out must name nothing once its region is destroyed. Memory that is only
 * ever a source is registered without remote access; regions over the same memory share that
 * registration, and it stays in a cache when the last of them goes, until its room is wanted, or
 * the memory's owner says that the memory goes (wring_provider_ops.memory_gone).
 *
 * Other providers of this process share registrations of sources, and of memory whose owner allows
 * it (wring_memory.common), by their adapter.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_MEMORY_H
#define WRING_VERBS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/providers/verbs/devices.h"
#include "transport/providers/verbs/library.h"
#include <wring/provider.h>

/*
 * Which registrations are there to be shared, and which are kept without a user: intervals of
 * addresses with a count of users. When those without a user are more bytes than the budget, the
 * least recently used go first. Pure: only the owner knows about the registrations themselves.
 *
 * Objects are used by one thread at a time.
 */

/** Part of the owner's object. */
struct verbs_entry {
    uintptr_t begin, end;
    unsigned users;
    bool gone; /* its memory is another's now: not to be shared, nor kept */
    struct verbs_entry *newer, *older;
};

struct verbs_cache {
    struct verbs_entry *newest, *oldest; /* by last use */
    uint64_t idle_bytes, budget;
    void (*drop)(void *arg, struct verbs_entry *entry); /* it left the cache: undo and free */
    void *arg;
};

/**
 * One more user of a registration that covers [begin, begin + bytes).
 * @return NULL where there is none; then make one and add it
 */
struct verbs_entry *wring_verbs_cache_take(struct verbs_cache *cache, uintptr_t begin,
                                           size_t bytes);

/** Add one that was made, with its first user. */
void wring_verbs_cache_add(struct verbs_cache *cache, struct verbs_entry *entry);

/** One user less; without users it is kept for as long as the budget allows. */
void wring_verbs_cache_release(struct verbs_cache *cache, struct verbs_entry *entry);

/** Drop what is kept without users anywhere in [begin, begin + bytes); what has users goes with
 * the last of them. */
void wring_verbs_cache_gone(struct verbs_cache *cache, uintptr_t begin, size_t bytes);

/** Drop kept ones until these are at most so many bytes. @return true if any was dropped */
bool wring_verbs_cache_shrink(struct verbs_cache *cache, uint64_t bytes);

struct wring_config;
struct wring_log;
struct verbs_adapter;
struct verbs_memory;
struct verbs_share;

struct verbs_memory_params {
    const struct verbs_library *library; /* borrowed, as all here, for the memory's life */
    const struct wring_log *log;
    const struct wring_config *config; /* NULL: defaults */
    unsigned n_rails;
    struct verbs_memory_rail {
        struct ibv_pd *pd;
        const char *device;
        struct verbs_adapter *adapter; /* NULL: nothing is shared with other providers */
    } rails[VERBS_RAILS_MAX];
};

/** Registered memory; its keys are for the device of a rail. */
struct verbs_pin {
    void *base;
    size_t bytes;
    struct ibv_mr *mrs[VERBS_RAILS_MAX];
    struct verbs_share *shares[VERBS_RAILS_MAX]; /* NULL: it has the registration to itself */
};

/** The use that devices may make of it. */
enum verbs_pin_use {
    VERBS_PIN_TARGET, /* peers write into it; with relaxed ordering where that is on */
    VERBS_PIN_WORDS,  /* peers write into it, and it is read while they do: strictly in order */
    VERBS_PIN_SOURCE, /* only read: never exported */
};

/** Errors: WRING_ERR_NO_MEMORY. Tries out which of the devices take dma-bufs. */
enum wring_status wring_verbs_memory_create(const struct verbs_memory_params *params,
                                            struct verbs_memory **out);

/** With all that was registered, also what was forgotten. NULL is fine. */
void wring_verbs_memory_destroy(struct verbs_memory *memory);

/** Do all rails take memory of kind WRING_MEMORY_DEVICE, by its dma-buf, or its address? */
bool wring_verbs_memory_takes_dmabuf(const struct verbs_memory *memory);
bool wring_verbs_memory_takes_addresses(const struct verbs_memory *memory);

/** Registrations made so far, cached ones not counted anew: a steady state makes none. */
uint64_t wring_verbs_memory_registrations(const struct verbs_memory *memory);

/**
 * Register with every rail.
 *
 * Errors, logged: WRING_ERR_NO_MEMORY where a limit was hit, with the limit and the need;
 * WRING_ERR_UNSUPPORTED for a kind that a device does not take; WRING_ERR_INVALID where no memory
 * is there; WRING_ERR_DEVICE.
 */
enum wring_status wring_verbs_pin(struct verbs_memory *memory, const struct wring_memory *what,
                                  enum verbs_pin_use use, struct verbs_pin **out);

/** NULL is fine. */
void wring_verbs_unpin(struct verbs_memory *memory, struct verbs_pin *pin);

/** As wring_provider_ops.memory_gone. */
void wring_verbs_memory_gone(struct verbs_memory *memory, const void *base, size_t bytes);

/* regions: the provider's objects around pins */

struct verbs_region {
    struct wring_region base;
    struct verbs_region *next, **link; /* all of a memory */
    struct verbs_memory *memory;
    enum verbs_pin_use use;
    bool on_device; /* a dma-buf: the processor cannot read it, so nothing of it goes inline */
    struct verbs_pin *pin;
};

/** As wring_provider_ops.region_create. */
enum wring_status wring_verbs_region_create(struct verbs_memory *memory,
                                            struct wring_provider *provider,
                                            const struct wring_memory *what,
                                            struct wring_region **out);
void wring_verbs_region_destroy(struct wring_region *region);

/** As wring_provider_ops.region_export: size, address, and a key per rail. @return 0 for a source,
 * which has none */
size_t wring_verbs_region_export(const struct wring_region *region, void *key);

static inline uint32_t wring_verbs_lkey(const struct wring_region *region, unsigned rail)
{
    return ((const struct verbs_region *)region)->pin->mrs[rail]->lkey;
}

/** A peer's region. */
struct verbs_key {
    uint64_t bytes, address;
    uint32_t rkeys[VERBS_RAILS_MAX]; /* by the peer's rails */
};

/**
 * Read what a peer exported.
 * @param rails  how many rails that peer has
 * @return false, and nothing written, where it is malformed
 */
bool wring_verbs_key_read(const void *key, size_t key_bytes, unsigned rails, struct verbs_key *out);

/*
 * Registering a piece of memory with the device of each rail, and why one did not take it.
 *
 * Objects are used by one thread at a time.
 */

struct verbs_registrar {
    struct verbs_memory_params params;
    bool relaxed;   /* ordering of peers' writes into targets; off where a device refuses it */
    uint64_t made;  /* registrations, so far */
    uint64_t bytes; /* registered now, of all rails together */
};

/* A connection's view of a peer's regions. */

struct verbs_remote {
    struct wring_remote base;
    struct verbs_key key;
};

/* as wring_provider_ops has them */
enum wring_status wring_verbs_remote_import(struct wring_conn *conn, const void *key, size_t bytes,
                                            struct wring_remote **out);
void wring_verbs_remote_release(struct wring_remote *remote);

#endif
