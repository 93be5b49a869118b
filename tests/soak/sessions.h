/* SPDX-License-Identifier: Apache-2.0 */
/** Sessions that are opened and closed, one pair of ranks after the other. */
#ifndef WRING_TESTS_SOAK_SESSIONS_H
#define WRING_TESTS_SOAK_SESSIONS_H

#include <stddef.h>
#include <stdint.h>

/**
 * Two ranks of this process open their sessions, sum once, and close, n times.
 * @param provider  WRING_PROVIDER
 * @return an exit code: 1 where a sum is wrong, descriptors are left or memory has grown by 1 MiB
 */
int sessions_run(const char *provider, uint64_t n);

/** Of this process, once what is free has been given back; soak.c. */
size_t soak_resident_bytes(void);

#endif
