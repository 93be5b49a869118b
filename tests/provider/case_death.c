/* SPDX-License-Identifier: Apache-2.0 */
/** A peer in another process, killed in the middle of puts that go both ways. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/provider/ends.h"

#define SLOTS 16
#define SLOT_BYTES 30000
#define CHILD_S 240 /* longer than all that we wait for it */
#define CHILDREN 3  /* until one and we have time to meet */

static unsigned garbled;

static void look_at_slot(struct end *end, const struct wring_event *event)
{
    unsigned slot = event->imm % SLOTS;
    garbled += event->bytes != SLOT_BYTES ||
               !has_pattern(end->base + (size_t)slot * SLOT_BYTES, SLOT_BYTES, slot);
}

static void fill_slots(struct end *end)
{
    for (unsigned i = 0; i < SLOTS; i++)
        fill_pattern(end->base + (size_t)i * SLOT_BYTES, SLOT_BYTES, i);
}

/** Exchange region keys by message, as soon as the connection stands. */
static bool swap_keys(struct end *end)
{
    uint8_t key[WRING_REGION_KEY_MAX];
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (end->accepted + end->connected + end->closed == 0 && wring_now_ns() < limit)
        end_turn(end);
    size_t n = end->provider->ops->region_export(end->region, key);
    if (end->accepted + end->connected == 0 || end->closed > 0 ||
        end->provider->ops->send(end->conn, key, n) != WRING_OK)
        return false;
    while (end->messages == 0 && end->closed == 0 && wring_now_ns() < limit)
        end_turn(end);
    return end->messages == 1 &&
           end->provider->ops->remote_import(end->conn, end->message, end->message_bytes,
                                             &end->remote) == WRING_OK;
}

/** Put the next slot, from a second half of the region that nobody puts into. */
static bool put_next(struct end *end, unsigned *posted)
{
    size_t at = (size_t)(*posted % SLOTS) * SLOT_BYTES;
    const uint8_t *source = end->base + (size_t)SLOTS * SLOT_BYTES + at;
    enum wring_status status = end_put(end, source, at, SLOT_BYTES, *posted, *posted);
    *posted += status == WRING_OK;
    return status == WRING_OK || status == WRING_ERR_AGAIN;
}

static void fill_sources(struct end *end)
{
    for (unsigned i = 0; i < SLOTS; i++)
        fill_pattern(end->base + (size_t)(SLOTS + i) * SLOT_BYTES, SLOT_BYTES, i);
}

__attribute__((noreturn)) static void be_child(const uint8_t *address, size_t bytes)
{
    struct end end;
    unsigned posted = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_S);
    if (!end_open(&end, 1, (size_t)2 * SLOTS * SLOT_BYTES, 8) ||
        !end_connect(&end, address, bytes, "child") || !swap_keys(&end))
        _exit(2);
    fill_sources(&end);
    while (put_next(&end, &posted))
        end_turn(&end);
    _exit(3);
}

static pid_t start_child(struct end *end)
{
    uint8_t address[WRING_ADDRESS_MAX];
    size_t n;
    if (!end_open(end, 1, (size_t)2 * SLOTS * SLOT_BYTES, 8) || !end_listen(end, address, &n))
        return -1;
    fill_slots(end); /* before it is put there, so that halves of slots do not show as a fault */
    memset(end->base, 0, (size_t)SLOTS * SLOT_BYTES);
    fill_sources(end);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        be_child(address, n);
    return child;
}

/** A child that knows our region; another one where a handshake was given up, as either had no
 *  processor for it. @return -1: there is none */
static pid_t meet_child(struct end *end)
{
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t began_ns = wring_now_ns();
        pid_t child = start_child(end);
        if (child < 0)
            return -1;
        end->on_arrival = look_at_slot;
        if (swap_keys(end))
            return child;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        end_close(end);
        if (wring_now_ns() - began_ns < LATE_NS)
            return -1;
    }
    return -1;
}

/** Puts both ways for a while; then the child dies. */
static void kill_in_the_middle(bool asleep, unsigned after)
{
    struct end a;
    unsigned posted = 0;
    garbled = 0;
    pid_t child = meet_child(&a);
    REQUIRE(child > 0, "no connection");
    uint64_t limit = wring_deadline_in(WAIT_NS);
    while (a.arrived < after && a.closed == 0 && wring_now_ns() < limit) {
        put_next(&a, &posted);
        end_turn(&a);
    }
    CHECK(a.arrived >= after, "%u arrived: '%s'", a.arrived, a.text);

    kill(child, SIGKILL);
    limit = wring_deadline_in(WAIT_NS);
    while (a.closed == 0 && wring_now_ns() < limit)
        if (asleep) {
            end_sleep(&a, limit);
        } else {
            put_next(&a, &posted);
            end_turn(&a);
        }
    CHECK(a.closed == 1 && a.why == WRING_ERR_PEER && a.text[0] != '\0', "%s: '%s'",
          wring_status_text(a.why), a.text);
    CHECK(a.done <= posted, "%u done of %u", a.done, posted);
    CHECK(garbled == 0, "%u of %u garbled", garbled, a.arrived);
    CHECK(end_put(&a, a.base, 0, 1, 0, 0) == WRING_ERR_CLOSED, "put after the end");
    for (unsigned i = 0; i < 100; i++)
        end_turn(&a);
    waitpid(child, NULL, 0);
    end_close(&a);
}

static void death_is_seen_in_the_middle_of_puts(void)
{
    kill_in_the_middle(false, 1);
    kill_in_the_middle(false, 100);
    kill_in_the_middle(false, 313);
}

static void death_wakes_sleepers(void)
{
    kill_in_the_middle(true, 1);
    kill_in_the_middle(true, 100);
}

const struct wring_test_case suite_cases_death[] = {
    {"death_is_seen_in_the_middle_of_puts", death_is_seen_in_the_middle_of_puts},
    {"death_wakes_sleepers", death_wakes_sleepers},
    {NULL, NULL},
};
