/* SPDX-License-Identifier: Apache-2.0 */
/** The labels that a beam keeps at one of its stops. */
#ifndef WRING_PLANNER_BEAM_STOP_H
#define WRING_PLANNER_BEAM_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/problem.h"

/** How a label came to be. */
struct wring_beam_origin {
    uint32_t stop, label, option;
};

struct wring_beam_stop {
    uint32_t n, width, n_lanes;         /* labels, room for them (even), and their lanes */
    uint32_t beat;                      /* pair of labels that was as good as one, the last time */
    uint32_t worst;                     /* label; where there is no more room */
    double limit;                       /* labels worth no less need not be kept */
    double *lanes;                      /* [n_lanes × width] lane by lane, aligned to 16 bytes */
    double *worth;                      /* [width] the less, the better */
    struct wring_beam_origin *origin;   /* [width] */
    uint32_t best;                      /* label, once all are there */
    double least[WRING_PLAN_LANES_MAX]; /* of all labels, lane by lane, likewise */
};

/** No labels any more. */
void wring_beam_stop_clear(struct wring_beam_stop *stop);

/** One label more, of these lanes, that is nowhere from; if there is room. */
void wring_beam_stop_leave(struct wring_beam_stop *stop, const double *lanes);

/**
 * Keep a label, unless another is as good on every lane; drop those that it makes useless.
 *
 * @return whether a label had to go for want of room
 */
bool wring_beam_stop_keep(struct wring_beam_stop *stop, const double *lanes, double worth,
                          struct wring_beam_origin origin);

/** All labels are there: see what there is of them. */
void wring_beam_stop_finish(struct wring_beam_stop *stop);

#endif
