/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/commands.h"
#include "tools/launch/launch.h"

int wring_command_launched(const struct wring_config *config, struct wring_launched *out)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    return wring_launcher_find(config, &log, out) == WRING_OK ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
}
