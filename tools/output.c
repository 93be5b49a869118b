/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/output.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/draft.h"
#include "tools/commands.h"

bool wring_output_is_unread(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

int wring_output_failed(void)
{
    return wring_output_is_unread(STDOUT_FILENO) ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
}

/** When the process ends, by whatever way: argp ends it by itself after --help. */
static void check_standard_output(void)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed |= fflush(stdout) != 0;
    if (!failed || wring_output_is_unread(STDOUT_FILENO))
        return;
    if (errno == 0) { /* it failed earlier: once more, for the reason */
        clearerr(stdout);
        putchar('\n');
        fflush(stdout);
    }
    wring_fail("wring", "standard output cannot be written: %s", strerror(errno));
    _exit(WRING_EXIT_FAILURE);
}

void wring_output_init(void)
{
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, NULL);
    atexit(check_standard_output);
}

/** What we print goes there, too, as with -o /dev/stdout and standard output in a file. */
static bool is_printed_to(const struct stat *there)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat here;
        if (fstat(fd, &here) == 0 && here.st_dev == there->st_dev && here.st_ino == there->st_ino)
            return true;
    }
    return false;
}

/** Can a draft be made beside it? */
static bool has_room_beside(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    return access(dirname(folder), W_OK) == 0;
}

/** Something that a draft must not take the place of: a device, a pipe, a file that is printed to,
 *  of somebody else, with several names, or in a folder where we may make none. */
static bool is_written_through(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 &&
           (!S_ISREG(there.st_mode) || is_printed_to(&there) || there.st_uid != geteuid() ||
            there.st_nlink > 1 || !has_room_beside(path));
}

static mode_t mode_of(const char *path)
{
    struct stat there;
    if (stat(path, &there) == 0)
        return there.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static bool write_through(const char *path, bool (*write)(FILE *file, void *arg), void *arg)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    bool well = write(file, arg) && ferror(file) == 0;
    int why = errno;
    if (fclose(file) != 0)
        return false;
    errno = why;
    return well;
}

static bool write_draft(const char *path, bool (*write)(FILE *file, void *arg), void *arg)
{
    struct wring_draft draft;
    if (!wring_draft_open(&draft, path, mode_of(path)))
        return false;
    bool well = write(draft.file, arg) && ferror(draft.file) == 0;
    int why = errno;
    bool closed = wring_draft_close(&draft, path, well);
    if (!well)
        errno = why;
    return closed;
}

int wring_output_file(const char *command, const char *path, bool (*write)(FILE *file, void *arg),
                      void *arg)
{
    char target[PATH_MAX]; /* a link stays one */

    errno = 0;
    bool through = is_written_through(path);
    const char *to = !through && realpath(path, target) != NULL ? target : path;
    errno = 0;
    if (through ? write_through(path, write, arg) : write_draft(to, write, arg))
        return WRING_EXIT_OK;
    int why = errno;
    return wring_fail(command, "%s: cannot be written%s%s", path, why != 0 ? ": " : "",
                      why != 0 ? strerror(why) : "");
}
