/* SPDX-License-Identifier: Apache-2.0 */
/** Two ends of a provider, one of them faulty. */
#ifndef WRING_TESTS_FAULTY_PAIR_H
#define WRING_TESTS_FAULTY_PAIR_H

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/memory.h"
#include "transport/providers/fault/fault.h"

#define WAIT_NS (20 * WRING_NS_PER_S)
#define SPACE 65536

struct faulty_end {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_region *region;
    struct wring_remote *remote;
    struct wring_memory memory; /* SPACE bytes */
    unsigned accepted, connected, closed, done, arrived, messages;
    size_t arrived_bytes;
    uint64_t arrived_ns, message_ns; /* the last one's */
    enum wring_status why;
    char text[256];
};

extern struct wring_config faulty_config; /* of all ends; main loads it */

/** Take what has come. */
void faulty_end_turn(struct faulty_end *end);

#define UNTIL(a, b, condition)                           \
    do {                                                 \
        uint64_t limit = wring_deadline_in(WAIT_NS);     \
        while (!(condition) && wring_now_ns() < limit) { \
            faulty_end_turn(a);                          \
            faulty_end_turn(b);                          \
        }                                                \
        CHECK(condition, "did not come");                \
    } while (0)

/** WRING_TCP_CHECKSUM of ends that are opened from now on. */
void faulty_set_checksum(const char *value);

/** @param schedule NULL: no faults */
bool faulty_end_open(struct faulty_end *end, const char *provider, const char *schedule,
                     uint32_t rank);

void faulty_end_close(struct faulty_end *end);

/** b, on which the faults are, connects to a. */
bool faulty_pair_open(struct faulty_end *a, struct faulty_end *b, const char *provider,
                      const char *schedule);

/** Put so many bytes of its memory at the start of the other's. */
enum wring_status faulty_end_put(struct faulty_end *from, size_t bytes, uint32_t imm);

#endif
