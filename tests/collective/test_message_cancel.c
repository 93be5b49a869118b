/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives that are given up, in each state that they can be in. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60 * WRING_NS_PER_S)
#define LARGE 300001u
#define PATTERN 0x5a

static const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
static const char *const tcp[] = {"WRING_PROVIDER=tcp", NULL};
static const char *const pool[] = {"WRING_PROVIDER=shm", "WRING_CMA=off", "WRING_CHUNK_BYTES=4k",
                                   NULL};
static const char *const caller[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL};
static const char *const delayed[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=delay=1ms", NULL};
static const char *const *const variants[] = {shm, tcp, pool, caller, delayed};

/** Memory that a peer may still use: it stays until all sessions are closed. */
struct kept {
    struct kept *next;
    void *memory;
};

static struct kept *kept;
static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *memory)
{
    struct kept *one = malloc(sizeof(*one));
    REQUIRE(one != NULL, "no memory");
    one->memory = memory;
    pthread_mutex_lock(&kept_mutex);
    one->next = kept;
    kept = one;
    pthread_mutex_unlock(&kept_mutex);
}

static void free_kept(void)
{
    while (kept != NULL) {
        struct kept *one = kept;
        kept = one->next;
        free(one->memory);
        free(one);
    }
}

static void run_all(void (*run)(struct wring_session *, uint32_t, void *), void *arg)
{
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        unsigned before = wring_test_failures();
        struct wring_test_job job = {.ranks = 2, .settings = variants[i], .run = run, .arg = arg};
        wring_test_run_ranks(&job);
        free_kept();
        CHECK(wring_test_failures() == before, "... %s %s", variants[i][0],
              variants[i][1] != NULL ? variants[i][1] : "");
    }
}

static size_t find_other(const uint8_t *data, size_t bytes, uint8_t wanted)
{
    size_t i = 0;
    while (i < bytes && data[i] == wanted)
        i++;
    return i;
}

static void meet(struct wring_session *session)
{
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

static void expect(struct wring_request *request, enum wring_status wanted, const char *what)
{
    enum wring_status status = wring_request_wait(request, WAIT_NS, NULL);
    CHECK(status == wanted, "%s: %s, not %s", what, wring_status_text(status),
          wring_status_text(wanted));
}

/* ---- what no peer has a part in ---- */

/** Receives that nothing was sent for, small and large, and a message to oneself: always ours. */
static void alone(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    uint8_t *data = malloc(LARGE);
    struct wring_request *requests[3];
    static const uint32_t sources[] = {WRING_ANY_SOURCE, 0, 1};
    (void)arg;

    for (int i = 0; i < 3; i++)
        REQUIRE(wring_recv(world, data, i == 1 ? 8 : LARGE, sources[i], 7, NULL, &requests[i]) ==
                    WRING_OK,
                "recv");
    for (int i = 2; i >= 0; i--) {
        CHECK(wring_request_cancel(requests[i]) == WRING_OK, "receive %d", i);
        CHECK(wring_request_cancel(requests[i]) == WRING_OK, "receive %d, again", i);
        expect(requests[i], WRING_ERR_CANCELLED, "receive");
    }
    memset(data, PATTERN, LARGE);
    meet(session);
    uint8_t *other = malloc(LARGE);
    memset(other, 1, LARGE);
    REQUIRE(wring_send(world, other, LARGE, rank, 7, NULL, &requests[0]) == WRING_OK, "send");
    CHECK(wring_request_cancel(requests[0]) == WRING_OK, "to oneself");
    expect(requests[0], WRING_ERR_CANCELLED, "to oneself");
    memset(other, 2, LARGE); /* the next one is found, not that one */
    REQUIRE(wring_send(world, other, LARGE, 1 - rank, 7, NULL, &requests[0]) == WRING_OK, "send");
    uint8_t *came = malloc(LARGE);
    CHECK(wring_recv(world, came, LARGE, WRING_ANY_SOURCE, 7, NULL, NULL) == WRING_OK, "recv");
    CHECK(find_other(came, LARGE, 2) == LARGE, "another message");
    expect(requests[0], WRING_OK, "send");
    CHECK(find_other(data, LARGE, PATTERN) == LARGE, "a byte has changed");
    meet(session);
    free(data);
    free(other);
    free(came);
}

static void local_ones(void)
{
    run_all(alone, NULL);
}

/* ---- an offer that no receive has taken ---- */

/** The peer finds the next message instead. It may be late with its answer: that is busy then. */
static void take_back(struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    uint8_t *data = malloc(LARGE), *next = malloc(LARGE);
    struct wring_request *request;

    memset(data, 1, LARGE);
    memset(next, 2, LARGE);
    REQUIRE(wring_send(world, data, LARGE, 1, 3, NULL, &request) == WRING_OK, "send");
    enum wring_status status = wring_request_cancel(request);
    CHECK(status == WRING_OK || status == WRING_ERR_BUSY, "%s", wring_status_text(status));
    expect(request, WRING_ERR_CANCELLED, "an offer");
    CHECK(wring_send(world, NULL, 0, 1, 99, NULL, NULL) == WRING_OK, "word");
    CHECK(wring_send(world, next, LARGE, 1, 3, NULL, NULL) == WRING_OK, "the next one");
    if (status == WRING_OK)
        free(data);
    else
        keep(data);
    free(next);
}

/** While it waits for the word it drives, and has no receive for the offer. */
static void take_next(struct wring_session *session)
{
    struct wring_group *world = wring_session_world(session);
    uint8_t *data = malloc(LARGE);

    CHECK(wring_recv(world, NULL, 0, 0, 99, NULL, NULL) == WRING_OK, "word");
    CHECK(wring_recv(world, data, LARGE, 0, 3, NULL, NULL) == WRING_OK, "the next one");
    CHECK(find_other(data, LARGE, 2) == LARGE, "it is the one that was taken back");
    free(data);
}

static void offer(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)arg;
    meet(session);
    if (rank == 0)
        take_back(session);
    else
        take_next(session);
    meet(session);
}

static void offers(void)
{
    run_all(offer, NULL);
}

/* ---- all of it at once ---- */

#define MESSAGES 60
#define EAGER 8192

/** Of one side of a message; index 0 is the sender's. */
struct side {
    bool gave_up, busy;
    enum wring_status status;
};

struct race {
    pthread_barrier_t ready; /* what ranks tell each other here is no business of the library's */
    struct side sides[MESSAGES][2];
};

static uint64_t bytes_of(unsigned i)
{
    static const uint64_t bytes[] = {LARGE, 100, 9000, 70000, 700001, EAGER};
    return bytes[i % (sizeof(bytes) / sizeof(bytes[0]))];
}

static void dawdle(unsigned n)
{
    uint64_t until_ns = wring_deadline_in(n % 7 * 40 * WRING_NS_PER_US);
    while (wring_now_ns() < until_ns)
        sched_yield();
}

static uint8_t *make_data(struct wring_session *session, unsigned i)
{
    void *memory = NULL;
    if (i / 6 % 2 == 1)
        memory = malloc(bytes_of(i));
    else if (wring_buffer_alloc(session, bytes_of(i), &memory) != WRING_OK)
        memory = NULL;
    return memory;
}

static void give_one_up(struct side *side, struct wring_request *request)
{
    enum wring_status status = wring_request_cancel(request);
    CHECK(status == WRING_OK || status == WRING_ERR_BUSY, "%s", wring_status_text(status));
    side->gave_up = true;
    side->busy = status == WRING_ERR_BUSY;
}

/** What came is right; what was given up is ours, from now on. */
static void end_one(struct side *side, struct wring_request *request, uint8_t *data, unsigned i,
                    bool receives)
{
    side->status = wring_request_wait(request, WAIT_NS, NULL);
    CHECK(side->status == WRING_OK || side->status == WRING_ERR_CANCELLED, "%u: %s", i,
          wring_status_text(side->status));
    if (receives && side->status == WRING_OK)
        CHECK(find_other(data, bytes_of(i), (uint8_t)i) == bytes_of(i), "message %u", i);
    if (!side->busy)
        memset(data, PATTERN, bytes_of(i));
}

static void check_sides(const struct race *race)
{
    unsigned both = 0;
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct side *sent = &race->sides[i][0], *received = &race->sides[i][1];
        bool gave_up = sent->gave_up || received->gave_up;
        both += sent->status == WRING_OK && received->status == WRING_OK;
        CHECK(gave_up || (sent->status == WRING_OK && received->status == WRING_OK),
              "%u was given up by nobody: %s, %s", i, wring_status_text(sent->status),
              wring_status_text(received->status));
        if (bytes_of(i) > EAGER && !sent->busy && !received->busy)
            CHECK(sent->status == received->status, "%u: sent: %s; received: %s", i,
                  wring_status_text(sent->status), wring_status_text(received->status));
    }
    printf("%u of %u messages came\n", both, (unsigned)MESSAGES);
}

static void meet_all(struct wring_session *session, struct race *race)
{
    meet(session);
    pthread_barrier_wait(&race->ready);
}

/** Most of them are given up while they are under way, by either side or by both. */
static void give_up(struct wring_session *session, uint32_t rank, void *arg)
{
    struct race *race = arg;
    struct wring_group *world = wring_session_world(session);
    struct wring_request *requests[MESSAGES];
    uint8_t *data[MESSAGES];
    unsigned random = rank * 7919 + 1;

    if (rank == 0)
        memset(race->sides, 0, sizeof(race->sides));
    for (unsigned i = 0; i < MESSAGES; i++) {
        data[i] = make_data(session, i);
        REQUIRE(data[i] != NULL, "alloc");
        memset(data[i], rank == 0 ? (int)i : 0xEE, bytes_of(i));
    }
    meet_all(session, race);
    for (unsigned i = 0; i < MESSAGES; i++) {
        enum wring_status begun =
            rank == 0 ? wring_send(world, data[i], bytes_of(i), 1, i, NULL, &requests[i])
                      : wring_recv(world, data[i], bytes_of(i), 0, i, NULL, &requests[i]);
        REQUIRE(begun == WRING_OK, "begin");
        random = random * 1103515245 + 12345;
        dawdle(random >> 16);
        if ((random >> 20) % 2 == 0)
            give_one_up(&race->sides[i][rank], requests[i]);
    }
    meet_all(session, race);
    bool theirs[MESSAGES];
    for (unsigned i = 0; i < MESSAGES; i++)
        theirs[i] = race->sides[i][1 - rank].gave_up;
    meet_all(session, race);
    for (unsigned i = 0; i < MESSAGES; i++)
        if (theirs[i] && !race->sides[i][rank].gave_up)
            give_one_up(&race->sides[i][rank], requests[i]);
    for (unsigned i = 0; i < MESSAGES; i++)
        end_one(&race->sides[i][rank], requests[i], data[i], i, rank == 1);
    meet_all(session, race);
    if (rank == 0)
        check_sides(race);
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (!race->sides[i][rank].busy)
            CHECK(find_other(data[i], bytes_of(i), PATTERN) == bytes_of(i),
                  "memory of message %u has changed", i);
        if (i / 6 % 2 == 0)
            wring_buffer_free(session, data[i]);
    }
    meet_all(session, race);
    for (unsigned i = 0; i < MESSAGES; i++)
        if (i / 6 % 2 == 1 && race->sides[i][rank].busy)
            keep(data[i]);
        else if (i / 6 % 2 == 1)
            free(data[i]);
}

static void races(void)
{
    struct race *race = calloc(1, sizeof(*race));
    pthread_barrier_init(&race->ready, NULL, 2);
    run_all(give_up, race);
    pthread_barrier_destroy(&race->ready);
    free(race);
}

static const struct wring_test_case cases[] = {
    {"local_ones", local_ones},
    {"offers", offers},
    {"races", races},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
