/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/rig_fault.h"

#include "base/log.h"

struct fault_rig fault_rig = {.schedule = ""};

static const struct wring_provider_ops *inside;
static struct wring_provider_ops watched; /* inside, but for its poll */

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(fault_rig.line, sizeof(fault_rig.line), "%s", text);
}

static const struct wring_log keeper = {keep_line, NULL, WRING_LOG_DEBUG};

static size_t watched_poll(struct wring_provider *provider, struct wring_event *events, size_t max)
{
    CHECK(max >= 1, "polled for no events");
    return inside->poll(provider, events, max);
}

static enum wring_status open_wrapped(const struct wring_provider_params *params,
                                      struct wring_provider **out)
{
    struct wring_provider *inner;
    struct wring_provider_params mine = *params;
    mine.log = &keeper;
    enum wring_status status = inside->open(&mine, &inner);
    if (status != WRING_OK)
        return status;
    inner->ops = &watched;
    status = wring_fault_wrap(fault_rig.schedule, &mine, inner, out);
    if (status != WRING_OK)
        inside->close(inner);
    return status;
}

int fault_rig_main(int argc, char **argv, const struct wring_test_case *cases)
{
    static const struct wring_provider_driver driver = {"fault", open_wrapped};
    inside = argc > 1 ? wring_provider_find(argv[1]) : NULL;
    if (inside == NULL) {
        fprintf(stderr, "usage: %s NAME [CASE...]: no such provider\n", argv[0]);
        return 2;
    }
    watched = *inside;
    watched.poll = watched_poll;
    ends_use(&driver);
    return wring_test_main(argc - 1, argv + 1, cases);
}
