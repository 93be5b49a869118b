/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/payload.h"

#include <string.h>

#include "base/bytes.h"

/** Odd steps through all 256 values, shifted every 251 bytes, so that no power of two repeats. */
static uint8_t byte_at(size_t i, uint32_t sender)
{
    return (uint8_t)(i * 7 + i / 251 + 113 * (size_t)sender);
}

void wring_payload_fill(uint8_t *data, size_t bytes, uint32_t sender)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(i, sender);
}

void wring_payload_spoil(uint8_t *data, size_t bytes, uint32_t sender)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)~byte_at(i, sender);
}

static size_t stamp_bytes(size_t bytes)
{
    return bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
}

/** Puts that follow one another differ in each byte's worth of it. */
static void make_stamp(uint64_t number, uint8_t stamp[sizeof(uint64_t)])
{
    wring_put_u64(stamp, (number + 1) * 0x9E3779B97F4A7C15u);
}

void wring_payload_stamp(uint8_t *data, size_t bytes, uint64_t number)
{
    uint8_t stamp[sizeof(uint64_t)];
    size_t n = stamp_bytes(bytes);

    make_stamp(number, stamp);
    memcpy(data + bytes - n, stamp, n);
}

bool wring_payload_has_stamp(const uint8_t *data, size_t bytes, uint64_t number)
{
    uint8_t stamp[sizeof(uint64_t)];
    size_t n = stamp_bytes(bytes);

    make_stamp(number, stamp);
    return memcmp(data + bytes - n, stamp, n) == 0;
}

bool wring_payload_is_right(const uint8_t *data, size_t bytes, uint32_t sender)
{
    size_t end = bytes - stamp_bytes(bytes), i = 0;

    while (i < end && data[i] == byte_at(i, sender))
        i++;
    return i == end;
}
