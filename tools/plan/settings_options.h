/* SPDX-License-Identifier: Apache-2.0 */
/** The options --cores and --chunk-bytes, of those who plan and of those who measure. */
#ifndef WRING_TOOLS_SETTINGS_OPTIONS_H
#define WRING_TOOLS_SETTINGS_OPTIONS_H

#include <argp.h>

#include "planner/model/settings.h"

/** Their lists; what is no such list ends the program as argp_error() does. @param arg  cut */
void wring_settings_parse_cores(struct wring_settings_wanted *settings, char *arg,
                                struct argp_state *state);
void wring_settings_parse_chunks(struct wring_settings_wanted *settings, char *arg,
                                 struct argp_state *state);

#endif
