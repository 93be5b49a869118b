/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_settings.h"

#include <string.h>

#include "base/config.h"

void wring_verbs_settings_read(const struct wring_config *config, struct verbs_settings *out)
{
    *out = (struct verbs_settings){
        .new_calls = strcmp(config->verbs_api, "classic") != 0,
        .classic_calls = strcmp(config->verbs_api, "new") != 0,
        .qps = (unsigned)config->verbs_qps,
        .stripe_bytes = config->verbs_stripe_bytes,
        .recover_ns = config->verbs_recover_ns,
        .revive_ns = config->verbs_revive_ns,
        .handshake_ns = config->join_timeout_ns,
        .inline_bytes = (uint32_t)config->verbs_inline_bytes,
        .timeout = (uint8_t)config->verbs_timeout,
        .retries = (uint8_t)config->verbs_retries,
        .rnr_retries = (uint8_t)config->verbs_rnr_retries,
        .sl = (uint8_t)config->verbs_sl,
        .tc = (uint8_t)config->verbs_tc,
    };
}
