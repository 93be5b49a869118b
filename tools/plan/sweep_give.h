/* SPDX-License-Identifier: Apache-2.0 */
/** Ways to give away the points of a sweep. Errors: WRING_ERR_SYSTEM (cannot write). */
#ifndef WRING_TOOLS_SWEEP_GIVE_H
#define WRING_TOOLS_SWEEP_GIVE_H

#include <stdio.h>

#include "tools/plan/sweep.h"

typedef enum wring_status (*wring_give_fn)(const struct wring_sweep *sweep,
                                           const struct wring_point *points, size_t n, FILE *file);

/** For people. */
enum wring_status wring_sweep_show(const struct wring_sweep *sweep,
                                   const struct wring_point *points, size_t n, FILE *file);

enum wring_status wring_sweep_write_json(const struct wring_sweep *sweep,
                                         const struct wring_point *points, size_t n, FILE *file);

/** RFC 4180, with a line of names. */
enum wring_status wring_sweep_write_csv(const struct wring_sweep *sweep,
                                        const struct wring_point *points, size_t n, FILE *file);

/** Charts of scaling factor and speed-ups against nodes, or links where only these are swept. */
enum wring_status wring_sweep_write_svg(const struct wring_sweep *sweep,
                                        const struct wring_point *points, size_t n, FILE *file);

#endif
