/* SPDX-License-Identifier: Apache-2.0 */
/** Log lines go to the caller's function; the library itself never prints. */
#ifndef WRING_LOG_H
#define WRING_LOG_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

enum wring_log_level {
    WRING_LOG_ERROR = 0,
    WRING_LOG_WARN,
    WRING_LOG_INFO,
    WRING_LOG_DEBUG,
};

/**
 * Take one log line.
 *
 * @param arg     as given with the function
 * @param module  the part of the library that speaks: "tcp", "session", …
 * @param text    one line without a line break; borrowed for the call
 *
 * Threads: the library calls it in any thread, and perhaps in several at once.
 */
typedef void (*wring_log_fn)(void *arg, enum wring_log_level level, const char *module,
                             const char *text);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
