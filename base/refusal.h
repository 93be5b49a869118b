/* SPDX-License-Identifier: Apache-2.0 */
/** How log lines say that the system refused a call: which one, why, and what helps. */
#ifndef WRING_BASE_REFUSAL_H
#define WRING_BASE_REFUSAL_H

#include <stddef.h>

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

#endif
