/* SPDX-License-Identifier: Apache-2.0 */
/** Texts with a grammar of their own: fault schedules, addresses, ports and lists of interfaces. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "transport/door.h"
#include "transport/interface.h"
#include "transport/providers/fault/fault.h"
#include "transport/providers/tcp/tcp.h"

static bool is_chance(double x)
{
    return x >= 0 && x <= 1;
}

static void check_network(const char *text)
{
    struct wring_ports ports;
    char root[600];
    int preference = wring_interface_match(text, "eth0");
    FUZZ_CHECK(preference >= -1 && preference <= (int)strlen(text), "%s: %d", text, preference);
    if (wring_ports_read(NULL, text, &ports) != WRING_OK)
        return;
    FUZZ_CHECK(ports.first <= ports.last && (ports.first != 0 || text[0] == '\0'), "%s", text);
    snprintf(root, sizeof(root), "%s", text);
    wring_ports_complete(&ports, root, sizeof(root));
    FUZZ_CHECK(strlen(root) < sizeof(root), "%s: no end", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct wring_fault_schedule schedule = {.ns_per_byte = NAN};
    struct sockaddr_storage address;
    socklen_t bytes;
    char why[80] = "", shown[64];

    if (wring_fault_parse(text, &schedule, why, sizeof(why)))
        FUZZ_CHECK(schedule.ns_per_byte >= 0 && isfinite(schedule.ns_per_byte) &&
                       is_chance(schedule.corrupt) && is_chance(schedule.disconnect) &&
                       schedule.delay_ns <= 10000000000 && schedule.jitter_ns <= 10000000000,
                   "%s: %g ns", text, schedule.ns_per_byte);
    else
        FUZZ_CHECK(why[0] != '\0', "%s: refused without a reason", text);
    if (wring_tcp_address_parse(NULL, text, &address, &bytes) == WRING_OK)
        wring_tcp_address_text(&address, shown, sizeof(shown));
    check_network(text);
    free(text);
    return 0;
}
