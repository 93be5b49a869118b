/* SPDX-License-Identifier: Apache-2.0 */
/** Boards in memory of this process: what members show each other without an engine's help. */
#include "transport/collective/collective.h"

#include <sched.h>
#include <string.h>

#include "tests/lib/test.h"

#define MEMBERS 3
#define ELEMS 30 /* more than fit a line */
#define BYTES (ELEMS * sizeof(int64_t))
#define EPOCHS 9
#define MEMORY 4096

static const uint32_t ranks[MEMBERS] = {0, 1, 2};

struct member {
    struct wring_collective collective;
    _Alignas(WRING_BOARD_ALIGN) uint8_t memory[MEMORY];
    int64_t data[ELEMS];
};

static struct member members[MEMBERS];
static struct wring_config config = {.cpu = "best"};
static struct wring_fabric fabric;
static struct wring_engine engine = {.config = &config, .fabric = &fabric};

static enum wring_status map(struct wring_remote *remote, void **out)
{
    *out = members[*(const uint32_t *)remote->conn->user].memory;
    return WRING_OK;
}

static const struct wring_provider_ops ops = {.remote_map = map};

static enum wring_status connect_to(struct wring_shm_flags *flags, uint32_t member, uint64_t bytes,
                                    uint64_t offset)
{
    struct wring_provider provider = {&ops};
    uint32_t whose = member;
    struct wring_conn conn = {.provider = &provider, .user = &whose};
    struct wring_remote remote = {&conn, bytes};
    return wring_shm_flags_connect(flags, member, &remote, offset);
}

static void make(uint32_t me, bool in_place)
{
    struct member *member = &members[me];
    memset(member, 0, sizeof(*member));
    member->collective = (struct wring_collective){
        .engine = &engine,
        .step = 1, /* not one that is timed, for which tasks would be needed */
        .work = {.algorithm =
                     in_place ? WRING_ALLREDUCE_EAGER_IN_PLACE : WRING_ALLREDUCE_EAGER_BOARD,
                 .ops = &wring_allreduce_shm_flags,
                 .partition = {.elems = ELEMS,
                               .elem_bytes = sizeof(int64_t),
                               .grain = 4,
                               .shards = MEMBERS,
                               .chunk_elems = ELEMS},
                 .dtype = WRING_I64,
                 .op = WRING_SUM,
                 .in = member->data,
                 .out = member->data},
    };
    enum wring_status status =
        wring_shm_flags_create((struct wring_members){.n = MEMBERS, .me = me, .ranks = ranks},
                               in_place ? 1 : BYTES, member->memory, &member->collective.shm_flags);
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    wring_shm_flags_prepare(&member->collective);
}

static void make_all(bool in_place)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        make(i, in_place);
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t j = 0; j < MEMBERS; j++) {
            struct wring_shm_flags *flags = members[i].collective.shm_flags;
            if (i == j)
                continue;
            CHECK(connect_to(flags, j, MEMORY, 0) == WRING_OK, "%u", j);
            if (in_place)
                wring_shm_flags_set_data(flags, j, (uint8_t *)members[j].data);
        }
}

static void destroy_all(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        wring_shm_flags_destroy(members[i].collective.shm_flags);
}

static int64_t value(uint32_t member, int epoch, int i)
{
    return (int64_t)member * 1000003 + (int64_t)epoch * 101 + i;
}

static void begin(uint32_t member, int epoch)
{
    for (int i = 0; i < ELEMS; i++)
        members[member].data[i] = value(member, epoch, i);
    members[member].collective.step = 1;
    CHECK(wring_shm_flags_begin(&members[member].collective), "member %u, epoch %d", member, epoch);
}

static void check_sums(uint32_t member, int epoch)
{
    for (int i = 0; i < ELEMS; i++) {
        int64_t sum = 0;
        for (uint32_t m = 0; m < MEMBERS; m++)
            sum += value(m, epoch, i);
        CHECK(members[member].data[i] == sum, "member %u, epoch %d, element %d", member, epoch, i);
    }
}

/** One is an epoch ahead of the rest all the time, which is as far as it gets. */
static void epochs_overlap(void)
{
    make_all(false);
    begin(0, 0);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        CHECK(!wring_shm_flags_end(&members[0].collective), "ended alone");
        begin(1, epoch);
        CHECK(!wring_shm_flags_end(&members[1].collective), "ended without member 2");
        begin(2, epoch);
        CHECK(wring_shm_flags_end(&members[0].collective), "epoch %d", epoch);
        check_sums(0, epoch);
        begin(0, epoch + 1); /* before the others have read what it showed in this one */
        for (uint32_t m = 1; m < MEMBERS; m++) {
            CHECK(wring_shm_flags_end(&members[m].collective), "epoch %d", epoch);
            check_sums(m, epoch);
        }
    }
    struct wring_shm_flags_counts counts = wring_shm_flags_count(members[1].collective.shm_flags);
    CHECK(counts.steps == EPOCHS && counts.puts_sent == EPOCHS * (MEMBERS - 1) &&
              counts.bytes_sent == EPOCHS * (MEMBERS - 1) * BYTES &&
              counts.bytes_received == counts.bytes_sent,
          "%llu steps", (unsigned long long)counts.steps);
    destroy_all();
}

/** Whoever comes first, once all data is ready, sums all of it. The rest are needed no more. */
static void one_sums_for_all(void)
{
    make_all(true);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t first = (uint32_t)epoch % MEMBERS;
        for (uint32_t i = 0; i < MEMBERS; i++) {
            CHECK(i == 0 || !wring_shm_flags_end(&members[first].collective), "ended too soon");
            begin((first + i) % MEMBERS, epoch);
        }
        CHECK(wring_shm_flags_end(&members[first].collective), "epoch %d", epoch);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            check_sums(m, epoch);
            CHECK(wring_shm_flags_end(&members[m].collective), "epoch %d", epoch);
            check_sums(m, epoch);
        }
    }
    struct wring_shm_flags_counts counts = wring_shm_flags_count(members[1].collective.shm_flags);
    CHECK(counts.steps == EPOCHS &&
              counts.bytes_sent / (MEMBERS - 1) + counts.bytes_received == EPOCHS * BYTES,
          "%llu steps", (unsigned long long)counts.steps);
    destroy_all();
}

static void set_shard(uint32_t member, uint64_t epoch, uint64_t state)
{
    atomic_store(&members[member].collective.shm_flags->own->shard,
                 epoch << WRING_SHARD_BITS | state);
}

/** What member 0 waits for, as far as it can tell: a bit for each. */
static unsigned awaited(void)
{
    unsigned all = 0;
    for (uint32_t m = 1; m < MEMBERS; m++)
        all |= (unsigned)wring_allreduce_shm_flags.awaits(&members[0].collective, m) << m;
    return all;
}

/** A shard that somebody sums already is left to him, and he is who is waited for. */
static void claims_hold(void)
{
    static const struct {
        uint64_t by; /* says the shard of member 1 */
        unsigned awaited;
    } cases[] = {{2, 1u << 1}, {3, 1u << 2}, {1, 0}, {77, 0}}; /* ourselves; nobody */
    struct wring_shm_flags *flags;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_all(true);
        flags = members[0].collective.shm_flags;
        begin(0, 0);
        CHECK(awaited() == (1u << 1 | 1u << 2), "%x", awaited());
        begin(1, 0);
        begin(2, 0);
        set_shard(1, 1, cases[i].by);
        CHECK(!wring_shm_flags_end(&members[0].collective), "case %zu: ended without a shard", i);
        CHECK(awaited() == cases[i].awaited, "case %zu: %x", i, awaited());
        size_t at = flags->shards[1].offset / sizeof(int64_t);
        CHECK(members[0].data[at] == value(0, 0, (int)at), "case %zu: it is summed twice", i);
        CHECK(members[0].data[0] != value(0, 0, 0), "case %zu: ours is not summed", i);
        set_shard(1, 1, WRING_SHARD_SUMMED);
        CHECK(wring_shm_flags_end(&members[0].collective), "case %zu: not ended", i);
        destroy_all();
    }
}

/** One that has gone on to the next epoch has summed its shard in this one. */
static void next_epochs_are_told(void)
{
    make_all(true);
    for (uint32_t m = 0; m < MEMBERS; m++)
        begin(m, 0);
    CHECK(wring_shm_flags_end(&members[1].collective), "epoch 0");
    begin(1, 1);
    CHECK(wring_shm_flags_end(&members[0].collective), "member 1 is awaited twice");
    begin(0, 1);
    CHECK(!wring_shm_flags_end(&members[0].collective), "ended without member 2");
    destroy_all();
}

/** Who goes to sleep after its post misses that sums are there. */
static void sleepers_are_seen_in_place(void)
{
    make_all(true);
    for (uint32_t m = 0; m < MEMBERS; m++)
        begin(m, 0);
    wring_shm_flags_sleep(&members[0].collective);
    CHECK(!wring_shm_flags_end(&members[1].collective), "member 0 is not woken");
    CHECK(members[1].collective.shm_flags->by_engine &&
              atomic_exchange(&engine.posted, NULL) == &members[1].collective,
          "the engine is to wake it");
    CHECK(wring_shm_flags_end(&members[2].collective), "that is told twice");
    destroy_all();
}

/** Whoever posts hears that another one sleeps, and leaves the step to the engine. */
static void sleepers_are_seen(void)
{
    make_all(false);
    begin(0, 0);
    wring_shm_flags_sleep(&members[0].collective);
    CHECK(!wring_shm_flags_begin(&members[1].collective), "member 0 was not seen to sleep");
    CHECK(members[1].collective.shm_flags->by_engine, "the engine is to wake it");
    CHECK(!wring_shm_flags_end(&members[1].collective), "ended by two");
    destroy_all();
}

/** Where ranks share cores a board says from which one its owner shows what it has. */
static void cores_are_shown(void)
{
    cpu_set_t before, one;
    REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0, "affinity");
    int core = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0, "core %d", core);
    for (int crowded = 0; crowded < 2; crowded++) {
        fabric.crowded = crowded;
        make_all(false);
        begin(0, 0);
        unsigned shown = atomic_load(&members[0].collective.shm_flags->own->core);
        CHECK(shown == (crowded ? (unsigned)core + 1 : 0), "core %d is shown as %u", core, shown);
        destroy_all();
    }
    fabric.crowded = false;
    sched_setaffinity(0, sizeof(before), &before);
}

/** Who moves, and where to: cores 2, 3 and 5 may be used. */
static void fullest_cores_lose_one(void)
{
    static const struct {
        uint32_t cores[4], me; /* cores + 1 */
        int to;
    } cases[] = {
        {{3, 3, 3, 4}, 2, 5},  {{3, 3, 3, 4}, 1, -1},          /* the last of a core moves */
        {{3, 3, 4, 4}, 1, 5},  {{3, 4, 3, 6}, 2, -1},          /* one less is not worth it */
        {{3, 3, 3, 0}, 2, -1}, {{3, 3, 3, UINT32_MAX}, 2, -1}, /* who knows where one is */
        {{9, 9, 9, 9}, 3, 2},  {{3, 3, 3, 3}, 3, 3},           /* the first of the emptiest */
    };
    cpu_set_t usable;
    CPU_ZERO(&usable);
    CPU_SET(2, &usable);
    CPU_SET(3, &usable);
    CPU_SET(5, &usable);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int core = wring_core_balance_choose(cases[i].cores, 4, cases[i].me, &usable);
        CHECK(core == cases[i].to, "case %zu: %d, not %d", i, core, cases[i].to);
    }
}

/** A member may say that its board lies anywhere. */
static void positions_are_checked(void)
{
    size_t need = wring_shm_flags_memory(BYTES);
    make(0, false);
    struct wring_shm_flags *flags = members[0].collective.shm_flags;
    CHECK(need <= MEMORY, "%zu bytes", need);
    CHECK(connect_to(flags, 1, need - 1, 0) == WRING_ERR_FRAME, "too little memory");
    CHECK(connect_to(flags, 1, MEMORY, MEMORY) == WRING_ERR_FRAME, "at the end");
    CHECK(connect_to(flags, 1, MEMORY, UINT64_MAX - 127) == WRING_ERR_FRAME, "beyond the end");
    CHECK(connect_to(flags, 1, MEMORY, 64) == WRING_ERR_FRAME, "between lines");
    CHECK(connect_to(flags, 1, need, 0) == WRING_OK, "all that is needed");
    wring_shm_flags_destroy(flags);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"epochs_overlap", epochs_overlap},
        {"one_sums_for_all", one_sums_for_all},
        {"claims_hold", claims_hold},
        {"next_epochs_are_told", next_epochs_are_told},
        {"sleepers_are_seen", sleepers_are_seen},
        {"sleepers_are_seen_in_place", sleepers_are_seen_in_place},
        {"cores_are_shown", cores_are_shown},
        {"fullest_cores_lose_one", fullest_cores_lose_one},
        {"positions_are_checked", positions_are_checked},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
