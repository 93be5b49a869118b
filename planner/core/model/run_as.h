/* SPDX-License-Identifier: Apache-2.0 */
/** Which options this build's runtime can execute. */
#ifndef WRING_MODEL_RUN_AS_H
#define WRING_MODEL_RUN_AS_H

#include "planner/core/model/option.h"

/**
 * How can a bucket travel like that? The runtime exchanges between all ranks at once, or between
 * nodes, after a raw reduce-scatter within each and before a raw allgather. It codes on the CPU,
 * and knows two ways for codes: allgather, and alltoall, sum, allgather. With one rank in a node
 * the exchange between nodes is one between all ranks.
 *
 * @param codec  a spec; one that this build does not have runs nowhere
 * @return static: the name of an enum wring_scheme; "" where it cannot
 */
const char *wring_option_run_as(const struct wring_option *option, const char *codec,
                                uint32_t ranks_per_node);

#endif
