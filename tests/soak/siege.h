/* SPDX-License-Identifier: Apache-2.0 */
/** A job that goes on while strangers come to its ports by the thousand. */
#ifndef WRING_TESTS_SOAK_SIEGE_H
#define WRING_TESTS_SOAK_SIEGE_H

#include <stdint.h>

/**
 * Four ranks sum without a pause: alone at first, then while strangers connect. Prints how long a
 * step took in both halves.
 * @param minutes  over which the strangers come; 0: as fast as one process can send them
 * @return an exit code: 1 where a sum is wrong, or a rank ends with an error
 */
int siege_run(const char *provider, uint64_t connections, uint64_t minutes);

#endif
