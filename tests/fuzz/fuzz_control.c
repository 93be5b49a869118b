/* SPDX-License-Identifier: Apache-2.0 */
/** Control messages between ranks: parsed or refused, with text that ends inside its field. */
#include "tests/fuzz/fuzz.h"
#include "transport/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wring_control control;
    memset(&control, 'x', sizeof(control));
    if (wring_control_parse(data, size, &control)) {
        FUZZ_CHECK(control.kind >= WRING_CONTROL_HEARTBEAT && control.kind < WRING_CONTROL_END,
                   "kind %d", control.kind);
        FUZZ_CHECK(wring_control_has_body(control.kind) ||
                       memchr(control.text, '\0', sizeof(control.text)) != NULL,
                   "endless text");
        FUZZ_CHECK(control.bytes <= sizeof(control.body), "%u bytes", control.bytes);
        FUZZ_CHECK(size <= WRING_SEND_MAX, "%zu bytes", size);
    }
    return 0;
}
