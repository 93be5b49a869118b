/* SPDX-License-Identifier: Apache-2.0 */
/** Strangers at the doors of a job: connections to everything that its processes listen on. */
#ifndef WRING_TESTS_SOAK_STRANGERS_H
#define WRING_TESTS_SOAK_STRANGERS_H

#include <stdint.h>
#include <sys/types.h>

/**
 * Connect to each listening socket of these processes, tcp and abstract Unix ones: some say
 * nothing, some garbage, some what another protocol says. All are closed before it returns.
 * @return how many connections there were
 */
unsigned strangers_pester(const pid_t *pids, uint32_t n, unsigned connections, uint32_t seed);

#endif
