/* SPDX-License-Identifier: Apache-2.0 */
/** The suite of all providers, on verbs, between the two devices of the rig's machine. */
#include "base/config.h"
#include "tests/lib/test.h"
#include "tests/provider/ends.h"
#include "transport/providers/providers.h"

static struct wring_config configs[2]; /* one per device */
static unsigned opened;

static bool load_configs(void)
{
    static const char *const devices[] = {"rxa", "rxb"};
    for (int i = 0; i < 2; i++)
        if (wring_config_load(&configs[i], NULL) != WRING_OK ||
            wring_config_set(&configs[i], NULL, "WRING_VERBS_DEVICES", devices[i]) != WRING_OK)
            return false;
    return true;
}

/** Every other instance on the other device: the suite opens them in pairs. */
static enum wring_status open_alternating(const struct wring_provider_params *params,
                                          struct wring_provider **out)
{
    struct wring_provider_params mine = *params;
    mine.config = &configs[opened++ % 2];
    return wring_provider_verbs.open(&mine, out);
}

int main(int argc, char **argv)
{
    static const struct wring_provider_driver pair = {"verbs", open_alternating};
    char reason[256];
    if (wring_provider_verbs.probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("verbs: %s", reason);
    if (!load_configs())
        return 2;
    ends_use_fewer(4);
    return wring_provider_suite(argc, argv, &pair);
}
