/* SPDX-License-Identifier: Apache-2.0 */
/** test_provider [fault+]NAME [CASE …]: the suite on one provider, alone or wrapped. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/provider/suite.h"
#include "transport/providers/fault/fault.h"

static const struct wring_provider_ops *chosen;
static bool wrapped;

static enum wring_status open_chosen(const struct wring_provider_params *params,
                                     struct wring_provider **out)
{
    struct wring_provider *inner;
    enum wring_status status = chosen->open(params, wrapped ? &inner : out);
    if (status != WRING_OK || !wrapped)
        return status;
    status = wring_fault_wrap("rate=20gbit", params, inner, out);
    if (status != WRING_OK)
        inner->ops->close(inner);
    return status;
}

int main(int argc, char **argv)
{
    char reason[256];
    const char *name = argc > 1 ? argv[1] : "";
    wrapped = strncmp(name, "fault+", 6) == 0;
    chosen = wring_provider_find(wrapped ? name + 6 : name);
    if (chosen == NULL) {
        fprintf(stderr, "usage: test_provider NAME [CASE...]: no such provider\n");
        return 2;
    }
    if (chosen->probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("%s: %s", chosen->name, reason);
    const struct wring_provider_driver driver = {name, open_chosen};
    return wring_provider_suite(argc - 1, argv + 1, &driver);
}
