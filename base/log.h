/* SPDX-License-Identifier: Apache-2.0 */
/** Where a session's log lines go. Copied by value; there is no process-wide logger. */
#ifndef WRING_BASE_LOG_H
#define WRING_BASE_LOG_H

#include <stddef.h>

#include <wring/log.h>

/* How log lines say that the system refused a call: which one, why, and what helps. */

#define WRING_REFUSAL_TEXT 160

/**
 * "socket: Too many open files: raise the limit of descriptors (ulimit -n)".
 * @param text  out, [bytes]; @return it
 * @param error  errno of the call
 */
const char *wring_refusal(char *text, size_t bytes, const char *call, int error);

/** The same of the call that has just failed, for one log line. */
#define WRING_REFUSED(call) \
    wring_refusal((char[WRING_REFUSAL_TEXT]){""}, WRING_REFUSAL_TEXT, call, errno)

struct wring_log {
    wring_log_fn fn; /* NULL: standard error, as "wring: module: text" */
    void *arg;
    enum wring_log_level level; /* lines above it are not made */
};

/** Format one line and hand it on. A NULL log drops it. Threads: safe. */
__attribute__((format(printf, 4, 5))) void wring_log_line(const struct wring_log *log,
                                                          enum wring_log_level level,
                                                          const char *module, const char *format,
                                                          ...);

/**
 * Put '?' for control characters, those from U+0080 to U+009F among them: lines quote names that
 * peers send, and are shown on terminals. wring_log_line() does so itself.
 */
void wring_text_clean(char *text);

#define WRING_TEXT_SHORT 80

/**
 * A name for a line that has little room: one that is long loses its middle, as names of tensors
 * differ at their ends.
 * @param out  [WRING_TEXT_SHORT]
 * @return out
 */
const char *wring_text_short(const char *text, char *out);

#define wring_error(log, ...) wring_log_line(log, WRING_LOG_ERROR, WRING_MODULE, __VA_ARGS__)
#define wring_warn(log, ...) wring_log_line(log, WRING_LOG_WARN, WRING_MODULE, __VA_ARGS__)
#define wring_info(log, ...) wring_log_line(log, WRING_LOG_INFO, WRING_MODULE, __VA_ARGS__)
#define wring_debug(log, ...) wring_log_line(log, WRING_LOG_DEBUG, WRING_MODULE, __VA_ARGS__)

#endif
