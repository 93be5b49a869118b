/* SPDX-License-Identifier: Apache-2.0 */
/** What a device can do, tried out on it. */
#ifndef WRING_VERBS_ABILITY_H
#define WRING_VERBS_ABILITY_H

#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_port.h"

/** What the device cannot tell is left zero. */
void wring_verbs_try_abilities(const struct verbs_library *library, struct ibv_context *context,
                               const struct ibv_device_attr *attr, struct verbs_abilities *out);

/**
 * Does the device register dma-bufs? Asked with a descriptor that is none: those that know the call
 * object to the descriptor (EBADF), the others to the call (EOPNOTSUPP, EPROTONOSUPPORT).
 */
bool wring_verbs_takes_dmabuf(const struct verbs_library *library, struct ibv_pd *pd);

/**
 * May this process register memory worth speaking of with a device? Where `ulimit -l` is small a
 * bit more than it allows is tried: some processes need not keep to it.
 * @param reason  out, [bytes], written where it may not
 */
bool wring_verbs_may_lock(const struct verbs_library *library, const char *device, char *reason,
                          size_t bytes);

#endif
