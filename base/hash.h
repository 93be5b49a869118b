/* SPDX-License-Identifier: Apache-2.0 */
/** Hashes that tell things apart, and resist nobody. Equal on all ranks. */
#ifndef WRING_BASE_HASH_H
#define WRING_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a (Fowler, Noll, Vo): begin with these. */
#define WRING_FNV64 UINT64_C(0xcbf29ce484222325)
#define WRING_FNV64_PRIME UINT64_C(0x100000001b3)
#define WRING_FNV32 UINT32_C(2166136261)

static inline uint64_t wring_fnv64(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * WRING_FNV64_PRIME;
    return hash;
}

static inline uint32_t wring_fnv32(uint32_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT32_C(16777619);
    return hash;
}

/** One word more; the factor is odd and without pattern: 2^64 by the golden ratio. */
static inline uint64_t wring_fold(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

#endif
