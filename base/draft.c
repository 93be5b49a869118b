/* SPDX-License-Identifier: Apache-2.0 */
#include "base/draft.h"
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool wring_draft_open(struct wring_draft *draft, const char *path, mode_t mode)
{
    if (asprintf(&draft->path, "%s.XXXXXX", path) < 0)
        return false;
    int fd = wring_descriptor_above_stdio(mkostemp(draft->path, O_CLOEXEC)), why;
    if (fd < 0)
        goto free_path;
    if (fchmod(fd, mode) == 0 && (draft->file = fdopen(fd, "w")) != NULL) {
        wring_file_limit_hold(&draft->held);
        return true;
    }

    why = errno;
    close(fd);
    unlink(draft->path);
    errno = why;
free_path:
    why = errno;
    free(draft->path);
    errno = why;
    return false;
}

bool wring_draft_close(struct wring_draft *draft, const char *path, bool well)
{
    well = fclose(draft->file) == 0 && well && rename(draft->path, path) == 0;
    int why = errno;

    wring_file_limit_release(&draft->held);
    if (!well)
        unlink(draft->path);
    free(draft->path);
    errno = why;
    return well;
}
