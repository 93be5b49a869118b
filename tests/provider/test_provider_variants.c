/* SPDX-License-Identifier: Apache-2.0 */
/** test_provider_variants NAME: the conformance suite on a provider with settings of its own. */
#include <string.h>

#include "base/config.h"
#include "tests/lib/test.h"
#include "tests/provider/suite.h"
#include "transport/providers/fault/fault.h"

struct variant {
    const char *name, *provider;
    const char *checksum; /* WRING_TCP_CHECKSUM */
    const char *fault;    /* NULL: not wrapped */
    const char *sockets;  /* WRING_TCP_SOCKETS; NULL: auto */
};

static const struct variant variants[] = {
    {"tcp-checked", "tcp", "on", NULL, NULL},
    {"tcp-sockets", "tcp", "off", NULL, "4"},
    {"tcp-sockets-checked", "tcp", "on", NULL, "16"},
    {"tcp-sockets-late", "tcp", "off", "delay=50us,jitter=100us", "2"},
    {"tcp-checked-late", "tcp", "on", "delay=50us,jitter=100us,rate=20gbit,seed=3", NULL},
    {"tcp-late", "tcp", "off", "delay=50us,jitter=100us", NULL},
    {"shm-late", "shm", "off", "delay=50us,jitter=100us,seed=1", NULL},
    {"verbs", "verbs", "off", NULL, NULL}, /* with settings from the environment */
    {"tcp-idle-faults", "tcp", "off", "corrupt=0,disconnect=0,delay=0ms", NULL},
};

static const struct variant *chosen;
static struct wring_config config;

static enum wring_status open_variant(const struct wring_provider_params *params,
                                      struct wring_provider **out)
{
    struct wring_provider_params with_config = *params;
    with_config.config = &config;
    const struct wring_provider_ops *ops = wring_provider_find(chosen->provider);
    struct wring_provider *inner;
    enum wring_status status = ops->open(&with_config, chosen->fault != NULL ? &inner : out);
    if (status != WRING_OK || chosen->fault == NULL)
        return status;
    status = wring_fault_wrap(chosen->fault, &with_config, inner, out);
    if (status != WRING_OK)
        inner->ops->close(inner);
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        if (strcmp(variants[i].name, name) == 0)
            chosen = &variants[i];
    if (chosen == NULL) {
        fprintf(stderr, "usage: test_provider_variants NAME [CASE...]: no such variant\n");
        return 2;
    }
    if (wring_config_load(&config, NULL) != WRING_OK ||
        wring_config_set(&config, NULL, "WRING_TCP_CHECKSUM", chosen->checksum) != WRING_OK ||
        wring_config_set(&config, NULL, "WRING_TCP_SOCKETS",
                         chosen->sockets != NULL ? chosen->sockets : "auto") != WRING_OK)
        return 1;
    const struct wring_provider_driver driver = {name, open_variant};
    return wring_provider_suite(argc - 1, argv + 1, &driver);
}
