/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations that the parts of the engine share. Private to engine*.c. */
#ifndef WRING_TRANSPORT_ENGINE_INSIDE_H
#define WRING_TRANSPORT_ENGINE_INSIDE_H

#include "transport/engine.h"

/** A job has ended: count its cost. @return whether what it was given was sound; if not, the
 * session has failed */
bool wring_engine_take_job(struct wring_engine *engine, const struct wring_job *job);

#endif
