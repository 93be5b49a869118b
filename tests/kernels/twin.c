/* SPDX-License-Identifier: Apache-2.0 */
/* Built with TWIN_NAME and TWIN_BYTES, the width of a vector. */
#include "tests/kernels/twin.h"

typedef uint64_t vector __attribute__((vector_size(TWIN_BYTES), aligned(1), may_alias));

#define STRIDE (2 * TWIN_BYTES) /* divides what a step moves of any stream */

static vector load(const uint8_t *data)
{
    return *(const vector *)data;
}

static void store(uint8_t *data, vector value)
{
    *(vector *)data = value;
}

/** All that is read, in one vector; two sums, so that no addition waits for another. */
static vector take(const uint8_t *data, uint64_t bytes, vector sum)
{
    vector other = {0};
    for (const uint8_t *end = data + bytes; data != end; data += STRIDE) {
        sum ^= load(data);
        other ^= load(data + TWIN_BYTES);
    }
    return sum ^ other;
}

static void put(uint8_t *data, uint64_t bytes, vector value)
{
    for (const uint8_t *end = data + bytes; data != end; data += STRIDE) {
        store(data, value);
        store(data + TWIN_BYTES, value);
    }
}

void TWIN_NAME(const struct twin_stream streams[TWIN_STREAMS], uint64_t elems)
{
    for (uint64_t i = 0; i < elems; i += TWIN_STEP) {
        vector sum = {i};
        for (int s = 0; s < TWIN_STREAMS; s++)
            if (streams[s].read_bits > 0)
                sum = take(streams[s].data + i / 8 * streams[s].read_bits,
                           TWIN_STEP / 8 * streams[s].read_bits, sum);
        sum &= 0x3F3F3F3F3F3F3F3F; /* what is written is a finite number in every format */
        for (int s = 0; s < TWIN_STREAMS; s++)
            if (streams[s].write_bits > 0)
                put(streams[s].data + i / 8 * streams[s].write_bits,
                    TWIN_STEP / 8 * streams[s].write_bits, sum);
        __asm__ volatile("" : : "x"(sum)); /* read, even where nothing is written */
    }
}
