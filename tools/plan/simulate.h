/* SPDX-License-Identifier: Apache-2.0 */
/** wring simulate: between its command line and the sweep. */
#ifndef WRING_TOOLS_SIMULATE_H
#define WRING_TOOLS_SIMULATE_H

#include <argp.h>

#include "tools/plan/sweep.h"

struct wring_simulate {
    struct wring_sweep sweep;
    const char *csv, *svg;
    bool json;
    uint32_t iterations; /* 0: as many as it takes */
    struct wring_point *points;
    size_t n, capacity;
    bool progress; /* on a terminal */
};

/** Its command line; input: struct wring_simulate. */
extern const struct argp wring_simulate_argp;

#endif
