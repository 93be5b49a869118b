/* SPDX-License-Identifier: Apache-2.0 */
/** Control trees of many ranks in one thread. One that is dropped without a good-bye has died. */
#include "transport/control_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/providers/providers.h"

#define RANKS_MAX 100
#define PATIENCE_NS (20 * WRING_NS_PER_S)

struct rank {
    struct wring_control_tree *tree; /* NULL: it is gone */
    uint32_t heard, aborts, byes;
    struct wring_control last;
    uint32_t last_from;
    uint32_t n_lost;
    uint32_t lost;
    enum wring_status lost_status;
};

static struct rank ranks[RANKS_MAX];
static uint8_t addresses[RANKS_MAX][WRING_ADDRESS_MAX]; /* outlive who listens there */
static uint32_t n_ranks;
static struct wring_config config;
static const struct wring_log quiet = {NULL, NULL, WRING_LOG_ERROR};

static void on_heard(void *arg, uint32_t from, const struct wring_control *control)
{
    struct rank *rank = arg;
    rank->heard++;
    rank->aborts += control->kind == WRING_CONTROL_ABORT;
    rank->byes += control->kind == WRING_CONTROL_BYE;
    rank->last = *control;
    rank->last_from = from;
}

static void on_lost(void *arg, uint32_t lost, enum wring_status status, const char *text)
{
    struct rank *rank = arg;
    (void)text;
    rank->n_lost++;
    rank->lost = lost;
    rank->lost_status = status;
}

static struct wring_control_tree_endpoint endpoints[RANKS_MAX]; /* of those that join next */

static bool find_endpoint(const void *arg, uint32_t rank, struct wring_control_tree_endpoint *out)
{
    (void)arg;
    *out = endpoints[rank];
    return true;
}

static void set(const char *name, const char *value)
{
    REQUIRE(wring_config_set(&config, &quiet, name, value) == WRING_OK, "%s", name);
}

static void open_one(uint32_t i, uint8_t job)
{
    struct wring_control_tree_params params = {
        .config = &config,
        .log = &quiet,
        .rank = i,
        .size = n_ranks,
        .secret = {7},
        .job = {job},
        .handler = {&ranks[i], on_heard, on_lost},
        .find = find_endpoint,
    };
    REQUIRE(wring_control_tree_create(&params, &ranks[i].tree) == WRING_OK, "create");
}

static void poll_all(void)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        if (ranks[i].tree != NULL)
            wring_control_tree_poll(ranks[i].tree, wring_now_ns());
}

/* waits for what the condition says */
#define UNTIL(condition)                                       \
    do {                                                       \
        uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS); \
        while (!(condition) && wring_now_ns() < deadline_ns)   \
            poll_all();                                        \
        CHECK(condition, "in vain");                           \
    } while (0)

static bool all_stand(void)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        if (ranks[i].tree != NULL && wring_control_tree_missing(ranks[i].tree) != n_ranks)
            return false;
    return true;
}

static void open_all(uint32_t n)
{
    memset(ranks, 0, sizeof(ranks));
    n_ranks = n;
    for (uint32_t i = 0; i < n; i++) {
        open_one(i, 1);
        endpoints[i] = wring_control_tree_endpoint(ranks[i].tree);
        memcpy(addresses[i], endpoints[i].address, endpoints[i].bytes);
        endpoints[i].address = addresses[i];
    }
    for (uint32_t i = 0; i < n; i++)
        wring_control_tree_join(ranks[i].tree);
    UNTIL(all_stand());
}

static void drop(uint32_t i)
{
    wring_control_tree_destroy(ranks[i].tree);
    ranks[i].tree = NULL;
}

static void close_all(void)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        drop(i);
}

static uint32_t neighbours_of(uint32_t rank)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_ranks; i++)
        n += i != rank && wring_control_tree_is_neighbour(ranks[rank].tree, i);
    return n;
}

/** Of all that are there but one. */
static bool all_heard(uint32_t but, uint32_t n)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        if (i != but && ranks[i].tree != NULL && ranks[i].heard != n)
            return false;
    return true;
}

static void tell(uint32_t from, const char *text)
{
    struct wring_control control = {.kind = WRING_CONTROL_ABORT, .a = WRING_ERR_PEER, .b = 3};
    snprintf(control.text, sizeof(control.text), "%s", text);
    wring_control_tree_tell(ranks[from].tree, &control);
}

static void a_rank_has_nine_connections_at_most(void)
{
    open_all(100);
    for (uint32_t i = 0; i < n_ranks; i++) {
        uint32_t n = neighbours_of(i);
        CHECK(n >= 1 && n <= WRING_CONTROL_TREE_FAN + 1, "rank %u has %u", i, n);
    }
    CHECK(neighbours_of(0) == 8 && neighbours_of(1) == 9 && neighbours_of(99) == 1, "others");
    close_all();
}

/** Several are for data. */
static void each_connection_has_one_socket(void)
{
    open_all(2);
    size_t bytes = wring_control_tree_link_bytes(ranks[0].tree);
    close_all();
    set("WRING_TCP_SOCKETS", "4");
    open_all(2);
    CHECK(wring_control_tree_link_bytes(ranks[0].tree) == bytes, "%zu bytes",
          wring_control_tree_link_bytes(ranks[0].tree));
    close_all();
    set("WRING_TCP_SOCKETS", "auto");
}

static void all_hear_of_a_failure_once(void)
{
    open_all(100);
    tell(57, "rank 3 is lost");
    tell(57, "and again");
    UNTIL(all_heard(57, 1));
    for (uint32_t i = 0; i < n_ranks; i++)
        CHECK(i == 57 || (ranks[i].aborts == 1 && ranks[i].last_from == 57 &&
                          strcmp(ranks[i].last.text, "rank 3 is lost") == 0),
              "rank %u heard '%s' of %u", i, ranks[i].last.text, ranks[i].last_from);
    CHECK(ranks[57].heard == 0, "it hears itself");
    close_all();
}

static void each_can_speak_to_each(void)
{
    open_all(30);
    for (uint32_t from = 0; from < n_ranks; from++)
        for (uint32_t to = 0; to < n_ranks; to++) {
            struct wring_control control = {.kind = WRING_CONTROL_CALL, .a = from, .b = to};
            uint32_t before = ranks[to].heard;
            if (from == to)
                continue;
            REQUIRE(wring_control_tree_send(ranks[from].tree, to, &control) == WRING_OK, "send");
            UNTIL(ranks[to].heard > before);
            CHECK(ranks[to].last.a == from && ranks[to].last.b == to && ranks[to].last_from == from,
                  "from %u to %u", from, to);
        }
    struct wring_control longest = {.kind = WRING_CONTROL_CALL};
    memset(longest.text, 'x', sizeof(longest.text) - 1);
    CHECK(wring_control_tree_send(ranks[0].tree, 29, &longest) == WRING_ERR_INVALID, "too long");
    close_all();
}

static bool is_attached(uint32_t child, uint32_t parent)
{
    return wring_control_tree_is_neighbour(ranks[child].tree, parent) &&
           wring_control_tree_is_neighbour(ranks[parent].tree, child);
}

static bool children_attached(uint32_t of, uint32_t parent)
{
    for (uint32_t i = of * 8 + 1; i <= of * 8 + 8 && i < n_ranks; i++)
        if (i != parent && !is_attached(i, parent))
            return false;
    return true;
}

static void who_loses_its_parent_goes_to_the_grandparent(void)
{
    open_all(100);
    drop(1); /* of 9 to 16, of which each has eight itself */
    UNTIL(children_attached(1, 0) && ranks[0].n_lost > 0);
    for (uint32_t i = 0; i < n_ranks; i++)
        if (ranks[i].tree != NULL)
            CHECK(ranks[i].n_lost == (i == 0 || (i >= 9 && i <= 16)) &&
                      (ranks[i].n_lost == 0 || ranks[i].lost == 1),
                  "rank %u lost %u", i, ranks[i].lost);
    tell(99, "told below"); /* 99 is a child of 12 */
    UNTIL(all_heard(99, 1));
    close_all();
}

static void a_root_that_dies_is_replaced(void)
{
    open_all(30);
    drop(0);
    UNTIL(children_attached(0, 1));
    tell(29, "told below");
    UNTIL(all_heard(29, 1));
    drop(1);
    UNTIL(is_attached(9, 2) && is_attached(16, 2) && is_attached(8, 2));
    close_all();
}

static const struct wring_control flight = {.kind = WRING_CONTROL_FLIGHT, .a = 3, .text = {"here"}};

static void what_is_raised_passes_all_above(void)
{
    open_all(100);
    wring_control_tree_raise(ranks[99].tree, 99, &flight); /* by 12 and 1 */
    UNTIL(ranks[0].heard == 1);
    for (uint32_t i = 0; i < n_ranks; i++) {
        bool above = i == 0 || i == 1 || i == 12;
        CHECK(ranks[i].heard == above, "rank %u heard %u", i, ranks[i].heard);
        CHECK(!above || (ranks[i].last_from == 99 && strcmp(ranks[i].last.text, "here") == 0),
              "rank %u heard '%s' of %u", i, ranks[i].last.text, ranks[i].last_from);
        CHECK(wring_control_tree_is_root(ranks[i].tree) == (i == 0), "rank %u is the root", i);
    }
    wring_control_tree_raise(ranks[0].tree, 0, &flight);
    wring_control_tree_spread(ranks[0].tree, &flight);
    UNTIL(all_heard(0, 1) || ranks[1].heard > 1);
    UNTIL(ranks[1].heard == 2 && ranks[12].heard == 2 && ranks[98].heard == 1);
    CHECK(ranks[0].heard == 1, "the root hears itself");
    close_all();
}

/** By another parent, once it has let us in; until then it is said to nobody. */
static void what_is_raised_goes_to_another_parent(void)
{
    open_all(30);
    CHECK(wring_control_tree_parent(ranks[9].tree) == 1, "another one than 1");
    drop(1);
    UNTIL(ranks[9].n_lost == 1);
    CHECK(wring_control_tree_parent(ranks[9].tree) == 9, "there is a way up already");
    wring_control_tree_raise(ranks[9].tree, 9, &flight);
    UNTIL(wring_control_tree_parent(ranks[9].tree) == 0 && is_attached(9, 0));
    wring_control_tree_raise(ranks[9].tree, 9, &flight);
    UNTIL(ranks[0].heard == 1 && ranks[0].last_from == 9);
    drop(0);
    UNTIL(wring_control_tree_is_root(ranks[2].tree) && is_attached(3, 2));
    wring_control_tree_raise(ranks[29].tree, 29, &flight); /* by 3 */
    UNTIL(ranks[2].heard == 1 && ranks[2].last_from == 29);
    close_all();
}

static void good_byes_are_no_loss(void)
{
    open_all(30);
    wring_control_tree_leave(ranks[1].tree);
    UNTIL(wring_control_tree_has_left(ranks[1].tree) && all_heard(1, 1));
    drop(1);
    UNTIL(children_attached(1, 0));
    for (uint32_t i = 0; i < n_ranks; i++)
        CHECK(i == 1 || (ranks[i].n_lost == 0 && ranks[i].byes == 1), "rank %u", i);
    struct wring_control control = {.kind = WRING_CONTROL_CALL};
    CHECK(wring_control_tree_send(ranks[5].tree, 1, &control) == WRING_ERR_CLOSED,
          "to one that left");
    close_all();
}

static void leave_and_go(uint32_t i)
{
    wring_control_tree_leave(ranks[i].tree);
    UNTIL(wring_control_tree_has_left(ranks[i].tree));
    drop(i);
}

static bool all_heard_byes(uint32_t n)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        if (ranks[i].tree != NULL && ranks[i].byes != n)
            return false;
    return true;
}

/** Many leave, some above others: those that stay hear of each once, and stay in one tree. */
static void each_good_bye_is_heard_once(void)
{
    uint32_t n = 0;

    open_all(100);
    for (uint32_t i = 5; i < n_ranks; i += 3, n++)
        leave_and_go(i);
    UNTIL(all_heard_byes(n));
    for (uint32_t i = 0; i < n_ranks; i++)
        CHECK(ranks[i].tree == NULL || ranks[i].n_lost == 0, "rank %u lost %u", i, ranks[i].lost);
    tell(99, "told below");
    UNTIL(all_heard(99, n + 1));
    close_all();
}

/** Who has left while its parent was dying, a rank hears from its new one. */
static void who_comes_late_knows_who_has_left(void)
{
    open_all(30);
    drop(1); /* of 9 to 16 */
    for (uint32_t i = 25; i < 30; i++)
        if (i != 27)
            wring_control_tree_leave(ranks[i].tree);
    UNTIL(ranks[9].byes == 4 && ranks[0].byes == 4 && ranks[27].byes == 4);
    close_all();
}

/** A rank whose parent leaves does so before it has another one: it tells one that stays, and is
 *  not among its children. */
static void who_leaves_without_a_parent_is_heard(void)
{
    open_all(3);
    wring_control_tree_leave(ranks[0].tree);
    UNTIL(ranks[1].byes == 1 && ranks[2].byes == 1 && wring_control_tree_has_left(ranks[0].tree));
    drop(0);
    wring_control_tree_leave(ranks[2].tree); /* at once */
    UNTIL(wring_control_tree_has_left(ranks[2].tree));
    CHECK(ranks[1].byes == 2 && ranks[1].n_lost == 0, "%u byes, %u lost", ranks[1].byes,
          ranks[1].n_lost);
    close_all();
    open_all(3);
    wring_control_tree_leave(ranks[0].tree);
    UNTIL(ranks[1].byes == 1 && ranks[2].byes == 1 && wring_control_tree_has_left(ranks[0].tree));
    drop(0);
    wring_control_tree_leave(ranks[1].tree); /* the one above tells one below */
    UNTIL(wring_control_tree_has_left(ranks[1].tree));
    CHECK(ranks[2].byes == 2 && ranks[2].n_lost == 0, "%u byes, %u lost", ranks[2].byes,
          ranks[2].n_lost);
    close_all();
}

/** What happened while it was on its way to another parent it hears there. */
static void who_comes_late_misses_nothing(void)
{
    open_all(30);
    drop(1);
    for (int i = 0; i < 1000 && ranks[9].n_lost == 0; i++)
        wring_control_tree_poll(ranks[9].tree, wring_now_ns());
    tell(5, "meanwhile"); /* before 0 has let it in */
    UNTIL(ranks[9].aborts == 1 && ranks[29].aborts == 1);
    close_all();
}

/** Those that look after a death are told: how often has each looked by then? */
static unsigned looks_until_all_know(uint32_t dies)
{
    unsigned looks = 0;
    uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS);
    bool told[RANKS_MAX] = {false};

    open_all(100);
    drop(dies);
    for (bool all = false; !all && wring_now_ns() < deadline_ns; looks++) {
        all = true;
        for (uint32_t i = n_ranks; i-- > 0;) {
            if (ranks[i].tree == NULL)
                continue;
            wring_control_tree_poll(ranks[i].tree, wring_now_ns());
            if (ranks[i].n_lost > 0 && !told[i])
                tell(i, "lost");
            told[i] |= ranks[i].n_lost > 0;
            all &= told[i] || ranks[i].aborts > 0;
        }
    }
    close_all();
    return looks;
}

/** Each rank looks every WRING_CONTROL_TREE_LOOK_NS. Children look first here, so it is one look up
 * to the root, and one for each of the three levels below it; and two for what the system delivers
 * late, which may take more on a busy machine. */
static void a_death_passes_a_level_with_each_look(void)
{
    unsigned best = UINT32_MAX;
    uint64_t until_ns = wring_deadline_in(3 * PATIENCE_NS);
    while (best > 6 && wring_now_ns() < until_ns) {
        unsigned looks = looks_until_all_know(99);
        best = looks < best ? looks : best;
    }
    CHECK(best <= 6, "%u looks", best);
}

static void who_is_silent_is_lost(void)
{
    set("WRING_PEER_TIMEOUT", "2s"); /* in which the others look, whatever else runs here */
    set("WRING_HEARTBEAT", "50ms");
    open_all(3);
    struct wring_control_tree *stopped = ranks[2].tree;
    ranks[2].tree = NULL; /* nobody polls it */
    UNTIL(ranks[0].n_lost == 1);
    CHECK(ranks[0].lost == 2 && ranks[0].lost_status == WRING_ERR_TIMEOUT && ranks[1].n_lost == 0,
          "lost %u", ranks[0].lost);
    wring_control_tree_destroy(stopped);
    close_all();
    set("WRING_PEER_TIMEOUT", "30s");
    set("WRING_HEARTBEAT", "1s");
}

static void another_job_is_refused(void)
{
    open_all(2);
    endpoints[0] = wring_control_tree_endpoint(ranks[0].tree);
    struct rank kept = ranks[1];
    open_one(1, 2); /* the same secret, another job */
    struct wring_control_tree *other = ranks[1].tree;
    ranks[1] = kept;
    endpoints[1] = wring_control_tree_endpoint(other);
    wring_control_tree_join(other);
    uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS);
    uint32_t gone = 0;
    for (; gone < 1 && wring_now_ns() < deadline_ns; gone = ranks[1].n_lost) {
        poll_all();
        wring_control_tree_poll(other, wring_now_ns());
    }
    CHECK(gone == 1 && is_attached(1, 0), "the stranger is in, or the friend is out");
    wring_control_tree_destroy(other);
    close_all();
}

/** A member that breaks the rules: it has the secret and the job's name. @return its connection */
static struct wring_conn *join_as_1(struct wring_provider *provider)
{
    static const uint8_t job[16] = {1};
    struct wring_control_tree_endpoint root = wring_control_tree_endpoint(ranks[0].tree);
    struct wring_event events[8];
    struct wring_conn *conn;
    bool stands = false;
    uint8_t hello[24];

    wring_put_u32(hello, 1);
    memcpy(hello + 4, job, 16);
    memcpy(hello + 20, "tree", 4);
    enum wring_status status =
        provider->ops->connect(provider, root.address, root.bytes, hello, sizeof(hello), &conn);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    uint64_t deadline_ns = wring_deadline_in(PATIENCE_NS);
    while (status == WRING_OK && !stands && wring_now_ns() < deadline_ns) {
        poll_all();
        size_t n = provider->ops->poll(provider, events, 8);
        for (size_t i = 0; i < n; i++)
            stands |= events[i].kind == WRING_EVENT_CONNECTED;
    }
    CHECK(stands, "no connection");
    return stands ? conn : NULL;
}

static void what_is_malformed_loses_its_sender(void)
{
    static const struct {
        uint32_t words[8];
        size_t bytes;
    } wrong[] = {
        {{1}, 1},                                                /* next to nothing */
        {{1, 0, 1}, 12},                                         /* cut short */
        {{2, 0, WRING_CONTROL_HEARTBEAT, 0, 0, 0}, 24},          /* of a rank that there is not */
        {{UINT32_MAX, 0, WRING_CONTROL_HEARTBEAT, 0, 0, 0}, 24}, /* likewise */
        {{1, 0, 0, 0, 0, 0}, 24},                                /* of no kind */
        {{1, 0, WRING_CONTROL_END, 0, 0, 0}, 24},                /* likewise */
        {{1, 0, WRING_CONTROL_HEARTBEAT, 0, 0, 0, 7}, 28},       /* with a text that it has not */
        {{1, 0, WRING_CONTROL_LEFT, 0, 0, 0, 0}, 28},            /* half a range */
        {{1, 0, WRING_CONTROL_LEFT, 0, 0, 0, 1, 0}, 32},         /* that ends before it begins */
        {{1, 0, WRING_CONTROL_LEFT, 0, 0, 0, 0, 2}, 32},         /* of a rank that there is not */
        {{1, 0, WRING_CONTROL_LEFT, 2, 0, 0}, 24},               /* that leaves, or does not */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wring_provider_params params = {.log = &quiet, .config = &config, .secret = {7}};
        struct wring_provider *provider;
        uint8_t message[32], beat[24] = {1, [8] = WRING_CONTROL_HEARTBEAT};
        memset(ranks, 0, sizeof(ranks));
        n_ranks = 2;
        open_one(0, 1);
        endpoints[0] = wring_control_tree_endpoint(ranks[0].tree);
        wring_control_tree_join(ranks[0].tree);
        REQUIRE(wring_provider_tcp.open(&params, &provider) == WRING_OK, "open");
        struct wring_conn *conn = join_as_1(provider);
        for (int w = 0; w < 8; w++)
            wring_put_u32(message + 4 * w, wrong[i].words[w]);
        if (conn != NULL && provider->ops->send(conn, beat, sizeof(beat)) == WRING_OK)
            provider->ops->send(conn, message, wrong[i].bytes);
        UNTIL(ranks[0].n_lost == 1);
        CHECK(ranks[0].lost == 1 && ranks[0].lost_status == WRING_ERR_FRAME && ranks[0].heard == 0,
              "%zu: rank %u, %s", i, ranks[0].lost, wring_status_text(ranks[0].lost_status));
        provider->ops->close(provider);
        close_all();
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_is_malformed_loses_its_sender", what_is_malformed_loses_its_sender},
        {"a_rank_has_nine_connections_at_most", a_rank_has_nine_connections_at_most},
        {"each_connection_has_one_socket", each_connection_has_one_socket},
        {"all_hear_of_a_failure_once", all_hear_of_a_failure_once},
        {"each_can_speak_to_each", each_can_speak_to_each},
        {"who_loses_its_parent_goes_to_the_grandparent",
         who_loses_its_parent_goes_to_the_grandparent},
        {"a_root_that_dies_is_replaced", a_root_that_dies_is_replaced},
        {"what_is_raised_passes_all_above", what_is_raised_passes_all_above},
        {"what_is_raised_goes_to_another_parent", what_is_raised_goes_to_another_parent},
        {"good_byes_are_no_loss", good_byes_are_no_loss},
        {"each_good_bye_is_heard_once", each_good_bye_is_heard_once},
        {"who_comes_late_knows_who_has_left", who_comes_late_knows_who_has_left},
        {"who_leaves_without_a_parent_is_heard", who_leaves_without_a_parent_is_heard},
        {"who_comes_late_misses_nothing", who_comes_late_misses_nothing},
        {"a_death_passes_a_level_with_each_look", a_death_passes_a_level_with_each_look},
        {"who_is_silent_is_lost", who_is_silent_is_lost},
        {"another_job_is_refused", another_job_is_refused},
        {NULL, NULL},
    };
    CHECK(wring_config_load(&config, &quiet) == WRING_OK, "config");
    return wring_test_main(argc, argv, cases);
}
