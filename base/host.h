/* SPDX-License-Identifier: Apache-2.0 */
/** Which host this is: two processes are on the same one when boot id and network namespace are. */
#ifndef WRING_BASE_HOST_H
#define WRING_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** @param text out, [bytes] (96 suffice), the same on one host only. @return false if unknown */
bool wring_host_identity(char *text, size_t bytes);

/**
 * The host that a rank counts as being on: what WRING_NODE says, else this one.
 *
 * @param node  of the configuration; "": nothing is said
 * @param text  out, [bytes], the same on one host only; where it is unknown, like no other rank's
 * @return false: it is unknown
 */
bool wring_host_of_rank(const char *node, uint32_t rank, char *text, size_t bytes);

#endif
