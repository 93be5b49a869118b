/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CRC32C (Castagnoli, reflected polynomial 0x82F63B78, as iSCSI, RFC 3720, has it): finds what went
 * wrong by chance on a wire. It is no protection against someone who means it.
 *
 * A context is read-only once it is made; any thread may use it then.
 */
#ifndef WRING_BASE_CRC32C_H
#define WRING_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define WRING_CRC32C_BLOCK 1024 /* bytes; three such blocks are read side by side */

struct wring_crc32c;

/** The register over some more bytes, without the inversions at both ends. */
typedef uint32_t wring_crc32c_run_fn(const struct wring_crc32c *crc, uint32_t state,
                                     const uint8_t *data, size_t bytes);

struct wring_crc32c {
    uint32_t table[8][256]; /* [k][v]: the register after byte v and k zero bytes */
    uint32_t skip[4][256];  /* [k][v]: v in byte k of the register, after a block of zero bytes */
    wring_crc32c_run_fn *run;
};

/** @param tier the highest that may be used; one that the processor lacks counts as scalar */
void wring_crc32c_init(struct wring_crc32c *crc, enum wring_cpu_tier tier);

/** Extend a checksum. @param before  the checksum of all bytes before these; 0: there are none */
static inline uint32_t wring_crc32c_update(const struct wring_crc32c *crc, uint32_t before,
                                           const void *data, size_t bytes)
{
    return ~crc->run(crc, ~before, (const uint8_t *)data, bytes);
}

/** Plain C, eight bytes at a time. */
wring_crc32c_run_fn wring_crc32c_run_scalar;

/** SSE4.2's instruction in three blocks, whose results are then joined. */
wring_crc32c_run_fn wring_crc32c_run_sse42;

#endif
