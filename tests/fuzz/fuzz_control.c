/* SPDX-License-Identifier: Apache-2.0 */
/** Control messages between ranks: parsed or refused, with text that ends inside its field. */
#include "tests/fuzz/fuzz.h"
#include "transport/control.h"
#include "transport/departures.h"

#define RANKS 100

/** The body of ranks that have left: ranges of ranks that there are, to its end or to a fault. */
static void read_ranges(const struct wring_control *control)
{
    struct wring_reader reader = {control->body, control->bytes, false};
    struct wring_range range;
    unsigned n = 0;

    while (reader.bytes > 0 && wring_ranges_next(&reader, RANKS, &range)) {
        FUZZ_CHECK(range.first <= range.last && range.last < RANKS, "%u to %u", range.first,
                   range.last);
        n++;
    }
    FUZZ_CHECK(n <= sizeof(control->body) / WRING_RANGE_BYTES, "%u ranges", n);
}

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
        if (control.kind == WRING_CONTROL_LEFT)
            read_ranges(&control);
    }
    return 0;
}
