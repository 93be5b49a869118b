/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/made_exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"

char made_told[WRING_LAUNCHER_TEXT];

static bool usable(char *why, size_t bytes)
{
    (void)why, (void)bytes;
    return true;
}

static enum wring_status broadcast(const struct wring_log *log, bool is_root, uint64_t deadline_ns,
                                   char *text)
{
    (void)log, (void)deadline_ns;
    snprintf(is_root ? made_told : text, WRING_LAUNCHER_TEXT, "%s", is_root ? text : made_told);
    return WRING_OK;
}

static const struct wring_launcher_exchange played = {"PMI-9", usable, broadcast};

void made_exchange_init(struct made_exchange *made, const char *const *settings)
{
    char name[64];
    made->lines = WRING_TEST_LINES_INIT;
    made->log = (struct wring_log){wring_test_lines_take, &made->lines, WRING_LOG_WARN};
    wring_config_defaults(&made->config, &made->log);
    for (; *settings != NULL; settings++) {
        size_t length = strcspn(*settings, "=");
        snprintf(name, sizeof(name), "%.*s", (int)length, *settings);
        CHECK(wring_config_set(&made->config, &made->log, name, *settings + length + 1) == WRING_OK,
              "%s: %s", *settings, made->lines.text);
    }
}

enum wring_status made_exchange_meet(struct made_exchange *made, uint32_t rank,
                                     struct wring_launcher_meeting *out)
{
    const struct wring_launched launched = {.name = "a test",
                                            .exchange = &played,
                                            .rank = rank,
                                            .size = 2,
                                            .local_rank = -1,
                                            .local_size = -1};
    *out = (struct wring_launcher_meeting){.root_fd = -1};
    return wring_launcher_meet(&made->config, &made->log, &launched,
                               wring_deadline_in(20 * WRING_NS_PER_S), out);
}
