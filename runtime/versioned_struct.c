/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/versioned_struct.h"

#include <string.h>

#define WRING_MODULE "session"

/** The size that the caller says. @return 0 where that cannot be one */
static size_t said(const struct wring_versioned_struct *sized, const void *theirs)
{
    size_t bytes;
    memcpy(&bytes, theirs, sizeof(bytes));
    if (bytes == 0)
        return sized->first;
    return bytes >= sizeof(bytes) && bytes <= WRING_VERSIONED_STRUCT_MAX ? bytes : 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool wring_versioned_struct_read(const struct wring_versioned_struct *sized, const void *theirs,
                                 void *ours)
{
    const unsigned char *fields = theirs;
    size_t bytes = said(sized, theirs);

    memset(ours, 0, sized->bytes);
    memcpy(ours, theirs, smaller(bytes, sized->bytes));
    for (size_t i = sized->bytes; i < bytes; i++)
        if (fields[i] != 0)
            return false;
    return bytes > 0;
}

bool wring_versioned_struct_takes(const struct wring_versioned_struct *sized, const void *theirs)
{
    return said(sized, theirs) > 0;
}

enum wring_status wring_versioned_struct_refuse(const struct wring_versioned_struct *sized,
                                                const void *theirs, const struct wring_log *log)
{
    size_t bytes;
    memcpy(&bytes, theirs, sizeof(bytes));
    if (said(sized, theirs) == 0)
        wring_error(log, "%s: struct_bytes is %zu, which is no size of it: start from its _INIT",
                    sized->name, bytes);
    else
        wring_error(log,
                    "%s: the program sets a field that it knows of a later wring, and this one "
                    "lacks (%zu bytes there, %zu here): install that one, or leave the field out",
                    sized->name, bytes, sized->bytes);
    return WRING_ERR_INVALID;
}

enum wring_status wring_versioned_struct_write(const struct wring_versioned_struct *sized,
                                               const void *ours, void *theirs)
{
    size_t bytes = smaller(said(sized, theirs), sized->bytes);
    if (bytes == 0)
        return WRING_ERR_INVALID;
    memcpy(theirs, ours, bytes);
    memcpy(theirs, &bytes, sizeof(bytes));
    return WRING_OK;
}
