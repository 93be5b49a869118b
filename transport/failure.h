/* SPDX-License-Identifier: Apache-2.0 */
/** The job's failure, and how this rank tells it to others. Part of the fabric. */
#ifndef WRING_TRANSPORT_FAILURE_H
#define WRING_TRANSPORT_FAILURE_H

#include "transport/fabric.h"

/** Tell all of the fabric's failure. */
void wring_failure_tell(struct wring_fabric *fabric);

/** Tell those that there was no room for. */
void wring_failure_tell_again(struct wring_fabric *fabric);

#endif
