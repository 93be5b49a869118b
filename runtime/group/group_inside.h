/* SPDX-License-Identifier: Apache-2.0 */
/** How a group is made, step by step. Private to group*.c. */
#ifndef WRING_RUNTIME_GROUP_INSIDE_H
#define WRING_RUNTIME_GROUP_INSIDE_H

#include "runtime/group/group.h"
#include "runtime/session/session.h"

/**
 * Make its channels, the collective that runs over them, and what its pairs are made of. The engine
 * is locked. Errors: WRING_ERR_NO_MEMORY; what was made is left for wring_group_free().
 */
enum wring_status wring_group_make_channels(struct wring_group *group);

/** Is it a group for boards, and could we map the memory of all other members? They may be able to
 *  map less. What it says is final once they are connected. */
bool wring_group_may_map(const struct wring_group *group);

/** Our settings that members need alike. */
struct wring_terms wring_group_terms(const struct wring_session *session);

/** A line on settings that differ. @param text out, [WRING_TEXT_MAX] */
void wring_group_describe_mismatch(const struct wring_formation_word *word, char *text);

#endif
