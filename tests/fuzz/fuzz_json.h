/* SPDX-License-Identifier: Apache-2.0 */
/** For the planner's files: an input as a file, and a log that counts its lines. */
#ifndef WRING_TESTS_FUZZ_JSON_H
#define WRING_TESTS_FUZZ_JSON_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/fuzz/fuzz.h"
#include <wring/status.h>

/** @param path out, [64] @return a descriptor, to be closed */
static inline int fuzz_file(const void *data, size_t size, char *path)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file in memory");
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

struct fuzz_log {
    struct wring_log log;
    unsigned n;
    char line[1024];
};

static inline void fuzz_log_line(void *arg, enum wring_log_level level, const char *module,
                                 const char *text)
{
    struct fuzz_log *log = arg;

    (void)level, (void)module;
    log->n++;
    snprintf(log->line, sizeof(log->line), "%s", text);
}

static inline void fuzz_log_init(struct fuzz_log *log)
{
    *log = (struct fuzz_log){.log = {.fn = fuzz_log_line, .arg = log, .level = WRING_LOG_DEBUG}};
}

/** Refused: with one line that begins with the file's name, and of a kind that a caller can tell.
 */
static inline void fuzz_check_refusal(enum wring_status status, const struct fuzz_log *log,
                                      const char *path)
{
    FUZZ_CHECK(status == WRING_ERR_INVALID || status == WRING_ERR_VERSION, "status %d", status);
    FUZZ_CHECK(log->n == 1 && strncmp(log->line, path, strlen(path)) == 0, "%u lines: %s", log->n,
               log->line);
}

#endif
