/* SPDX-License-Identifier: Apache-2.0 */
/** Ways to exchange gradients that the demo knows by name. Any codec's spec is one, too. */
#ifndef WRING_TOOLS_DEMO_CONFIGS_H
#define WRING_TOOLS_DEMO_CONFIGS_H

#include "tools/demo/demo.h"

/**
 * Choose by names and specs, joined by commas; "all" stands for all names.
 *
 * @param list  NULL: those of a demo that takes a minute. Cut in place, and kept by the options
 * @param why   out, [bytes], one line, on failure
 */
bool demo_configs_choose(char *list, struct demo_options *options, char *why, size_t bytes);

/** The steps at its begin in which its codec sends more, by +warmup or a parameter; 0: none. */
uint32_t demo_config_warmup(const struct demo_config *config);

#endif
