/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Progress: rails are polled with every call, which takes no system call; sockets and what devices
 * tell besides are looked at now and then, and around a sleep.
 */
#ifndef WRING_VERBS_PROGRESS_H
#define WRING_VERBS_PROGRESS_H

#include <wring/provider.h>

/* as wring_provider_ops has them */
size_t wring_verbs_poll(struct wring_provider *base, struct wring_event *events, size_t max);
void wring_verbs_arm(struct wring_provider *base, struct wring_wait_set *set);

#endif
