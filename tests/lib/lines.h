/* SPDX-License-Identifier: Apache-2.0 */
/** What a test job's ranks log, kept as text. */
#ifndef WRING_TESTS_LINES_H
#define WRING_TESTS_LINES_H

#include <pthread.h>

#include <wring/log.h>

struct wring_test_lines {
    pthread_mutex_t mutex;
    const char *module; /* only its lines; NULL: all */
    char text[64 << 10];
};
#define WRING_TEST_LINES_INIT              \
    (struct wring_test_lines)              \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

/** A session's or a job's log function. @param arg  a struct wring_test_lines. Threads: safe. */
void wring_test_lines_take(void *arg, enum wring_log_level level, const char *module,
                           const char *text);

/** How often they have some text. Nobody logs any more. */
unsigned wring_test_lines_count(const struct wring_test_lines *lines, const char *part);

#endif
