/* SPDX-License-Identifier: Apache-2.0 */
/** Which host this is: two processes are on the same one when boot id and network namespace are. */
#ifndef WRING_BASE_HOST_H
#define WRING_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/** @param text out, [bytes] (96 suffice), the same on one host only. @return false if unknown */
bool wring_host_identity(char *text, size_t bytes);

#endif
