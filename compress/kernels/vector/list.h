/* SPDX-License-Identifier: Apache-2.0 */
/** The places of bits that are set, as kernels list them. */
#ifndef WRING_KERNELS_VECTOR_LIST_H
#define WRING_KERNELS_VECTOR_LIST_H

#include "compress/kernels/vector/vector.h"

/**
 * Write the indices of 64 elements' marks. Few words have more than three, so the first ones are
 * written whether they are there or not: the next word overwrites rubbish. They are put together in
 * a register, since each store costs as much as finding what it stores.
 * @param sure  how many are written so: 1..4
 */
INLINE uint16_t *list_64(uint16_t *out, uint64_t marks, uint64_t i, unsigned sure)
{
    uint16_t *end = out + __builtin_popcountll(marks);
    uint64_t slots = i * 0x0001000100010001u;

    for (unsigned slot = 0; slot < sure; slot++, marks &= marks - 1)
        slots += zeros_below(marks) << 16 * slot;
    memcpy(out, &slots, sizeof(slots));
    for (unsigned entry = sure; __builtin_expect(marks != 0, 0); entry++, marks &= marks - 1)
        out[entry] = (uint16_t)(i + zeros_below(marks));
    return end;
}

#endif
