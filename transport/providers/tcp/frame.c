/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "transport/providers/tcp/tcp.h"

/* where the fields lie; all little-endian */
#define MAGIC_AT 0
#define KIND_AT 2
#define ZERO_AT 3
#define FLAGS_AT 4
#define REGION_AT 8
#define GENERATION_AT 12
#define OFFSET_AT 16
#define BYTES_AT 24
#define IMM_AT 28
#define PAYLOAD_CRC_AT 32
#define ZEROS_AT 36
#define HEADER_CRC_AT 60

#define FLAG_CHECKED 1u

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

size_t wring_tcp_frame_pack(const struct tcp_frame *frame, const struct wring_crc32c *crc,
                            uint8_t *out)
{
    out[MAGIC_AT] = TCP_FRAME_MAGIC & 0xFF;
    out[MAGIC_AT + 1] = TCP_FRAME_MAGIC >> 8;
    out[KIND_AT] = frame->kind;
    out[ZERO_AT] = 0;
    put_u32(out + FLAGS_AT, frame->checked ? FLAG_CHECKED : 0);
    put_u32(out + REGION_AT, frame->region);
    put_u32(out + GENERATION_AT, frame->generation);
    put_u32(out + OFFSET_AT, (uint32_t)frame->offset);
    put_u32(out + OFFSET_AT + 4, (uint32_t)(frame->offset >> 32));
    put_u32(out + BYTES_AT, frame->bytes);
    put_u32(out + IMM_AT, frame->imm);
    if (!frame->checked)
        return TCP_FRAME_BYTES;
    put_u32(out + PAYLOAD_CRC_AT, frame->payload_crc);
    memset(out + ZEROS_AT, 0, HEADER_CRC_AT - ZEROS_AT);
    put_u32(out + HEADER_CRC_AT, wring_crc32c_update(crc, 0, out, HEADER_CRC_AT));
    return TCP_HEADER_MAX;
}

static bool is_checked(const uint8_t *in)
{
    return in[ZERO_AT] == 0 && (get_u32(in + FLAGS_AT) & FLAG_CHECKED) != 0;
}

size_t wring_tcp_frame_header_bytes(const uint8_t *in, size_t have)
{
    return have >= REGION_AT && is_checked(in) ? TCP_HEADER_MAX : TCP_FRAME_BYTES;
}

/** A frame has one form only. @param in a header */
static bool unused_are_zero(const uint8_t *in)
{
    static const uint8_t zeros[HEADER_CRC_AT - ZEROS_AT];
    return in[ZERO_AT] == 0 && (get_u32(in + FLAGS_AT) & ~FLAG_CHECKED) == 0 &&
           (!is_checked(in) || memcmp(in + ZEROS_AT, zeros, sizeof(zeros)) == 0);
}

/** What can be said without knowing any region. */
static bool is_sound(const struct tcp_frame *frame)
{
    switch (frame->kind) {
    case TCP_FRAME_PUT:
        return frame->bytes <= TCP_PUT_MAX;
    case TCP_FRAME_MESSAGE:
        return frame->bytes >= 1 && frame->bytes <= WRING_SEND_MAX && frame->region == 0 &&
               frame->generation == 0 && frame->offset == 0 && frame->imm == 0;
    default:
        return false;
    }
}

const char *wring_tcp_frame_unpack(const uint8_t *in, const struct wring_crc32c *crc,
                                   bool must_check, struct tcp_frame *out)
{
    struct tcp_frame frame = {
        .kind = in[KIND_AT],
        .region = get_u32(in + REGION_AT),
        .generation = get_u32(in + GENERATION_AT),
        .offset = get_u32(in + OFFSET_AT) | (uint64_t)get_u32(in + OFFSET_AT + 4) << 32,
        .bytes = get_u32(in + BYTES_AT),
        .imm = get_u32(in + IMM_AT),
        .checked = is_checked(in),
    };
    if (frame.checked) {
        frame.payload_crc = get_u32(in + PAYLOAD_CRC_AT);
        if (get_u32(in + HEADER_CRC_AT) != wring_crc32c_update(crc, 0, in, HEADER_CRC_AT))
            return "sent a frame whose header was damaged on the way (its CRC32C is wrong)";
    }
    if ((in[MAGIC_AT] | in[MAGIC_AT + 1] << 8) != TCP_FRAME_MAGIC || !unused_are_zero(in) ||
        !is_sound(&frame))
        return "sent a malformed frame";
    if (must_check && !frame.checked)
        return "sent a frame without a checksum: set WRING_TCP_CHECKSUM=on on every rank";
    *out = frame;
    return NULL;
}
