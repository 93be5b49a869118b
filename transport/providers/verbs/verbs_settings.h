/* SPDX-License-Identifier: Apache-2.0 */
/** What the config says of the verbs provider. */
#ifndef WRING_VERBS_SETTINGS_H
#define WRING_VERBS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct wring_config;

struct verbs_settings {
    bool new_calls, classic_calls; /* may be used */
    unsigned qps;
    uint64_t stripe_bytes, recover_ns, revive_ns, handshake_ns;
    uint32_t inline_bytes;
    uint8_t timeout, retries, rnr_retries, sl, tc;
};

void wring_verbs_settings_read(const struct wring_config *config, struct verbs_settings *out);

#endif
