/* SPDX-License-Identifier: Apache-2.0 */
/** Held-out losses as curves: charts below each other, of the baselines and six others each. */
#ifndef WRING_TOOLS_DEMO_CHARTS_H
#define WRING_TOOLS_DEMO_CHARTS_H

#include <stdio.h>

#include "tools/demo/judge.h"

#define DEMO_CHARTS_TITLE_BYTES 96

/** Of all charts, in the units of WRING_SVG_CHART_WIDTH. */
double demo_charts_height(const struct demo_results *results);

/** @param by_time  against seconds on the link, or else against steps */
void demo_charts_title(char *title, size_t bytes, const struct demo_results *results, bool by_time);

/** Draw all curves and targets between the begin and the end of a picture. @return false without
 *  memory */
bool demo_charts_put(FILE *file, const struct demo_results *results,
                     const struct demo_judgement *judgement, bool by_time, const char *title);

#endif
