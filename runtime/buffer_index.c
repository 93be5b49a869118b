/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/buffer_index.h"

#include <stdlib.h>
#include <string.h>

/** How many begin at the address or before it. */
static size_t count_until(const struct wring_buffer_index *index, uintptr_t address)
{
    size_t low = 0, high = index->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->all[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void renew_reach(struct wring_buffer_index *index, size_t from)
{
    for (size_t i = from; i < index->n; i++) {
        uintptr_t before = i > 0 ? index->all[i - 1].reach : 0;
        index->all[i].reach = index->all[i].end > before ? index->all[i].end : before;
    }
}

bool wring_buffer_index_add(struct wring_buffer_index *index, const void *base, size_t bytes,
                            void *owner)
{
    if (index->n == index->max) {
        size_t max = 2 * index->max + 16;
        struct wring_indexed *all = realloc(index->all, max * sizeof(*all));
        if (all == NULL)
            return false;
        index->all = all;
        index->max = max;
    }
    size_t at = count_until(index, (uintptr_t)base);
    memmove(&index->all[at + 1], &index->all[at], (index->n - at) * sizeof(*index->all));
    index->all[at] = (struct wring_indexed){
        .begin = (uintptr_t)base, .end = (uintptr_t)base + bytes, .owner = owner};
    index->n++;
    renew_reach(index, at);
    return true;
}

void wring_buffer_index_remove(struct wring_buffer_index *index, const void *base,
                               const void *owner)
{
    size_t at = count_until(index, (uintptr_t)base);
    while (at > 0 && index->all[at - 1].owner != owner)
        at--;
    if (at == 0)
        return;
    at--;
    index->n--;
    memmove(&index->all[at], &index->all[at + 1], (index->n - at) * sizeof(*index->all));
    renew_reach(index, at);
}

void *wring_buffer_index_find(const struct wring_buffer_index *index, const void *data,
                              size_t bytes)
{
    uintptr_t begin = (uintptr_t)data;
    for (size_t at = count_until(index, begin); at > 0; at--) {
        const struct wring_indexed *one = &index->all[at - 1];
        if (one->end >= begin && bytes <= one->end - begin)
            return one->owner;
        if (one->reach < begin || bytes > one->reach - begin)
            return NULL;
    }
    return NULL;
}

void wring_buffer_index_finish(struct wring_buffer_index *index)
{
    free(index->all);
    *index = (struct wring_buffer_index){0};
}
