/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <string.h>

#include "base/bytes.h"

#define POLYNOMIAL 0x82F63B78u

uint32_t wring_crc32c_run_scalar(const struct wring_crc32c *crc, uint32_t state,
                                 const uint8_t *data, size_t bytes)
{
    const uint32_t(*table)[256] = crc->table;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint64_t x = wring_get_u64(data) ^ state;
        /* byte k has 7 - k bytes after it */
        state = table[7][x & 0xFF] ^ table[6][x >> 8 & 0xFF] ^ table[5][x >> 16 & 0xFF] ^
                table[4][x >> 24 & 0xFF] ^ table[3][x >> 32 & 0xFF] ^ table[2][x >> 40 & 0xFF] ^
                table[1][x >> 48 & 0xFF] ^ table[0][x >> 56];
    }
    for (; bytes > 0; data++, bytes--)
        state = table[0][(state ^ *data) & 0xFF] ^ state >> 8;
    return state;
}

static void make_table(uint32_t table[8][256])
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t state = v;
        for (int bit = 0; bit < 8; bit++)
            state = (state & 1) != 0 ? state >> 1 ^ POLYNOMIAL : state >> 1;
        table[0][v] = state;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t v = 0; v < 256; v++) {
            uint32_t state = table[k - 1][v];
            table[k][v] = table[0][state & 0xFF] ^ state >> 8;
        }
}

/** Zero bytes act on the register linearly: 32 bits tell what becomes of every value. */
static void make_skip_table(struct wring_crc32c *crc)
{
    static const uint8_t zeros[WRING_CRC32C_BLOCK];
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++)
        of_bit[bit] = wring_crc32c_run_scalar(crc, 1u << bit, zeros, sizeof(zeros));
    for (int k = 0; k < 4; k++)
        for (uint32_t v = 0; v < 256; v++) {
            uint32_t state = 0;
            for (int bit = 0; bit < 8; bit++)
                if ((v >> bit & 1) != 0)
                    state ^= of_bit[8 * k + bit];
            crc->skip[k][v] = state;
        }
}

void wring_crc32c_init(struct wring_crc32c *crc, enum wring_cpu_tier tier)
{
    make_table(crc->table);
    make_skip_table(crc);
    crc->run = wring_crc32c_run_scalar;
#ifdef WRING_BASE_X86 /* every processor with AVX2 has SSE4.2 */
    if (tier >= WRING_CPU_AVX2 && wring_cpu_has(WRING_CPU_AVX2))
        crc->run = wring_crc32c_run_sse42;
#else
    (void)tier;
#endif
}
