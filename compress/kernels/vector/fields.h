/* SPDX-License-Identifier: Apache-2.0 */
/** Codes of 2, 4 or 8 bits, packed from the lowest bits of each byte on. */
#ifndef WRING_KERNELS_VECTOR_FIELDS_H
#define WRING_KERNELS_VECTOR_FIELDS_H

#include "compress/kernels/vector/vector.h"

/** Those of four vectors, of which each stands in a byte. */
INLINE void put_codes(uint8_t *code, words packed, unsigned bits)
{
    if (bits == 8) {
        store_words(code, packed);
        return;
    }
    shorts two = (shorts)packed;
    if (bits == 4) {
        store_lower_bytes(code, (two & 0x0F) | (two >> 4 & 0xF0));
        return;
    }
    words four = (words)((two & 0x03) | (two >> 6 & 0x0C));
    store_lane_bytes(code, (four | four >> 12) & 0xFF);
}

/** Those of a vector, each in the lowest bits of its lane. @param code  LANES · bits / 8 bytes */
INLINE words take_codes(const uint8_t *code, unsigned bits)
{
    words both, shifts;

    for (unsigned i = 0; i < LANES; i++)
        shifts[i] = i * bits % 32;
    if (LANES * bits == 64) {
        uint64_t packed;
        memcpy(&packed, code, sizeof(packed));
        both = spread_halves(packed);
    } else {
        uint32_t packed = 0;
        memcpy(&packed, code, LANES * bits / 8);
        both = all_words(packed);
    }
    return both >> shifts;
}

/** What 4 bits and less decode to: one value for each code, as often as an index finds it. */
struct table {
    floats values[16 / LANES];
};

/** Of the lowest bits of each lane. */
INLINE floats look_up(struct table table, words index, unsigned bits)
{
    return bits == 2 ? permuted(table.values[0], index) : permuted_16(table.values, index);
}

#endif
