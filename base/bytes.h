/* SPDX-License-Identifier: Apache-2.0 */
/** Little-endian integers in messages, and a bounded reader for bytes that cannot be trusted. */
#ifndef WRING_BASE_BYTES_H
#define WRING_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "wring's wire and code formats are little endian; this machine is not supported yet"
#endif

static inline void wring_put_u32(void *to, uint32_t value)
{
    memcpy(to, &value, sizeof(value));
}

static inline void wring_put_u64(void *to, uint64_t value)
{
    memcpy(to, &value, sizeof(value));
}

static inline uint32_t wring_get_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return value;
}

static inline uint64_t wring_get_u64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return value;
}

/** A growing message. `failed` is set once memory runs out; check it at the end. */
struct wring_writer {
    uint8_t *data; /* freed by the owner */
    size_t bytes, capacity;
    bool failed;
};

void wring_write(struct wring_writer *writer, const void *data, size_t bytes);
void wring_write_u32(struct wring_writer *writer, uint32_t value);
void wring_write_u64(struct wring_writer *writer, uint64_t value);

/** A u32 length, then the bytes. */
void wring_write_sized(struct wring_writer *writer, const void *data, size_t bytes);

/** Reads that run past the end set `failed` and give zeros. */
struct wring_reader {
    const uint8_t *data;
    size_t bytes;
    bool failed;
};

uint32_t wring_read_u32(struct wring_reader *reader);
uint64_t wring_read_u64(struct wring_reader *reader);

/** @return the bytes that follow, NULL when there are fewer */
const void *wring_read(struct wring_reader *reader, size_t bytes);

/** Read what wring_write_sized() wrote. @param bytes out, 0 on failure */
const void *wring_read_sized(struct wring_reader *reader, size_t *bytes);

/** A sized text into text[capacity], NUL-terminated; fails when it does not fit. */
void wring_read_text(struct wring_reader *reader, char *text, size_t capacity);

#endif
