/* SPDX-License-Identifier: Apache-2.0 */
/** Texts with a grammar of their own: fault schedules and addresses to listen on. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "transport/providers/fault.h"
#include "transport/providers/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct wring_fault_schedule schedule = {.ns_per_byte = NAN};
    struct sockaddr_storage address;
    socklen_t bytes;
    char why[80] = "", shown[64];

    if (wring_fault_parse(text, &schedule, why, sizeof(why)))
        FUZZ_CHECK(schedule.ns_per_byte >= 0 && isfinite(schedule.ns_per_byte), "%s: %g ns", text,
                   schedule.ns_per_byte);
    else
        FUZZ_CHECK(why[0] != '\0', "%s: refused without a reason", text);
    if (wring_tcp_address_parse(NULL, text, &address, &bytes) == WRING_OK)
        wring_tcp_address_text(&address, shown, sizeof(shown));
    free(text);
    return 0;
}
