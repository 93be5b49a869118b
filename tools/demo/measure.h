/* SPDX-License-Identifier: Apache-2.0 */
/** All runs of the demo on this rank. */
#ifndef WRING_TOOLS_DEMO_MEASURE_H
#define WRING_TOOLS_DEMO_MEASURE_H

#include "tools/demo/demo.h"

/** Run everything on this rank. Rank 0's results are complete. @return exit status */
int demo_measure_all(const struct demo_options *options, struct demo_results *out);

#endif
