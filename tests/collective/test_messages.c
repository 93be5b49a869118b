/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives with tags: sizes, order, matching, fairness, truncation, what is kept. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)

/* no sign of life wakes who sleeps in vain */
#define SILENT "WRING_HEARTBEAT=600", "WRING_PEER_TIMEOUT=3000"
static const char *const shm[] = {"WRING_PROVIDER=shm", SILENT, NULL};
static char network[32] = "WRING_PROVIDER=tcp"; /* or provider=NAME of the command line */
static const char *const net[] = {network, SILENT, NULL};
static const char *const pool[] = {"WRING_PROVIDER=shm", "WRING_CMA=off", "WRING_CHUNK_BYTES=4k",
                                   SILENT, NULL};
static const char *const caller[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", SILENT, NULL};
static const char *const delayed[] = {network, "WRING_FAULT=delay=1ms", SILENT, NULL};
static const char *const *const variants[] = {net, delayed, shm, pool, caller};
static size_t n_variants = sizeof(variants) / sizeof(variants[0]); /* the first two by a network */

static void fill(uint8_t *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)((i + seed) * 0x9E3779B97F4A7C15 >> 56);
}

static bool holds(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != (uint8_t)((i + seed) * 0x9E3779B97F4A7C15 >> 56))
            return false;
    return true;
}

static struct wring_result wait_for(struct wring_request *request, enum wring_status expected)
{
    struct wring_result result = WRING_RESULT_INIT;
    enum wring_status status = wring_request_wait(request, WAIT_NS, &result);
    CHECK(status == expected, "a message: %s, not %s", wring_status_text(status),
          wring_status_text(expected));
    return result;
}

static void run_all(void (*run)(struct wring_session *, uint32_t, void *), uint32_t ranks,
                    void *arg)
{
    for (size_t i = 0; i < n_variants; i++) {
        unsigned before = wring_test_failures();
        struct wring_test_job job = {
            .ranks = ranks, .settings = variants[i], .run = run, .arg = arg};
        wring_test_run_ranks(&job);
        CHECK(wring_test_failures() == before, "... %u ranks, %s %s", ranks, variants[i][0],
              variants[i][1] != NULL ? variants[i][1] : "");
    }
}

/* ---- sizes ---- */

static const uint64_t sizes[] = {0,    1,    8,     32,     33,     4096,    8191,
                                 8192, 8193, 65536, 262144, 300001, 3000001, 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/** From each rank to the next. @param tag  of the message, by which its bytes differ, too */
static void pass_on(struct wring_session *session, uint8_t *out, uint8_t *in, uint64_t bytes,
                    uint64_t tag)
{
    struct wring_group *world = wring_session_world(session);
    uint32_t n = wring_session_size(session), rank = wring_session_rank(session);
    uint32_t next = (rank + 1) % n, last = (rank + n - 1) % n;
    struct wring_request *sent, *received;

    fill(out, bytes, rank * 1000 + tag);
    memset(in, 0, bytes);
    CHECK(wring_recv(world, in, bytes, last, tag, NULL, &received) == WRING_OK, "recv");
    CHECK(wring_send(world, out, bytes, next, tag, NULL, &sent) == WRING_OK, "send");
    struct wring_result result = wait_for(received, WRING_OK);
    CHECK(result.rank == (int32_t)last && result.tag == tag && result.bytes == bytes,
          "from %d, tag %llu, %llu bytes", result.rank, (unsigned long long)result.tag,
          (unsigned long long)result.bytes);
    CHECK(holds(in, bytes, last * 1000 + tag), "%llu bytes", (unsigned long long)bytes);
    wait_for(sent, WRING_OK);
}

static void pass_on_any_memory(struct wring_session *session, uint64_t bytes, uint64_t tag)
{
    void *out = malloc(bytes + 1), *in = malloc(bytes + 1);

    REQUIRE(out != NULL && in != NULL, "memory");
    pass_on(session, out, in, bytes, tag);
    free(out);
    free(in);
}

static void pass_on_ours(struct wring_session *session, uint64_t bytes, uint64_t tag)
{
    void *out, *in;

    REQUIRE(wring_buffer_alloc(session, bytes + 1, &out) == WRING_OK, "out");
    REQUIRE(wring_buffer_alloc(session, bytes + 1, &in) == WRING_OK, "in");
    pass_on(session, out, in, bytes, tag);
    wring_buffer_free(session, out);
    wring_buffer_free(session, in);
}

static void ring(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)rank, (void)arg;
    for (size_t i = 0; i < SIZES; i++)
        pass_on_any_memory(session, sizes[i], i);
    for (size_t i = 0; i < SIZES; i++)
        pass_on_ours(session, sizes[i], SIZES + i);
}

static void rings(void)
{
    static const uint32_t ranks[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        run_all(ring, ranks[i], NULL);
}

static void ring_of_one_size(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)rank;
    pass_on_any_memory(session, *(const uint64_t *)arg, 1);
}

/** Large ones, from memory that is not registered. @param n  by a network, shm, the pool of slots
 */
static void run_large(uint64_t bytes, uint32_t ranks, size_t n)
{
    static const char *const *const large[] = {net, shm, pool};
    for (size_t i = 0; i < n && i < n_variants; i++) {
        struct wring_test_job job = {
            .ranks = ranks, .settings = large[i], .run = ring_of_one_size, .arg = &bytes};
        wring_test_run_ranks(&job);
    }
}

static void of_64_MiB(void)
{
    run_large(64 << 20, 2, 3);
    run_large(16 << 20, 8, 2); /* at once, of more ranks than processors */
}

/** Neither 32 bits nor the 2 GiB that a system call takes are enough for it. */
static void of_4_GiB_and_more(void)
{
    run_large((UINT64_C(4) << 30) + 5, 2, 2);
}

/** There and back, with calls that wait. */
static void ping_pong(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    uint8_t *data = malloc(20000);
    (void)arg;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t bytes = i % 50 == 0 ? 20000 - i % 7 : i % 200;
        if (rank == 0)
            fill(data, bytes, i);
        CHECK((rank == 0 ? wring_send(world, data, bytes, 1, i, NULL, NULL)
                         : wring_recv(world, data, bytes, 0, i, NULL, NULL)) == WRING_OK,
              "ping %d", (int)i);
        CHECK((rank == 1 ? wring_send(world, data, bytes, 0, i, NULL, NULL)
                         : wring_recv(world, data, bytes, 1, i, NULL, NULL)) == WRING_OK,
              "pong %d", (int)i);
        REQUIRE(holds(data, bytes, i), "turn %d of %d bytes", (int)i, (int)bytes);
    }
    free(data);
}

static void there_and_back(void)
{
    run_all(ping_pong, 2, NULL);
}

/* ---- order ---- */

#define IN_ORDER 400

static uint64_t ordered_bytes(uint64_t i)
{
    static const uint64_t bytes[] = {8, 9000, 0, 100000, 8192, 64, 16000, 1};
    return bytes[i % 8];
}

/** Of one sender, whatever their sizes: half of them before any receive, half after. */
static void in_order(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    static _Thread_local struct wring_request *requests[IN_ORDER];
    uint8_t *data = malloc(IN_ORDER * 100000);
    (void)arg;

    if (rank == 1)
        CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint64_t i = 0; i < IN_ORDER; i++) {
        uint8_t *at = data + i * 100000;
        if (rank == 0 && i == IN_ORDER / 2)
            CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
        if (rank == 0) {
            fill(at, ordered_bytes(i), i);
            CHECK(wring_send(world, at, ordered_bytes(i), 1, i, NULL, &requests[i]) == WRING_OK,
                  "send %d", (int)i);
        } else {
            CHECK(wring_recv(world, at, 100000, i % 2 ? WRING_ANY_SOURCE : 0, WRING_ANY_TAG, NULL,
                             &requests[i]) == WRING_OK,
                  "recv %d", (int)i);
        }
    }
    for (uint64_t i = 0; i < IN_ORDER; i++) {
        struct wring_result result = wait_for(requests[i], WRING_OK);
        if (rank == 1)
            CHECK(result.tag == i && result.bytes == ordered_bytes(i) &&
                      holds(data + i * 100000, result.bytes, i),
                  "receive %d took message %d", (int)i, (int)result.tag);
    }
    free(data);
}

static void order(void)
{
    run_all(in_order, 2, NULL);
}

/** By tag, out of order, and from oneself. */
static void tags(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *sent[6];
    uint64_t got, values[6];
    (void)arg;

    for (uint64_t i = 0; i < 6; i++) {
        values[i] = i + 100;
        CHECK(wring_send(world, &values[i], 8, i < 3 ? rank : 1 - rank, UINT64_MAX - 1 - i, NULL,
                         &sent[i]) == WRING_OK,
              "send");
    }
    for (uint64_t i = 6; i-- > 0;) {
        CHECK(wring_recv(world, &got, 8, i < 3 ? rank : 1 - rank, UINT64_MAX - 1 - i, NULL, NULL) ==
                  WRING_OK,
              "recv");
        CHECK(got == i + 100, "tag %d brought %d", (int)i, (int)got);
    }
    for (uint64_t i = 0; i < 6; i++)
        wait_for(sent[i], WRING_OK);
    uint8_t *large = malloc(400000), *back = malloc(400000); /* to ourselves, before its receive */
    struct wring_request *own;
    fill(large, 400000, rank);
    CHECK(wring_send(world, large, 400000, rank, 1, NULL, &own) == WRING_OK, "own");
    CHECK(wring_recv(world, back, 400000, WRING_ANY_SOURCE, 1, NULL, NULL) == WRING_OK, "own");
    wait_for(own, WRING_OK);
    CHECK(holds(back, 400000, rank), "own");
    free(large);
    free(back);
}

static void by_tag(void)
{
    run_all(tags, 2, NULL);
}

/* ---- pairs at random, any source ---- */

struct plan {
    uint32_t ranks, n;
    struct {
        uint32_t from, to;
        uint64_t bytes;
    } message[300];
};

static struct plan make_plan(uint32_t ranks, uint32_t seed)
{
    struct plan plan = {.ranks = ranks, .n = 300};
    for (uint32_t i = 0; i < plan.n; i++) {
        plan.message[i].from = wring_test_random(&seed) % ranks;
        plan.message[i].to = wring_test_random(&seed) % ranks;
        uint32_t scale = wring_test_random(&seed) % 17;
        plan.message[i].bytes = wring_test_random(&seed) % (UINT32_C(8) << scale);
    }
    return plan;
}

/** All sends, then receives of any source and tag; the tag says which it is. */
static void random_pairs(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct wring_group *world = wring_session_world(session);
    struct wring_request *sent[300] = {NULL}, *received[300] = {NULL};
    uint8_t *out[300] = {NULL}, *in[300] = {NULL};
    uint32_t expected = 0;
    uint64_t latest[16] = {0};

    for (uint32_t i = 0; i < plan->n; i++)
        expected += plan->message[i].to == rank;
    for (uint32_t i = 0; i < expected; i++) {
        in[i] = malloc(8 << 16);
        if (i % 2 == 0) /* half of them are posted ahead */
            CHECK(wring_recv(world, in[i], 8 << 16, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL,
                             &received[i]) == WRING_OK,
                  "recv");
    }
    for (uint32_t i = 0; i < plan->n; i++) {
        if (plan->message[i].from != rank)
            continue;
        out[i] = malloc(plan->message[i].bytes + 1);
        fill(out[i], plan->message[i].bytes, i);
        CHECK(wring_send(world, out[i], plan->message[i].bytes, plan->message[i].to, i, NULL,
                         &sent[i]) == WRING_OK,
              "send");
    }
    for (uint32_t i = 1; i < expected; i += 2)
        CHECK(wring_recv(world, in[i], 8 << 16, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL,
                         &received[i]) == WRING_OK,
              "recv");
    for (uint32_t k = 0; k < expected; k++) {
        uint32_t i = k < (expected + 1) / 2 ? 2 * k : 2 * (k - (expected + 1) / 2) + 1;
        struct wring_result result = wait_for(received[i], WRING_OK);
        REQUIRE(result.tag < plan->n, "tag %d", (int)result.tag);
        CHECK(plan->message[result.tag].to == rank && result.rank >= 0 &&
                  plan->message[result.tag].from == (uint32_t)result.rank &&
                  plan->message[result.tag].bytes == result.bytes &&
                  holds(in[i], result.bytes, result.tag),
              "message %d", (int)result.tag);
        CHECK(result.tag + 1 > latest[result.rank], "message %d of %d came after %d",
              (int)result.tag, result.rank, (int)latest[result.rank] - 1);
        latest[result.rank] = result.tag + 1;
    }
    for (uint32_t i = 0; i < plan->n; i++)
        if (sent[i] != NULL)
            wait_for(sent[i], WRING_OK);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t i = 0; i < plan->n; i++) {
        free(out[i]);
        free(in[i]);
    }
}

static void pairs(void)
{
    for (uint32_t ranks = 2; ranks <= 8; ranks += 3) {
        struct plan plan = make_plan(ranks, ranks);
        run_all(random_pairs, ranks, &plan);
    }
}

/* ---- truncation, groups, several senders ---- */

static void short_receives(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t lengths[] = {100, 8192, 9000, 1000000};
    struct wring_group *world = wring_session_world(session);
    uint8_t *data = malloc(1000000);
    (void)arg;

    for (size_t i = 0; i < 8; i++) {
        uint64_t bytes = lengths[i / 2], room = i % 2 ? bytes / 2 : 0;
        struct wring_request *request;
        if (rank == 0) {
            fill(data, bytes, i);
            CHECK(wring_send(world, data, bytes, 1, i, NULL, NULL) == WRING_OK, "send");
            continue;
        }
        memset(data, 0xEE, bytes);
        CHECK(wring_recv(world, data, room, 0, i, NULL, &request) == WRING_OK, "recv");
        struct wring_result result = wait_for(request, WRING_ERR_TRUNCATED);
        CHECK(result.rank == 0 && result.bytes == bytes && result.tag == i, "%d bytes of %d",
              (int)result.bytes, result.rank);
        CHECK(holds(data, room, i) && data[room] == 0xEE, "%d of %d bytes", (int)room, (int)bytes);
    }
    free(data);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "the session goes on");
}

static void truncated(void)
{
    run_all(short_receives, 2, NULL);
}

/** A message of one group is nobody's in another, and collectives go on beside messages. */
static void apart(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t ranks[] = {0, 1, 2}, some[] = {1, 2};
    struct wring_group *world = wring_session_world(session), *all, *two = NULL;
    struct wring_request *request[2] = {NULL};
    uint64_t out[2] = {10 + rank, 20 + rank}, in[2] = {0};
    float x = 1;
    (void)arg;

    REQUIRE(wring_group_create(wring_session_world(session), ranks, 3, 0, WRING_FOREVER, &all) ==
                WRING_OK,
            "all");
    if (rank > 0)
        REQUIRE(wring_group_create(wring_session_world(session), some, 2, 0, WRING_FOREVER, &two) ==
                    WRING_OK,
                "two");
    CHECK(wring_recv(world, &in[0], 8, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL, &request[0]) ==
              WRING_OK,
          "recv");
    CHECK(wring_recv(all, &in[1], 8, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL, &request[1]) ==
              WRING_OK,
          "recv");
    CHECK(wring_allreduce(world, &x, &x, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK && x == 3,
          "sum %g", x);
    CHECK(wring_send(all, &out[1], 8, (rank + 1) % 3, 1, NULL, NULL) == WRING_OK, "send");
    wait_for(request[1], WRING_OK);
    REQUIRE(wring_request_test(request[0], NULL) == WRING_ERR_AGAIN, "of another group");
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    CHECK(wring_send(world, &out[0], 8, (rank + 1) % 3, 1, NULL, NULL) == WRING_OK, "send");
    wait_for(request[0], WRING_OK);
    CHECK(in[0] == 10 + (rank + 2) % 3 && in[1] == 20 + (rank + 2) % 3, "%d and %d", (int)in[0],
          (int)in[1]);
    if (two != NULL) { /* ranks are members' indices */
        uint64_t mine = rank, theirs = 0;
        struct wring_request *sent;
        CHECK(wring_send(two, &mine, 8, 2 - rank, 0, NULL, &sent) == WRING_OK, "send");
        CHECK(wring_recv(two, &theirs, 8, 2 - rank, 0, NULL, NULL) == WRING_OK, "recv");
        wait_for(sent, WRING_OK);
        CHECK(theirs == 3 - rank, "%d", (int)theirs);
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    wring_group_destroy(all);
    wring_group_destroy(two);
}

static void groups(void)
{
    run_all(apart, 3, NULL);
}

#define FROM_EACH 50

/** With n senders that all have messages waiting, each is served at least once in n receives. */
static void many_senders(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    uint32_t n = wring_session_size(session), since[8] = {0};
    (void)arg;

    for (uint64_t i = 0; rank > 0 && i < FROM_EACH; i++)
        CHECK(wring_send(world, &i, 8, 0, i, NULL, NULL) == WRING_OK, "send");
    if (rank > 0)
        CHECK(wring_send(world, NULL, 0, 0, FROM_EACH, NULL, NULL) == WRING_OK, "send");
    for (uint32_t r = 1; rank == 0 && r < n; r++) /* what they sent before has come, too */
        CHECK(wring_recv(world, NULL, 0, r, FROM_EACH, NULL, NULL) == WRING_OK, "recv");
    for (uint32_t i = 0; rank == 0 && i < (n - 1) * FROM_EACH; i++) {
        struct wring_request *request;
        uint64_t value;
        CHECK(wring_recv(world, &value, 8, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL, &request) ==
                  WRING_OK,
              "recv");
        struct wring_result result = wait_for(request, WRING_OK);
        REQUIRE(result.rank > 0 && result.rank < (int32_t)n, "from %d", result.rank);
        for (uint32_t r = 1; r < n; r++)
            since[r] = r == (uint32_t)result.rank ? 0 : since[r] + 1;
        for (uint32_t r = 1; r < n && i < (n - 1) * (FROM_EACH - 1); r++)
            CHECK(since[r] < n - 1, "%d was not served for %d receives", (int)r, (int)since[r]);
    }
}

static void fair(void)
{
    run_all(many_senders, 4, NULL);
}

static void refuse(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_call coded = {.struct_bytes = sizeof(coded), .codec = "bf16"};
    char byte = 0;
    (void)rank, (void)arg;

    CHECK(wring_send(world, &byte, 1, 2, 0, NULL, NULL) == WRING_ERR_INVALID, "no such member");
    CHECK(wring_send(world, &byte, 1, WRING_ANY_SOURCE, 0, NULL, NULL) == WRING_ERR_INVALID, "any");
    CHECK(wring_send(world, &byte, 1, 1, WRING_ANY_TAG, NULL, NULL) == WRING_ERR_INVALID, "tag");
    CHECK(wring_send(world, NULL, 1, 1, 0, NULL, NULL) == WRING_ERR_INVALID, "no memory");
    CHECK(wring_recv(world, NULL, 1, 1, 0, NULL, NULL) == WRING_ERR_INVALID, "no memory");
    CHECK(wring_recv(world, &byte, 1, 7, 0, NULL, NULL) == WRING_ERR_INVALID, "no such member");
    CHECK(wring_send(world, &byte, 1, 1, 0, &coded, NULL) == WRING_ERR_UNSUPPORTED, "codec");
}

static void no_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void refused(void)
{
    struct wring_test_job job = {.ranks = 2, .run = refuse, .log = no_line};
    wring_test_run_ranks(&job);
}

static const struct wring_test_case cases[] = {
    {"rings", rings},
    {"there_and_back", there_and_back},
    {"order", order},
    {"by_tag", by_tag},
    {"pairs", pairs},
    {"truncated", truncated},
    {"groups", groups},
    {"fair", fair},
    {"refused", refused},
    {"of_64_MiB", of_64_MiB},
    {0},
};

static const struct wring_test_case huge[] = {{"of_4_GiB_and_more", of_4_GiB_and_more}, {0}};

int main(int argc, char **argv)
{
    const char *option = "provider=";
    bool asked = argc > 1 && strcmp(argv[1], huge[0].name) == 0;

    if (argc > 1 && strncmp(argv[1], option, strlen(option)) == 0) {
        snprintf(network, sizeof(network), "WRING_PROVIDER=%s", argv[1] + strlen(option));
        n_variants = 2;
        argc--;
        argv++;
    }
    return wring_test_main(argc, argv, asked ? huge : cases);
}
