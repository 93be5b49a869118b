/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <nmmintrin.h>
#include <string.h>

static uint64_t load_u64(const uint8_t *from)
{
    uint64_t x;
    memcpy(&x, from, sizeof(x));
    return x;
}

/** The register after a block of zero bytes. */
static uint32_t skip_block(const struct wring_crc32c *crc, uint32_t state)
{
    return crc->skip[0][state & 0xFF] ^ crc->skip[1][state >> 8 & 0xFF] ^
           crc->skip[2][state >> 16 & 0xFF] ^ crc->skip[3][state >> 24];
}

/** Three blocks at once, as the instruction takes three cycles and one can begin in each. */
static uint32_t run_blocks(const struct wring_crc32c *crc, uint32_t state, const uint8_t *data)
{
    uint64_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < WRING_CRC32C_BLOCK; i += 8) {
        a = _mm_crc32_u64(a, load_u64(data + i));
        b = _mm_crc32_u64(b, load_u64(data + WRING_CRC32C_BLOCK + i));
        c = _mm_crc32_u64(c, load_u64(data + 2 * WRING_CRC32C_BLOCK + i));
    }
    return skip_block(crc, skip_block(crc, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

uint32_t wring_crc32c_run_sse42(const struct wring_crc32c *crc, uint32_t state, const uint8_t *data,
                                size_t bytes)
{
    const size_t three = (size_t)3 * WRING_CRC32C_BLOCK;
    for (; bytes >= three; data += three, bytes -= three)
        state = run_blocks(crc, state, data);
    uint64_t wide = state;
    for (; bytes >= 8; data += 8, bytes -= 8)
        wide = _mm_crc32_u64(wide, load_u64(data));
    state = (uint32_t)wide;
    for (; bytes > 0; data++, bytes--)
        state = _mm_crc32_u8(state, *data);
    return state;
}
