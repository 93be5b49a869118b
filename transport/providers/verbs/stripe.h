/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which paths of a connection a message takes, as a function that both sides compute: nothing about
 * it travels. Pure; no libibverbs in it.
 *
 * Messages of one direction are numbered from 0. The home path of message s is s mod paths. A
 * control message, and a put of up to `threshold` bytes, travels whole on it. A larger put is cut
 * into one stripe per path, so that the receiver knows from the first one what else is to come:
 *
 *     path      home                               home+1, home+2, ... (mod paths)
 *     bytes     max(threshold + 128,               equal shares of the rest, multiples of 128;
 *                   bytes / paths, up to 128)      0 where nothing is left: still a stripe
 *     more than threshold bytes at home <=> there is a stripe on each other path
 */
#ifndef WRING_VERBS_STRIPE_H
#define WRING_VERBS_STRIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_PATHS_MAX 16
#define VERBS_STRIPE_ALIGN 128

struct verbs_stripes {
    unsigned paths;     /* 1..VERBS_PATHS_MAX */
    uint64_t threshold; /* bytes, a multiple of VERBS_STRIPE_ALIGN */
};

/** The arrival that one receive request took in. */
struct verbs_arrival {
    uint32_t bytes, imm;
    bool is_message; /* a control message */
};

enum verbs_gathered {
    VERBS_MORE_TO_COME,
    VERBS_WHOLE,
    VERBS_MISFIT, /* stripes that do not belong together: the peer broke the rules */
};

static inline unsigned wring_verbs_home(const struct verbs_stripes *stripes, uint64_t message)
{
    return stripes->paths == 1 ? 0 : (unsigned)(message % stripes->paths);
}

static inline bool wring_verbs_is_striped(const struct verbs_stripes *stripes, uint64_t bytes)
{
    return stripes->paths > 1 && bytes > stripes->threshold;
}

/**
 * The stripe of a striped put that travels on a path.
 *
 * @param bytes   of the whole put
 * @param offset  out, where in the put it begins
 *
 * Returns its bytes.
 */
uint64_t wring_verbs_stripe(const struct verbs_stripes *stripes, uint64_t message, uint64_t bytes,
                            unsigned path, uint64_t *offset);

/**
 * Is a message all there?
 *
 * @param heads  [paths], the oldest arrival of each path that is not given out; NULL: there is none
 * @param bytes  out, of the whole message; written when it is whole
 */
enum verbs_gathered wring_verbs_gather(const struct verbs_stripes *stripes, uint64_t message,
                                       const struct verbs_arrival *const *heads, uint64_t *bytes);

#endif
