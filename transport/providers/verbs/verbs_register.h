/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Registering a piece of memory with the device of each rail, and why one did not take it.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_REGISTER_H
#define WRING_VERBS_REGISTER_H

#include "transport/providers/verbs/verbs_memory.h"

struct verbs_registrar {
    struct verbs_memory_params params;
    bool relaxed;   /* ordering of peers' writes into targets; off where a device refuses it */
    uint64_t made;  /* registrations, so far */
    uint64_t bytes; /* registered now, of all rails together */
};

void wring_verbs_registrar_init(struct verbs_registrar *registrar,
                                const struct verbs_memory_params *params);

/**
 * Register [pin->base, pin->base + pin->bytes) with each rail where it is not yet.
 * @param rail  out, where it failed
 * @return 0 or an errno
 */
int wring_verbs_register(struct verbs_registrar *registrar, struct verbs_pin *pin,
                         const struct wring_memory *what, enum verbs_pin_use use, unsigned *rail);

/** Take back what rails of it are registered. */
void wring_verbs_deregister(struct verbs_registrar *registrar, struct verbs_pin *pin);

/** Log why a rail's device did not take it. @return the status that stands for it */
enum wring_status wring_verbs_register_refused(const struct verbs_registrar *registrar,
                                               const struct verbs_pin *pin, unsigned rail,
                                               enum wring_memory_kind kind, int error);

#endif
