/* SPDX-License-Identifier: Apache-2.0 */
#include "base/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/** @return what helps, or NULL */
static const char *remedy_of(const char *call, int error)
{
    switch (error) {
    case EMFILE:
        return "raise the limit of descriptors (ulimit -n)";
    case EFBIG:
        return "raise the limit on file sizes (ulimit -f), which counts shared memory, too";
    case ENFILE:
        return "this host has no descriptors left (sysctl fs.file-max)";
    case EAGAIN:
        return strcmp(call, "pthread_create") == 0
                   ? "raise the limit of processes and threads (ulimit -u, or pids.max of the "
                     "control group)"
                   : NULL;
    case ETOOMANYREFS:
        return "too many descriptors are on their way between processes: raise their limit "
               "(ulimit -n)";
    default:
        return NULL;
    }
}

const char *wring_refusal(char *text, size_t bytes, const char *call, int error)
{
    const char *remedy = remedy_of(call, error), *why = strerrordesc_np(error);
    snprintf(text, bytes, "%s: %s%s%s", call, why != NULL ? why : "unknown error",
             remedy != NULL ? ": " : "", remedy != NULL ? remedy : "");
    return text;
}
