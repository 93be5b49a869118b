/* SPDX-License-Identifier: Apache-2.0 */
/** From completions to events. */
#ifndef WRING_VERBS_COMPLETE_H
#define WRING_VERBS_COMPLETE_H

#include <wring/provider.h>

struct verbs_completion;
struct verbs_conn;
struct verbs_path;

/** Was a completion asked for that has not come? */
bool wring_verbs_path_is_owed(const struct verbs_path *path);

/** What the completion queue said of a path. */
void wring_verbs_path_complete(struct verbs_path *path, const struct verbs_completion *completion);

/** Before completions are looked at: post what is pending, and receives for what was given out. */
void wring_verbs_conn_begin_poll(struct verbs_conn *conn);

/** Hand out events. @return how many of events[max] were written */
size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max);

#endif
