/* SPDX-License-Identifier: Apache-2.0 */
/** A profile for people. */
#ifndef WRING_TOOLS_PROFILE_SHOW_H
#define WRING_TOOLS_PROFILE_SHOW_H

#include <stdio.h>

#include "planner/files/profile.h"

/** As tables: links, codecs, whole exchanges. */
void wring_profile_show(FILE *file, const struct wring_profile *profile);

/** As curves, both axes logarithmic: what exchanges and codecs take, by elements. Errors:
 *  WRING_ERR_SYSTEM (cannot write). */
enum wring_status wring_profile_write_svg(const struct wring_profile *profile, FILE *file);

/** wring info --profile: print one of a file, or a built-in one. @param svg NULL: none.
 *  @return an exit status */
int wring_profile_info(const char *name, const char *path, const char *svg, int json);

#endif
