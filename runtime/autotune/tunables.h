/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a job that plans for itself may choose for all of its session: how many cores are pinned for
 * codecs in each rank, and how large the pieces are that travel. What the user has set stays.
 */
#ifndef WRING_RUNTIME_AUTOTUNE_TUNABLES_H
#define WRING_RUNTIME_AUTOTUNE_TUNABLES_H

#include "base/config.h"
#include "planner/core/files/profile.h"
#include <wring/wring.h>

struct wring_autotune;

struct wring_autotune_tunables {
    char executor[WRING_CONFIG_TEXT];   /* as configured: what is in force without a plan */
    uint64_t chunk_bytes;               /* likewise */
    struct wring_tuning tuning;         /* both of them; chunk_bytes 0: cores have names, or ranks
                                             differ, and nothing is told apart */
    uint32_t cores;                     /* that a plan may pin in each rank; 0: as configured */
    bool pieces;                        /* a plan may choose their size */
    const char *cores_why, *pieces_why; /* why not, in words; NULL: it may */
};

/** What may be chosen on all ranks, the same on each. Collective; the machine is known. Errors:
 *  those of an exchange. */
enum wring_status wring_autotune_agree_on_tunables(struct wring_autotune *autotune);

/** May a plan ask for that? */
bool wring_autotune_may_have(const struct wring_autotune *autotune,
                             const struct wring_tuning *tuning);

/** The session is set as its plan says, or as configured. Local; nothing where it does not plan for
 *  itself. Errors: those of wring_session_settle(). */
enum wring_status wring_autotune_settle(struct wring_session *session);

#endif
