/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/control.h"

#define HEAD_BYTES 16

bool wring_control_is_text(enum wring_control_kind kind)
{
    return kind == WRING_CONTROL_ABORT || kind == WRING_CONTROL_CALL ||
           kind == WRING_CONTROL_STANDSTILL || kind == WRING_CONTROL_FLIGHT;
}

bool wring_control_has_body(enum wring_control_kind kind)
{
    return kind == WRING_CONTROL_FORM || kind == WRING_CONTROL_PAIR ||
           kind == WRING_CONTROL_CEASE || kind == WRING_CONTROL_LINK ||
           kind == WRING_CONTROL_LEND || kind == WRING_CONTROL_MEMBER || kind == WRING_CONTROL_LEFT;
}

size_t wring_control_pack(const struct wring_control *control, uint8_t *out)
{
    size_t bytes = wring_control_has_body(control->kind) ? control->bytes : strlen(control->text);

    wring_put_u32(out, control->kind);
    wring_put_u32(out + 4, control->a);
    wring_put_u32(out + 8, control->b);
    wring_put_u32(out + 12, control->c);
    memcpy(out + HEAD_BYTES, control->body, bytes);
    return HEAD_BYTES + bytes;
}

bool wring_control_parse(const void *data, size_t bytes, struct wring_control *out)
{
    struct wring_reader reader = {data, bytes, false};
    struct wring_control control = {0};

    uint32_t kind = wring_read_u32(&reader);
    control.a = wring_read_u32(&reader);
    control.b = wring_read_u32(&reader);
    control.c = wring_read_u32(&reader);
    if (reader.failed || kind < WRING_CONTROL_HEARTBEAT || kind >= WRING_CONTROL_END ||
        kind == WRING_CONTROL_RING)
        return false;
    control.kind = (enum wring_control_kind)kind;
    bool texted = wring_control_is_text(control.kind);
    if (reader.bytes > (texted || wring_control_has_body(control.kind) ? WRING_CONTROL_BODY : 0))
        return false;
    if (!texted) {
        control.bytes = (uint32_t)reader.bytes;
        if (reader.bytes > 0)
            memcpy(control.body, reader.data, reader.bytes);
    }
    for (size_t i = 0; texted && i < reader.bytes; i++) /* it will be logged: keep terminals safe */
        control.text[i] =
            reader.data[i] >= ' ' && reader.data[i] < 127 ? (char)reader.data[i] : '?';
    *out = control;
    return true;
}
