/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/cache.h"

#include <assert.h>

static void unlink_entry(struct verbs_cache *cache, struct verbs_entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_newest(struct verbs_cache *cache, struct verbs_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void drop(struct verbs_cache *cache, struct verbs_entry *entry)
{
    unlink_entry(cache, entry);
    cache->drop(cache->arg, entry);
}

struct verbs_entry *wring_verbs_cache_take(struct verbs_cache *cache, uintptr_t begin, size_t bytes)
{
    for (struct verbs_entry *at = cache->newest; at != NULL; at = at->older) {
        if (at->gone || begin < at->begin || begin > at->end || bytes > at->end - begin)
            continue;
        if (at->users++ == 0)
            cache->idle_bytes -= at->end - at->begin;
        unlink_entry(cache, at);
        link_newest(cache, at);
        return at;
    }
    return NULL;
}

void wring_verbs_cache_add(struct verbs_cache *cache, struct verbs_entry *entry)
{
    entry->users = 1;
    entry->gone = false;
    link_newest(cache, entry);
}

void wring_verbs_cache_release(struct verbs_cache *cache, struct verbs_entry *entry)
{
    assert(entry->users > 0);
    if (--entry->users > 0)
        return;
    if (entry->gone) {
        drop(cache, entry);
        return;
    }
    unlink_entry(cache, entry); /* letting go of it was a use */
    link_newest(cache, entry);
    cache->idle_bytes += entry->end - entry->begin;
    wring_verbs_cache_shrink(cache, cache->budget);
}

/** Drop one that has no user. */
static void drop_idle(struct verbs_cache *cache, struct verbs_entry *entry)
{
    cache->idle_bytes -= entry->end - entry->begin;
    drop(cache, entry);
}

void wring_verbs_cache_gone(struct verbs_cache *cache, uintptr_t begin, size_t bytes)
{
    struct verbs_entry *older;
    for (struct verbs_entry *at = cache->newest; at != NULL; at = older) {
        older = at->older;
        bool apart = begin >= at->end || (begin < at->begin && bytes <= at->begin - begin);
        if (apart)
            continue;
        at->gone = true;
        if (at->users == 0)
            drop_idle(cache, at);
    }
}

bool wring_verbs_cache_shrink(struct verbs_cache *cache, uint64_t bytes)
{
    struct verbs_entry *newer;
    bool any = false;
    for (struct verbs_entry *at = cache->oldest; at != NULL && cache->idle_bytes > bytes;
         at = newer) {
        newer = at->newer;
        if (at->users > 0)
            continue;
        drop_idle(cache, at);
        any = true;
    }
    return any;
}
