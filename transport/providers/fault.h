/* SPDX-License-Identifier: Apache-2.0 */
/**
 * fault: a provider around another one that makes its network worse, by schedule.
 *
 *     rate=1gbit    each way, shared by all connections of this provider: a slow link
 *
 * Rates are bit, kbit, mbit or gbit per second, in powers of 1000 as networks count. The link is
 * full duplex. A put leaves when its last byte would have left; it arrives when the receiver's
 * link has had time for it, cut through: an idle link adds nothing of its own. Headers and control
 * messages are free.
 */
#ifndef WRING_PROVIDERS_FAULT_H
#define WRING_PROVIDERS_FAULT_H

#include <wring/provider.h>

struct wring_fault_schedule {
    double ns_per_byte; /* 0: as fast as the inner provider */
};

/** Parse a schedule. @param why out, [bytes], what is wrong, when it returns false */
bool wring_fault_parse(const char *text, struct wring_fault_schedule *out, char *why, size_t bytes);

/**
 * Wrap a provider, which is owned by the wrapper from then on.
 * Errors: WRING_ERR_INVALID (the schedule), WRING_ERR_SYSTEM, both logged; WRING_ERR_NO_MEMORY.
 * Inner is untouched then.
 */
enum wring_status wring_fault_wrap(const char *schedule, const struct wring_provider_params *params,
                                   struct wring_provider *inner, struct wring_provider **out);

#endif
