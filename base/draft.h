/* SPDX-License-Identifier: Apache-2.0 */
/** Files that are replaced whole or not at all: others may read them meanwhile. */
#ifndef WRING_BASE_DRAFT_H
#define WRING_BASE_DRAFT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/file_limit.h"

struct wring_draft {
    FILE *file; /* to write to */
    char *path; /* beside the one that it will replace */
    struct wring_file_limit held;
};

/** Begin one, in the thread that closes it: what is too large is an error there. @param mode  the
 * file's. @return false: errno says why, and nothing is left */
bool wring_draft_open(struct wring_draft *draft, const char *path, mode_t mode);

/** Put it in the place of `path`, or remove it. @param well  all was written. @return false: it was
 *  removed, and where `well` was true errno says why */
bool wring_draft_close(struct wring_draft *draft, const char *path, bool well);

#endif
