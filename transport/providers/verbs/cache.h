/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which registrations are there to be shared, and which are kept without a user: intervals of
 * addresses with a count of users. When those without a user are more bytes than the budget, the
 * least recently used go first. Pure: only the owner knows about the registrations themselves.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_CACHE_H
#define WRING_VERBS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
