/* SPDX-License-Identifier: Apache-2.0 */
/** What a session counts besides its engine. */
#ifndef WRING_RUNTIME_STATS_H
#define WRING_RUNTIME_STATS_H

#include "transport/collective/shm_flags.h"
#include <wring/wring.h>

/** What goes past the engine is to be counted. */
void wring_stats_list(struct wring_session *session, struct wring_shm_flags *flags);

/** It will be gone, but not what it counted. NULL, and what is not listed, is fine. The engine is
 *  locked. */
void wring_stats_unlist(struct wring_session *session, const struct wring_shm_flags *flags);

#endif
