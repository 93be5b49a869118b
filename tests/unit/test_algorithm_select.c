/* SPDX-License-Identifier: Apache-2.0 */
/* Which algorithm runs what: the table, and that no link changes the order of a reduction. */
#include "tests/lib/test.h"
#include "transport/collective/collective.h"

#define TURNS 20000
#define KIB 1024u

static const struct wring_codec_info divided = {.unit = 128};
static const struct wring_codec_info whole = {.unit = 0};
static const struct wring_codec_info two_ways = {.unit = 128, .flags = WRING_CODEC_TWO_WAYS};
static const struct wring_codec_info votes = {.unit = 32,
                                              .flags = WRING_CODEC_TWO_WAYS | WRING_CODEC_VOTES};

static const struct wring_reach over_tcp = {
    .eager_bytes = 8 * KIB, .chunk_bytes = 256 * KIB, .piece_elems = 64 * KIB, .copies = true};
static const struct wring_reach over_tcp_placed = {.eager_bytes = 8 * KIB,
                                                   .chunk_bytes = 256 * KIB,
                                                   .piece_elems = 64 * KIB,
                                                   .placeable = true,
                                                   .copies = true};
static const struct wring_reach over_verbs = {
    .eager_bytes = 8 * KIB, .chunk_bytes = 256 * KIB, .piece_elems = 64 * KIB};
static const struct wring_reach of_a_call = {.eager_bytes = 8 * KIB,
                                             .chunk_bytes = 256 * KIB,
                                             .piece_elems = 64 * KIB,
                                             .copies = true,
                                             .scratch = true};
static const struct wring_reach over_shm = {.eager_bytes = 8 * KIB,
                                            .chunk_bytes = 256 * KIB,
                                            .piece_elems = 64 * KIB,
                                            .mappable = true,
                                            .boards = true};
static const struct wring_reach over_shm_placed = {.eager_bytes = 8 * KIB,
                                                   .chunk_bytes = 256 * KIB,
                                                   .piece_elems = 64 * KIB,
                                                   .placeable = true,
                                                   .mappable = true,
                                                   .boards = true};
static const struct wring_reach of_a_leg = {.eager_bytes = 8 * KIB,
                                            .chunk_bytes = 256 * KIB,
                                            .piece_elems = 64 * KIB,
                                            .placeable = true,
                                            .mappable = true};

/** A row: bytes of f32, members, scheme, codec, reach, and what runs it. */
struct row {
    uint64_t bytes;
    uint32_t members;
    enum wring_scheme scheme;
    const struct wring_codec_info *code;
    const struct wring_reach *reach;
    enum wring_algorithm algorithm;
};

static const struct row rows[] = {
    /* clang-format off */
    {8,             4,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_EAGER},
    {8 * KIB,       4,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_EAGER},
    {8 * KIB + 4,   4,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {8 * KIB + 4,   4,  WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_TWO_SHOT_PLACED},
    {256 * KIB,     2,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_EAGER},
    {512 * KIB,     2,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_ONE_SHOT},
    {512 * KIB + 4, 2,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {64 * KIB,      2,  WRING_SCHEME_AUTO,        NULL,      &over_verbs,      WRING_ALLREDUCE_EAGER},
    {64 * KIB + 4,  2,  WRING_SCHEME_AUTO,        NULL,      &over_verbs,      WRING_ALLREDUCE_TWO_SHOT},
    {8 * KIB,       2,  WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_EAGER_BOARD},
    {8 * KIB + 4,   2,  WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_TWO_SHOT},
    {8 * KIB,       64, WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_EAGER_BOARD},
    {8 * KIB + 4,   64, WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_DOUBLING},
    {1024 * KIB,    8,  WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_TWO_SHOT},
    {1024 * KIB,    9,  WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_HALVING},
    {4096 * KIB,    9,  WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_TWO_SHOT},
    {4096 * KIB,    64, WRING_SCHEME_AUTO,        NULL,      &over_shm,        WRING_ALLREDUCE_HALVING},
    {1024 * KIB,    64, WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_TWO_SHOT_DIRECT},
    {1 * KIB,       9,  WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_EAGER_BOARD},
    {1 * KIB + 4,   9,  WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_EAGER_IN_PLACE},
    {64 * KIB,      9,  WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_EAGER_IN_PLACE},
    {64 * KIB + 4,  9,  WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_TWO_SHOT_DIRECT},
    {8,             8,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_EAGER},
    {8,             9,  WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_DOUBLING},
    {4 * KIB,       65, WRING_SCHEME_AUTO,        NULL,      &over_verbs,      WRING_ALLREDUCE_DOUBLING},
    {1024 * KIB,    64, WRING_SCHEME_AUTO,        NULL,      &over_tcp,        WRING_ALLREDUCE_HALVING},
    {1024 * KIB,    64, WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_HALVING_PLACED},
    {8,             64, WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_DOUBLING},
    {4096 * KIB,    64, WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_HALVING_PLACED},
    {4096 * KIB,    16, WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_TWO_SHOT_PLACED},
    {1 << 30,       64, WRING_SCHEME_AUTO,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_TWO_SHOT_PLACED},
    {8 * KIB,       65, WRING_SCHEME_INDIVISIBLE, NULL,      &over_tcp,        WRING_ALLREDUCE_ONE_SHOT},
    {8 * KIB,       65, WRING_SCHEME_DIVISIBLE,   NULL,      &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {8 * KIB,       65, WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_DOUBLING},
    {64 * KIB,      65, WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_HALVING_PLACED},
    {64 * KIB + 4,  65, WRING_SCHEME_AUTO,        NULL,      &over_shm_placed, WRING_ALLREDUCE_TWO_SHOT_DIRECT},
    {8,             2,  WRING_SCHEME_AUTO,        NULL,      &of_a_leg,        WRING_ALLREDUCE_EAGER},
    {8,             4,  WRING_SCHEME_DIVISIBLE,   NULL,      &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {1024 * KIB,    4,  WRING_SCHEME_INDIVISIBLE, NULL,      &over_tcp,        WRING_ALLREDUCE_ONE_SHOT},
    {8,             2,  WRING_SCHEME_AUTO,        &divided,  &over_shm_placed, WRING_ALLREDUCE_ONE_SHOT},
    {8,             3,  WRING_SCHEME_AUTO,        &divided,  &over_shm_placed, WRING_ALLREDUCE_TWO_SHOT},
    {8,             3,  WRING_SCHEME_AUTO,        &whole,    &over_tcp,        WRING_ALLREDUCE_ONE_SHOT},
    {8,             2,  WRING_SCHEME_AUTO,        &two_ways, &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {8,             3,  WRING_SCHEME_INDIVISIBLE, &divided,  &over_tcp,        WRING_ALLREDUCE_ONE_SHOT},
    {8,             2,  WRING_SCHEME_DIVISIBLE,   &divided,  &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {8 * KIB,       2,  WRING_SCHEME_RING,        NULL,      &over_tcp,        WRING_ALLREDUCE_RING},
    {8 * KIB - 4,   2,  WRING_SCHEME_RING,        NULL,      &over_tcp,        WRING_ALLREDUCE_EAGER},
    {256 * KIB,     64, WRING_SCHEME_RING,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_RING_PLACED},
    {256 * KIB - 4, 64, WRING_SCHEME_RING,        NULL,      &over_tcp_placed, WRING_ALLREDUCE_HALVING_PLACED},
    {1 << 30,       64, WRING_SCHEME_RING,        NULL,      &over_shm_placed, WRING_ALLREDUCE_RING_PLACED},
    {1 << 30,       1,  WRING_SCHEME_RING,        NULL,      &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    {1 << 30,       3,  WRING_SCHEME_RING,        &divided,  &over_tcp,        WRING_ALLREDUCE_TWO_SHOT},
    /* clang-format on */
};

static void rows_hold(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct wring_operation operation = {.kind = WRING_CALL_ALLREDUCE,
                                            .elems = row->bytes / 4,
                                            .elem_bytes = 4,
                                            .members = row->members,
                                            .scheme = row->scheme,
                                            .code = row->code};
        enum wring_algorithm algorithm = wring_algorithm_select(&operation, row->reach);
        CHECK(algorithm == row->algorithm, "row %zu: %s, not %s", i,
              wring_algorithms[algorithm].name, wring_algorithms[row->algorithm].name);
    }
}

static void hierarchies_need_equal_nodes(void)
{
    struct wring_operation operation = {.kind = WRING_CALL_ALLREDUCE,
                                        .elems = 1,
                                        .elem_bytes = 4,
                                        .members = 4,
                                        .nodes = 2,
                                        .node_members = 2,
                                        .scheme = WRING_SCHEME_HIERARCHICAL};

    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLREDUCE_HIERARCHICAL,
          "two, two");
    operation.code = &votes;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "votes");
    operation.code = &two_ways;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_NODES, "no votes");
    operation.code = NULL;
    operation.node_members = 0;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "unequal nodes");
    operation.node_members = 1;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "nodes of one");
    operation.node_members = 4;
    operation.nodes = 1;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "a single node");
    operation.nodes = operation.node_members = 2;
    operation.elems = 0;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "nothing to sum");
    operation.elems = 1u << 30;
    operation.scheme = WRING_SCHEME_AUTO;
    CHECK(wring_algorithm_order(&operation) == WRING_ORDER_MEMBERS, "auto");
}

/** What is not an allreduce. */
static void others_hold(void)
{
    struct wring_operation operation = {
        .kind = WRING_CALL_BARRIER, .elem_bytes = 1, .members = 100};

    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLREDUCE_DOUBLING, "barrier");
    operation.members = 8;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLREDUCE_EAGER, "of few");
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_ALLREDUCE_EAGER_BOARD, "barrier");
    operation.kind = WRING_CALL_REDUCE_SCATTER;
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_REDUCE_SCATTER_OWNERS, "slots");
    CHECK(wring_algorithm_select(&operation, &of_a_leg) == WRING_REDUCE_SCATTER_DIRECT, "mapped");
    operation.kind = WRING_CALL_REDUCE_SCATTERV;
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_REDUCE_SCATTER_OWNERS, "runs");
    operation.kind = WRING_CALL_REDUCE;
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_REDUCE_ONE_SHOT, "nothing");
    operation.elems = 8 * KIB + 1;
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_REDUCE_TWO_SHOT, "by shards");
    operation.members = 9;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_REDUCE_TREE, "of many");
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_REDUCE_TREE, "of a call");
    CHECK(wring_algorithm_select(&operation, &of_a_leg) == WRING_REDUCE_ONE_SHOT, "mapped");
    operation.code = &whole;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_REDUCE_ONE_SHOT, "coded");
    operation.code = NULL;
    operation.elems = 32 * KIB + 1;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_REDUCE_TWO_SHOT, "large");
    operation.members = 8;
    operation.kind = WRING_CALL_BROADCAST;
    CHECK(wring_algorithm_select(&operation, &over_shm) == WRING_ALLGATHER_ALLTOALL, "mapped");
    operation.members = 9;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_BROADCAST_TREE, "of many");
    operation.members = 8;
    operation.kind = WRING_CALL_GATHER;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLGATHER_ALLTOALL, "gather");
    operation.kind = WRING_CALL_ALLGATHER;
    CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLGATHER_ALLTOALL, "slots");
    CHECK(wring_algorithm_select(&operation, &over_tcp_placed) == WRING_ALLGATHER_ALLTOALL_PLACED,
          "placed");
    operation.code = &divided;
    CHECK(wring_algorithm_select(&operation, &over_tcp_placed) == WRING_ALLGATHER_ALLTOALL,
          "coded");
}

static void small_pieces_travel_together(void)
{
    static const struct {
        enum wring_call_kind kind;
        uint32_t least; /* members */
        uint32_t bytes, mapped;
        enum wring_algorithm algorithm;
    } small[] = {
        {WRING_CALL_GATHER, 32, 1 * KIB, 0, WRING_GATHER_TREE},
        {WRING_CALL_SCATTER, 32, 1 * KIB, 0, WRING_SCATTER_TREE},
        {WRING_CALL_ALLGATHER, 9, 16 * KIB, 4 * KIB, WRING_ALLGATHER_BRUCK},
        {WRING_CALL_ALLTOALL, 9, 1 * KIB, 1 * KIB, WRING_ALLTOALL_BRUCK},
    };
    struct wring_reach mapped_call = over_shm;
    mapped_call.scratch = true;

    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
        struct wring_operation operation = {
            .kind = small[i].kind, .elems = small[i].bytes, .elem_bytes = 1};
        operation.members = small[i].least;
        CHECK(wring_algorithm_select(&operation, &of_a_call) == small[i].algorithm, "%zu", i);
        CHECK(wring_algorithm_select(&operation, &over_tcp) == WRING_ALLGATHER_ALLTOALL,
              "%zu, without memory", i);
        operation.elems = small[i].mapped;
        CHECK(small[i].mapped == 0 ||
                  wring_algorithm_select(&operation, &mapped_call) == small[i].algorithm,
              "%zu, mapped", i);
        operation.elems++;
        CHECK(wring_algorithm_select(&operation, &mapped_call) == WRING_ALLGATHER_ALLTOALL,
              "%zu, mapped and larger", i);
        operation.elems = small[i].bytes + 1;
        CHECK(wring_algorithm_select(&operation, &of_a_call) == WRING_ALLGATHER_ALLTOALL,
              "%zu, larger", i);
        operation.elems--;
        operation.members = small[i].least - 1;
        CHECK(wring_algorithm_select(&operation, &of_a_call) == WRING_ALLGATHER_ALLTOALL,
              "%zu, of few", i);
        operation.members = 256 * KIB / small[i].bytes + 1;
        CHECK(wring_algorithm_select(&operation, &of_a_call) == WRING_ALLGATHER_ALLTOALL,
              "%zu, more than a piece", i);
    }
    struct wring_operation alltoall = {
        .kind = WRING_CALL_ALLTOALL, .elems = 4 * KIB, .elem_bytes = 1, .members = 32};
    CHECK(wring_algorithm_select(&alltoall, &of_a_call) == WRING_ALLTOALL_BRUCK, "of many");
    alltoall.elems++;
    CHECK(wring_algorithm_select(&alltoall, &of_a_call) == WRING_ALLGATHER_ALLTOALL, "larger");
}

static struct wring_operation random_operation(uint32_t *random)
{
    static const struct wring_codec_info *const codes[] = {NULL, NULL, &divided, &whole, &two_ways};
    static const enum wring_call_kind kinds[] = {
        WRING_CALL_ALLREDUCE,      WRING_CALL_ALLREDUCE, WRING_CALL_REDUCE,
        WRING_CALL_REDUCE_SCATTER, WRING_CALL_ALLGATHER, WRING_CALL_BROADCAST,
        WRING_CALL_GATHER,         WRING_CALL_SCATTER,   WRING_CALL_ALLTOALL};
    uint32_t nodes = 1 + wring_test_random(random) % 4, each = wring_test_random(random) % 5;

    return (struct wring_operation){
        .kind = kinds[wring_test_random(random) % 9],
        .dtype = (enum wring_dtype)(wring_test_random(random) % WRING_DTYPES),
        .op = (enum wring_op)(wring_test_random(random) % WRING_OPS),
        .elems = wring_test_random(random) >> wring_test_random(random) % 32,
        .elem_bytes = 1u << wring_test_random(random) % 4,
        .members = each > 0 ? nodes * each : 1 + wring_test_random(random) % 130,
        .nodes = nodes,
        .node_members = each,
        .scheme = (enum wring_scheme)(wring_test_random(random) % WRING_SCHEMES),
        .code = codes[wring_test_random(random) % 5],
    };
}

static struct wring_reach random_reach(uint32_t *random)
{
    uint32_t bits = wring_test_random(random);

    return (struct wring_reach){
        .eager_bytes = wring_test_random(random) % (64 * KIB + 1),
        .chunk_bytes = 4 * KIB << wring_test_random(random) % 12,
        .piece_elems = 1 + (wring_test_random(random) >> wring_test_random(random) % 32),
        .placeable = bits >> 8 & 1,
        .mappable = bits >> 9 & 1,
        .boards = bits >> 10 & 1,
        .copies = bits >> 11 & 1,
        .scratch = bits >> 12 & 1,
        .code_bytes = wring_test_random(random) >> wring_test_random(random) % 32,
    };
}

static bool sends_sums_back(enum wring_algorithm algorithm)
{
    return wring_algorithm_has_owners(algorithm) && !wring_algorithm_keeps_sums(algorithm);
}

/** Providers, calibration and settings of sizes are all in the reach. */
static void no_reach_changes_a_bit(void)
{
    uint32_t random = 20261125, seen = 0;

    for (int i = 0; i < TURNS; i++) {
        struct wring_operation operation = random_operation(&random);
        struct wring_reach one = random_reach(&random), other = random_reach(&random);
        enum wring_algorithm a = wring_algorithm_select(&operation, &one);
        enum wring_algorithm b = wring_algorithm_select(&operation, &other);
        enum wring_reduction_order order = wring_algorithm_order(&operation);

        seen |= 1u << a | 1u << b;
        CHECK(wring_algorithms[a].order == order && wring_algorithms[b].order == order,
              "turn %d: %s and %s, in order %s", i, wring_algorithms[a].name,
              wring_algorithms[b].name, wring_reduction_order_name(order));
        bool sums = operation.kind == WRING_CALL_ALLREDUCE || operation.kind == WRING_CALL_REDUCE;
        if (sums && order == WRING_ORDER_MEMBERS && operation.code != NULL)
            CHECK(sends_sums_back(a) == wring_algorithm_encodes_sums(&operation) &&
                      sends_sums_back(b) == wring_algorithm_encodes_sums(&operation),
                  "turn %d: %s and %s of one codec", i, wring_algorithms[a].name,
                  wring_algorithms[b].name);
    }
    CHECK(seen == (1u << WRING_ALGORITHMS) - 1, "only %x were chosen", seen);
}

/** What a step asks of an algorithm fits what it is made of. */
static void predicates_fit_the_table(void)
{
    for (unsigned i = 0; i < WRING_ALGORITHMS; i++) {
        const struct wring_algorithm_parts *parts = &wring_algorithms[i];
        enum wring_algorithm algorithm = (enum wring_algorithm)i;

        CHECK(wring_algorithm_has_owners(algorithm) == (parts->ops == &wring_allreduce_two_shot),
              "%u", i);
        CHECK(wring_algorithm_has_partners(algorithm) ==
                  (parts->ops == &wring_allreduce_doubling || parts->ops == &wring_allreduce_ring ||
                   parts->ops == &wring_allreduce_bruck),
              "%u", i);
        CHECK(wring_algorithm_has_board(algorithm) == (parts->ops == &wring_allreduce_shm_flags),
              "%u", i);
        CHECK(wring_algorithm_is_eager(algorithm) == (parts->ops == &wring_allreduce_eager ||
                                                      parts->ops == &wring_allreduce_shm_flags),
              "%u", i);
        CHECK(!wring_algorithm_is_direct(algorithm) || wring_algorithm_is_placed(algorithm), "%u",
              i);
        CHECK(!wring_algorithm_keeps_sums(algorithm) || wring_algorithm_has_owners(algorithm), "%u",
              i);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"rows_hold", rows_hold},
        {"hierarchies_need_equal_nodes", hierarchies_need_equal_nodes},
        {"others_hold", others_hold},
        {"small_pieces_travel_together", small_pieces_travel_together},
        {"no_reach_changes_a_bit", no_reach_changes_a_bit},
        {"predicates_fit_the_table", predicates_fit_the_table},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
