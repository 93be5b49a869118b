/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/kernels.h"

const void *wring_kernels_pick(const void *tiers, size_t entry_bytes, enum wring_cpu_tier allowed)
{
    const char *best = tiers; /* the scalar reference runs everywhere */
    for (const char *entry = tiers;; entry += entry_bytes) {
        const struct wring_kernel_tier *tier = (const void *)entry;
        if (tier->name == NULL)
            return best;
        if (tier->tier <= allowed && wring_cpu_has(tier->tier))
            best = entry;
    }
}
