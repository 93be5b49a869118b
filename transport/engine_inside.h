/* SPDX-License-Identifier: Apache-2.0 */
/** Declarations that the parts of the engine share. Private to engine*.c. */
#ifndef WRING_TRANSPORT_ENGINE_INSIDE_H
#define WRING_TRANSPORT_ENGINE_INSIDE_H

#include "transport/engine.h"

#endif
