/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/stripe.h"

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + VERBS_STRIPE_ALIGN - 1) / VERBS_STRIPE_ALIGN * VERBS_STRIPE_ALIGN;
}

static uint64_t home_bytes(const struct verbs_stripes *stripes, uint64_t bytes)
{
    uint64_t share = align_up(bytes / stripes->paths + (bytes % stripes->paths != 0));
    uint64_t least = stripes->threshold + VERBS_STRIPE_ALIGN;
    uint64_t wish = share > least ? share : least;
    return wish < bytes ? wish : bytes;
}

uint64_t wring_verbs_stripe(const struct verbs_stripes *stripes, uint64_t message, uint64_t bytes,
                            unsigned path, uint64_t *offset)
{
    unsigned home = wring_verbs_home(stripes, message);
    unsigned place = (path + stripes->paths - home) % stripes->paths; /* 0 at home */
    uint64_t first = home_bytes(stripes, bytes);
    if (place == 0) {
        *offset = 0;
        return first;
    }
    uint64_t rest = bytes - first, others = stripes->paths - 1;
    uint64_t share = align_up(rest / others + (rest % others != 0));
    uint64_t begin = (place - 1) * share < rest ? (place - 1) * share : rest;
    *offset = first + begin;
    return share < rest - begin ? share : rest - begin;
}

/** All stripes of a put are as the sender has to cut it. */
static bool do_stripes_fit(const struct verbs_stripes *stripes, uint64_t message,
                           const struct verbs_arrival *const *heads, uint64_t bytes)
{
    const struct verbs_arrival *home = heads[wring_verbs_home(stripes, message)];
    for (unsigned path = 0; path < stripes->paths; path++) {
        uint64_t offset;
        if (heads[path]->is_message || heads[path]->imm != home->imm ||
            heads[path]->bytes != wring_verbs_stripe(stripes, message, bytes, path, &offset))
            return false;
    }
    return true;
}

enum verbs_gathered wring_verbs_gather(const struct verbs_stripes *stripes, uint64_t message,
                                       const struct verbs_arrival *const *heads, uint64_t *bytes)
{
    const struct verbs_arrival *home = heads[wring_verbs_home(stripes, message)];
    uint64_t sum = 0;
    if (home == NULL)
        return VERBS_MORE_TO_COME;
    if (home->is_message || !wring_verbs_is_striped(stripes, home->bytes)) {
        *bytes = home->bytes;
        return VERBS_WHOLE;
    }
    for (unsigned path = 0; path < stripes->paths; path++) {
        if (heads[path] == NULL)
            return VERBS_MORE_TO_COME;
        sum += heads[path]->bytes;
    }
    if (!do_stripes_fit(stripes, message, heads, sum))
        return VERBS_MISFIT;
    *bytes = sum;
    return VERBS_WHOLE;
}
