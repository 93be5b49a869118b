/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What ranks say of where they are: lines of printable text, one rank each. What is taken comes
 * back as it was, and what is said of all of them stays within its bounds.
 */
#include "tests/fuzz/fuzz.h"
#include "transport/flight.h"

#define RANKS 100
#define TEXT 233 /* of a control message in the control tree, its NUL included */

static struct wring_flight_row rows[RANKS];

static void take(void *arg, const char *line)
{
    FUZZ_CHECK(strlen(line) < WRING_FLIGHT_LINE, "%zu bytes", strlen(line));
    ++*(unsigned *)arg;
}

static void check_row(const char *text, struct wring_flight_row *row)
{
    struct wring_flight_row again;
    char written[TEXT];

    *row = (struct wring_flight_row){.state = WRING_FLIGHT_SILENT};
    if (!wring_flight_read(text, row)) {
        FUZZ_CHECK(row->state == WRING_FLIGHT_SILENT, "written");
        return;
    }
    wring_flight_write(row, written, sizeof(written));
    FUZZ_CHECK(wring_flight_read(written, &again), "not read again: %s", written);
    FUZZ_CHECK(again.state == row->state && again.group == row->group &&
                   again.posted == row->posted && again.waited_ms == row->waited_ms &&
                   strcmp(again.text, row->text) == 0,
               "another one: %s", written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned lines = 0;
    uint32_t n = 0;
    char text[TEXT], sum[WRING_FLIGHT_LINE];

    for (size_t at = 0; at < size && n < RANKS; n++) {
        size_t bytes = 0;
        for (; at < size && data[at] != '\n'; at++)
            if (bytes < sizeof(text) - 1) /* wring_control_parse() lets nothing else through */
                text[bytes++] = data[at] >= ' ' && data[at] < 127 ? (char)data[at] : '?';
        at++;
        text[bytes] = '\0';
        check_row(text, &rows[n]);
    }
    wring_flight_table(rows, n, take, &lines);
    FUZZ_CHECK(lines >= 1 && lines <= 1 + WRING_FLIGHT_NAMED + 1, "%u lines", lines);
    wring_flight_sum_up(rows, n, sum);
    FUZZ_CHECK(strlen(sum) < sizeof(sum), "%zu bytes", strlen(sum));
    return 0;
}
