/* SPDX-License-Identifier: Apache-2.0 */
/** The providers of this build, for the table in providers.c. */
#ifndef WRING_TRANSPORT_PROVIDERS_PROVIDERS_H
#define WRING_TRANSPORT_PROVIDERS_PROVIDERS_H

#include <wring/provider.h>

extern const struct wring_provider_ops wring_provider_shm;
extern const struct wring_provider_ops wring_provider_tcp;
extern const struct wring_provider_ops wring_provider_verbs; /* a stub where headers are missing */
extern const struct wring_provider_ops wring_provider_sim;   /* in simulations only */

/** A descriptor that keeps a tcp provider's port open, also once the provider is closed: its
 * callers wait there, and nobody comes. @return -1: it is no such provider, or does not listen */
int wring_tcp_hold_port(const struct wring_provider *provider);

/**
 * How long is the way to a tcp provider's address, and back? The systems alone answer, by the first
 * step of connections that say nothing: no process need be awake there.
 * Blocks until the deadline at most.
 * @return nanoseconds, the least of three; 0: on this host; UINT64_MAX: nobody has answered
 */
uint64_t wring_tcp_measure_way(const void *address, size_t bytes, uint64_t deadline_ns);

/** What control connections are made of. */
const struct wring_provider_ops *wring_provider_for_control(void);

#endif
