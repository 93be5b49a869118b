/* SPDX-License-Identifier: Apache-2.0 */
/** Payloads of wring bench p2p: what was sent is taken for right, anything else is not. */
#include "tools/bench/payload.h"

#include "tests/lib/test.h"

static const size_t sizes[] = {1, 2, 7, 8, 9, 64, 251, 4096, 70000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void what_was_sent_is_right(void)
{
    for (size_t s = 0; s < N_SIZES; s++)
        for (uint32_t sender = 0; sender < 2; sender++) {
            uint8_t *data = wring_test_guarded(sizes[s]);
            wring_payload_fill(data, sizes[s], sender);
            wring_payload_stamp(data, sizes[s], 1234567);
            CHECK(wring_payload_has_stamp(data, sizes[s], 1234567), "%zu bytes", sizes[s]);
            CHECK(wring_payload_is_right(data, sizes[s], sender), "%zu bytes", sizes[s]);
            wring_test_free_guarded();
        }
}

/** One bit, one place off, the other sender's, or never written. */
static void anything_else_is_wrong(void)
{
    for (size_t s = 0; s < N_SIZES; s++) {
        size_t n = sizes[s];
        uint8_t *data = wring_test_guarded(n + 1);
        wring_payload_fill(data, n, 1);
        wring_payload_stamp(data, n, 5);
        for (size_t i = 0; i < n; i += 1 + i / 8) {
            data[i] ^= 0x10;
            CHECK(!wring_payload_has_stamp(data, n, 5) || !wring_payload_is_right(data, n, 1),
                  "%zu bytes: a flipped bit at %zu was taken for right", n, i);
            data[i] ^= 0x10;
        }
        CHECK(n <= 8 || !wring_payload_is_right(data, n, 0), "%zu bytes of another sender", n);
        wring_payload_fill(data, n + 1, 1);
        CHECK(n <= 8 || !wring_payload_is_right(data + 1, n, 1), "%zu bytes, shifted", n);
        wring_payload_spoil(data, n, 1);
        for (size_t i = 0; i + 8 < n; i += 97) {
            uint8_t all = data[i];
            wring_payload_fill(data, n, 1);
            CHECK(data[i] != all, "%zu bytes: spoilt byte %zu is right", n, i);
            wring_payload_spoil(data, n, 1);
        }
        wring_test_free_guarded();
    }
}

static void puts_into_the_same_slot_differ(void)
{
    uint8_t data[16];

    for (size_t n = 1; n <= sizeof(data); n++)
        for (uint64_t number = 0; number < 300; number++)
            for (uint64_t window = 1; window <= 64; window++) {
                wring_payload_stamp(data, n, number);
                CHECK(!wring_payload_has_stamp(data, n, number + window),
                      "%zu bytes: put %llu looks like the one %llu later", n,
                      (unsigned long long)number, (unsigned long long)window);
            }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_was_sent_is_right", what_was_sent_is_right},
        {"anything_else_is_wrong", anything_else_is_wrong},
        {"puts_into_the_same_slot_differ", puts_into_the_same_slot_differ},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
