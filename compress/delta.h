/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The difference of weights to a base: bytes as they were, byte for byte, whatever they mean. Made
 * for bf16 and f16 of which few change, and by little, from one version to the next. Bytes in
 * FORMAT.md, "delta".
 *
 * Bits: the same code on every CPU.
 */
#ifndef WRING_COMPRESS_DELTA_H
#define WRING_COMPRESS_DELTA_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include <wring/status.h>

/* Bytes of a run: a caller cuts weights at multiples of it only. */
#define WRING_DELTA_RUN ((size_t)8192)

/** The most bytes that the code of so many takes. */
size_t wring_delta_bound(uint64_t bytes);

/**
 * Code = what makes `now` of `base`.
 * @param tier       highest kernel tier
 * @param base, now  in, [bytes], at any address
 * @param code       out, [wring_delta_bound(bytes)]
 * @return bytes of the code
 */
size_t wring_delta_encode(enum wring_cpu_tier tier, const void *base, const void *now,
                          uint64_t bytes, void *code);

/**
 * dst = base, changed as the code says.
 * @param dst   out, [bytes]; may be exactly base, else does not overlap it
 * @param code  in, [code_bytes]; checked before it is trusted
 * Errors: WRING_ERR_FRAME: runs before the malformed one are changed, and dst is undefined there.
 */
enum wring_status wring_delta_apply(enum wring_cpu_tier tier, void *dst, const void *base,
                                    uint64_t bytes, const void *code, size_t code_bytes);

#define WRING_DELTA_HASH UINT64_C(0x2545F4914F6CDD1D) /* to begin with */

/**
 * Hash further bytes: a whole number of runs, or the last ones. It tells versions of weights
 * apart, and what broke by chance; it resists nobody.
 *
 * After NH of J. Black, S. Halevi, H. Krawczyk, T. Krovetz and P. Rogaway, UMAC: fast and secure
 * message authentication, 1999, for each run; its sums are folded (base/hash.h).
 */
uint64_t wring_delta_hash(uint64_t hash, const void *data, uint64_t bytes);

#endif
