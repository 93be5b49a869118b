/* SPDX-License-Identifier: Apache-2.0 */
/** How a group is made, step by step. Private to group*.c. */
#ifndef WRING_RUNTIME_GROUP_INSIDE_H
#define WRING_RUNTIME_GROUP_INSIDE_H

#include "runtime/group/group.h"
#include "runtime/session/session.h"

/**
 * Make its channels, the collective that runs over them and, where we can map everybody's memory,
 * its board. The engine is locked. Errors: WRING_ERR_NO_MEMORY and those of the providers; what was
 * made is left for wring_group_free().
 */
enum wring_status wring_group_make_channels(struct wring_group *group);

/** Is it a group for boards, and could we map the memory of all other members? They may be able to
 *  map less. What it says is final once they are connected. */
bool wring_group_may_map(const struct wring_group *group);

/** Where the board lies in our slots, or in anybody's: after the channels. */
size_t wring_group_board_offset(const struct wring_group *group);

/** What the other members need to know of us. */
void wring_group_write(const struct wring_group *group, struct wring_writer *out);

/**
 * Read what they wrote, and connect the channels and the board with theirs. The engine is locked.
 * Settings that differ are noted in `unfit`.
 *
 * @param blobs  of all ranks of the session; hostile
 * @param why    out, [WRING_TEXT_MAX], one line for all ranks; left alone where there is none
 * Errors: WRING_ERR_MISMATCH, WRING_ERR_FRAME and those of the providers.
 */
enum wring_status wring_group_read(struct wring_group *group, const struct wring_blobs *blobs,
                                   char *why);

#endif
