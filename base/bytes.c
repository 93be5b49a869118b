/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <stdlib.h>

void wring_write(struct wring_writer *writer, const void *data, size_t bytes)
{
    if (writer->failed || bytes == 0)
        return;
    if (bytes > writer->capacity - writer->bytes) {
        size_t capacity = (writer->bytes + bytes) * 2 + 64;
        uint8_t *grown = realloc(writer->data, capacity);
        if (grown == NULL) {
            writer->failed = true;
            return;
        }
        writer->data = grown;
        writer->capacity = capacity;
    }
    memcpy(writer->data + writer->bytes, data, bytes);
    writer->bytes += bytes;
}

void wring_write_u32(struct wring_writer *writer, uint32_t value)
{
    wring_write(writer, &value, sizeof(value));
}

void wring_write_u64(struct wring_writer *writer, uint64_t value)
{
    wring_write(writer, &value, sizeof(value));
}

void wring_write_sized(struct wring_writer *writer, const void *data, size_t bytes)
{
    wring_write_u32(writer, (uint32_t)bytes);
    wring_write(writer, data, bytes);
}

const void *wring_read(struct wring_reader *reader, size_t bytes)
{
    if (reader->failed || bytes > reader->bytes) {
        reader->failed = true;
        return NULL;
    }
    const void *data = reader->data;
    reader->data += bytes;
    reader->bytes -= bytes;
    return data;
}

uint32_t wring_read_u32(struct wring_reader *reader)
{
    const void *data = wring_read(reader, sizeof(uint32_t));
    return data != NULL ? wring_get_u32(data) : 0;
}

uint64_t wring_read_u64(struct wring_reader *reader)
{
    const void *data = wring_read(reader, sizeof(uint64_t));
    return data != NULL ? wring_get_u64(data) : 0;
}

const void *wring_read_sized(struct wring_reader *reader, size_t *bytes)
{
    size_t wanted = wring_read_u32(reader);
    const void *data = wring_read(reader, wanted);
    *bytes = data != NULL ? wanted : 0;
    return data;
}

void wring_read_text(struct wring_reader *reader, char *text, size_t capacity)
{
    size_t bytes;
    const void *data = wring_read_sized(reader, &bytes);
    if (data == NULL || bytes >= capacity) {
        reader->failed = true;
        bytes = 0;
    }
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
}
