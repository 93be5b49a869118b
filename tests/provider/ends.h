/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The two ends of a connection, as the conformance suite's cases use them.
 *
 * An end's region lies inside memory that goes on at both sides; end_close() fails a check when
 * anything there has changed. What an end sees is counted and checked: nothing comes after CLOSED,
 * completions come once and in order, arrivals too (immediates rise by one from 0).
 *
 * An end is used by one thread at a time.
 */
#ifndef WRING_TESTS_PROVIDER_ENDS_H
#define WRING_TESTS_PROVIDER_ENDS_H

#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/provider/suite.h"

#define WAIT_NS (60 * WRING_NS_PER_S) /* longer than any loaded machine needs */
#define LATE_NS (4 * WRING_NS_PER_S)  /* a handshake is given up after 5 s */

struct end {
    struct wring_provider *provider;
    struct wring_conn *conn;
    struct wring_memory memory; /* all of it */
    uint8_t *base;              /* of the region */
    size_t bytes;
    struct wring_region *region;
    struct wring_remote *remote; /* the other end's region */
    size_t batch;                /* events per poll */
    unsigned accepted, connected, closed, done, arrived, messages;
    size_t arrived_bytes, message_bytes;
    uint8_t message[WRING_SEND_MAX], hello[WRING_HELLO_MAX];
    size_t hello_bytes;
    enum wring_status why; /* CLOSED */
    char text[256];
    void (*on_arrival)(struct end *end, const struct wring_event *event); /* may be NULL */
};

/** The provider that the cases are about. */
void ends_use(const struct wring_provider_driver *driver);
const struct wring_provider_driver *ends_driver(void);

/** For slow machines: what cases do very often they do that many times less often. */
void ends_use_fewer(unsigned times);
unsigned ends_turns(unsigned n); /* what becomes of n */

const char *ends_name(void);

/** Open an instance with a region of `bytes` zeros. @param batch  room for events in a poll */
bool end_open(struct end *end, uint8_t secret, size_t bytes, size_t batch);

/** Release, disconnect, deregister, close; check what lies around the region. */
void end_close(struct end *end);

/** Poll once. @return how many events it gave */
size_t end_turn(struct end *end);

/** Arm, poll, sleep until something is there. @return false when nothing came until the deadline */
bool end_sleep(struct end *end, uint64_t deadline_ns);

/** Listen, or connect to an address; what follows comes by end_turn(). */
bool end_listen(struct end *end, uint8_t address[WRING_ADDRESS_MAX], size_t *bytes);
bool end_connect(struct end *end, const uint8_t *address, size_t bytes, const char *hello);

/** Have `end` know the region of `other`. */
void end_import(struct end *end, const struct end *other);

/** Put from the end's region. */
enum wring_status end_put(struct end *from, const void *local, uint64_t offset, size_t bytes,
                          uint32_t imm, uint64_t cookie);

/** `end` connects to `hub`, which listens there; both are polled until it stands or has failed.
 *  Again where that took LATE_NS, and the handshake was given up. @return whether it stands */
bool ends_meet(struct end *hub, struct end *end, const uint8_t *address, size_t bytes,
               const char *hello);

/** The same; a listens, and b's hello is "me". */
bool ends_join(struct end *a, struct end *b);

/** Open both and join them; each knows the other's region. */
bool ends_open(struct end *a, struct end *b, size_t bytes, size_t batch);
void ends_close(struct end *a, struct end *b);

/** Bytes that say where they belong. */
void fill_pattern(uint8_t *to, size_t bytes, uint32_t seed);
bool has_pattern(const uint8_t *at, size_t bytes, uint32_t seed);

/** The same while the same bytes may be written there again. */
bool has_pattern_again(const uint8_t *at, size_t bytes, uint32_t seed);
bool is_all(const uint8_t *at, size_t bytes, uint8_t value);

/** Poll both ends until the condition holds; a failed check after WAIT_NS. */
#define UNTIL(a, b, condition)                                                                \
    do {                                                                                      \
        uint64_t until_limit = wring_deadline_in(WAIT_NS);                                    \
        while (!(condition) && wring_now_ns() < until_limit) {                                \
            end_turn(a);                                                                      \
            end_turn(b);                                                                      \
        }                                                                                     \
        CHECK(condition, "did not come: %s ('%s', '%s')", ends_name(), (a)->text, (b)->text); \
    } while (0)

#endif
