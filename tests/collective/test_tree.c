/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More than eight members: the order of a reduction is the tree of FORMAT.md, bit for bit, whatever
 * provider, scheme, size, chunk or executor carries it. The oracle computes it from its definition.
 * test_tree [provider=NAME] [CASE...]: sums exchanged two by two go by that one, not each in turn.
 */
#include <string.h>

#include "tests/collective/matrix.h"
#include "tests/lib/elements.h"
#include "tests/lib/test.h"

static const struct wring_matrix_case plain = {
    .what = WRING_MATRIX_BUCKET,
    .ranks = 9,
    .elems = 3001,
    .codec = "none",
    .op = WRING_SUM,
    .steps = 2,
    .provider = "shm",
    .chunk = "4k",
    .cpu = "best",
    .executor = "inline",
    .progress = "thread",
    .in_place = true,
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const uint32_t counts[] = {9, 12, 16, 17, 33};

static const char *only; /* provider; NULL: each in turn */

/** Sanitizers, and another device, see in some counts what they would see in all: in those left
 * there are powers of two, members folded into others, and fewer and more than eight. */
static bool is_left_out(uint32_t n)
{
    return (WRING_TEST_STRIDE > 1 || only != NULL) && n % 3 != 2;
}

/** Of whole numbers any order gives the same bits: a third of their operations is enough. */
static bool is_left_to_others(int dtype, int op)
{
    return (dtype >= WRING_I32 && dtype <= WRING_BYTE && (dtype + op) % 3 != 0) ||
           !wring_op_takes((enum wring_op)op, (enum wring_dtype)dtype);
}

/** What these tests would not see otherwise: a fold from the left gives other bits. */
static void a_fold_would_differ(void)
{
    for (size_t i = 0; i < COUNT(counts); i++) {
        struct wring_matrix_case c = plain;
        static float inputs[33][3001], tree[3001];
        const void *runs[33];
        unsigned unlike = 0;

        c.ranks = counts[i];
        for (uint32_t r = 0; r < c.ranks; r++) {
            wring_matrix_input(&c, r, 0, inputs[r]);
            runs[r] = inputs[r];
        }
        wring_test_reduce(WRING_F32, WRING_SUM, runs, c.ranks, c.elems, tree);
        for (uint64_t e = 0; e < c.elems; e++) {
            float fold = inputs[0][e];
            for (uint32_t r = 1; r < c.ranks; r++)
                fold += inputs[r][e];
            unlike += memcmp(&fold, &tree[e], sizeof(fold)) != 0;
        }
        CHECK(unlike > c.elems / 100, "%u ranks: %u of the sums differ", c.ranks, unlike);
    }
}

/** Boards of small sums, shards of large ones; over tcp in one hop, and in two. */
static void every_count_and_size(void)
{
    static const uint64_t sizes[] = {1, 200, 3001, 40009};
    for (size_t i = 0; i < COUNT(counts); i++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            struct wring_matrix_case c = plain;
            c.ranks = counts[i];
            c.elems = sizes[s];
            c.provider = (i + s) % 2 ? "tcp" : "shm";
            c.what = s % 2 ? WRING_MATRIX_ALLREDUCE : WRING_MATRIX_BUCKET;
            c.op = i % 2 ? WRING_AVG : WRING_SUM;
            wring_matrix_run(&c);
        }
}

/** Each in turn; all of them agree with the oracle, and so with each other. */
static void whatever_carries_it(void)
{
    static const char *const providers[] = {"shm", "tcp", "shm+fault", "auto"};
    static const char *const chunks[] = {"4k", "16k", "256k"};
    static const char *const executors[] = {"inline", "pool:2"};
    for (uint32_t i = 0; i < 12; i++) {
        struct wring_matrix_case c = plain;
        c.ranks = counts[i % 3];
        c.elems = 30011;
        c.provider = providers[i % COUNT(providers)];
        c.chunk = chunks[i % COUNT(chunks)];
        c.executor = executors[i / 2 % 2];
        c.progress = i % 5 ? "thread" : "caller";
        c.cpu = i % 4 == 3 ? "scalar" : "best";
        c.scheme = (enum wring_scheme)(i % 3);
        c.memory = (enum wring_matrix_memory)(i % WRING_MATRIX_MEMORIES);
        c.flush = i % 2;
        wring_matrix_run(&c);
    }
}

static void every_type_and_operation(void)
{
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_OPS; op++) {
            struct wring_matrix_case c = plain;
            if (op == WRING_PREMUL_SUM || is_left_to_others(dtype, op))
                continue;
            c.dtype = (enum wring_dtype)dtype;
            c.op = (enum wring_op)op;
            c.ranks = (dtype + op) % 2 ? 9 : 12;
            c.elems = op % 2 ? 1500 : 20011;
            c.what = op < 2 ? WRING_MATRIX_REDUCE_SCATTER : WRING_MATRIX_BUCKET;
            c.elems = c.what == WRING_MATRIX_REDUCE_SCATTER ? c.elems / c.ranks : c.elems;
            c.provider = op % 2 ? "tcp" : "shm";
            c.special = dtype != WRING_F32 && op > 1;
            wring_matrix_run(&c);
        }
}

/** Sums exchanged two by two, all of them or halves: of all types, whose sums travel as they are or
 *  in float32. */
static void two_by_two(void)
{
    static const char *const providers[] = {"tcp", "shm+fault", "tcp+fault"};
    static const uint32_t ranks[] = {9, 11, 16};
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_OPS; op++) {
            struct wring_matrix_case c = plain;
            if (is_left_to_others(dtype, op) || (only != NULL && (dtype + op * 2) % 3 != 0))
                continue;
            c.dtype = (enum wring_dtype)dtype;
            c.op = (enum wring_op)op;
            c.what = (dtype + op) % 2 || op == WRING_PREMUL_SUM ? WRING_MATRIX_ALLREDUCE
                                                                : WRING_MATRIX_BUCKET;
            c.ranks = ranks[(dtype + op) % COUNT(ranks)];
            c.provider = only != NULL ? only : providers[(dtype * 2 + op) % COUNT(providers)];
            c.memory = (enum wring_matrix_memory)((dtype + op * 2) % WRING_MATRIX_MEMORIES);
            c.in_place = op % 2;
            c.strict = (dtype + op) % 3 == 0;
            c.special = dtype != WRING_F32 && op > 1;
            c.flush = op % 3 == 0;
            c.elems = (dtype + op / 2) % 2 ? 1500 : 20011;
            wring_matrix_run(&c);
        }
}

/** Some have a member folded into theirs, most of them, one, or none. Calls go so over shm, too. */
static void every_count_two_by_two(void)
{
    static const char *const providers[] = {"tcp", "shm", "shm+fault"};

    for (uint32_t n = 1; n <= 64; n += n < 17 ? 1 : n < 33 ? 16 : 31) {
        struct wring_matrix_case c = plain;
        if (is_left_out(n))
            continue;
        c.ranks = n;
        c.provider = only != NULL ? only : providers[n / 2 % COUNT(providers)];
        c.what = n % 3 ? WRING_MATRIX_ALLREDUCE : WRING_MATRIX_BUCKET;
        c.dtype = n % 2 ? WRING_F32 : WRING_BF16;
        c.op = n % 3 ? WRING_AVG : WRING_SUM;
        c.elems = n < 33 ? 9007 : 2011;
        wring_matrix_run(&c);
        c.elems = n * 5; /* some halves are empty */
        wring_matrix_run(&c);
        c.elems = n < 33 && n % 3 == 2 ? 70001 : 20011;
        c.progress = "caller";
        wring_matrix_run(&c);
    }
}

/** No order there: from member to member, in one chunk and in many. */
static void broadcasts(void)
{
    for (uint32_t n = 2; n <= 33; n += n < 17 ? 1 : 16) {
        struct wring_matrix_case c = plain;
        c.what = WRING_MATRIX_BROADCAST;
        c.ranks = n;
        c.provider = only != NULL ? only : n % 2 ? "tcp" : "shm+fault";
        c.memory = (enum wring_matrix_memory)(n % WRING_MATRIX_MEMORIES);
        c.in_place = n % 3 == 0;
        c.steps = 3;
        c.elems = n % 4 == 0 ? 0 : 7;
        wring_matrix_run(&c);
        c.elems = 20011;
        wring_matrix_run(&c);
    }
}

/** No order there, either: pieces that travel together, and those that are too large for it. */
static void small_pieces(void)
{
    static const char *const providers[] = {"tcp", "shm", "shm+fault"};
    static const uint64_t elems[] = {1, 7, 60, 300, 1500, 5000};

    /* of 33 and of 64 there are equally many rounds */
    for (uint32_t n = 9; n <= 33; n += n < 17 ? 1 : 16)
        for (int what = WRING_MATRIX_ALLGATHER; what <= WRING_MATRIX_ALLTOALL; what++) {
            struct wring_matrix_case c = plain;
            if (is_left_out(n))
                continue;
            c.what = (enum wring_matrix_what)what;
            c.ranks = n;
            c.provider = only != NULL ? only : providers[(n + (uint32_t)what) % COUNT(providers)];
            c.memory = (enum wring_matrix_memory)(n % WRING_MATRIX_MEMORIES);
            c.in_place = n % 2 && what == WRING_MATRIX_ALLGATHER;
            c.strict = n % 3 == 0;
            c.chunk = "256k";
            c.dtype = n % 2 ? WRING_F32 : WRING_I16;
            c.steps = 3;
            c.progress = n % 4 ? "caller" : "thread";
            c.elems = elems[n % (n < 18 ? COUNT(elems) : 3)];
            wring_matrix_run(&c);
            c.elems = elems[(n + 2) % (n < 18 ? COUNT(elems) : 3)];
            c.chunk = "4k";
            wring_matrix_run(&c);
        }
}

/** Codes are decoded and added in that order: of fixed size, of any, and of the whole tensor. */
static void codes(void)
{
    static const char *const codecs[] = {
        "bf16",           "int8:block=64+ef", "onebit:block=128+ef", "topk:ratio=0.1:block=256",
        "onebit+ef>int8", "lossless:block=64"};
    for (uint32_t i = 0; i < COUNT(codecs); i++) {
        struct wring_matrix_case c = plain;
        c.codec = codecs[i];
        c.ranks = counts[i % 4];
        c.elems = 20011;
        c.chunk = "16k";
        c.provider = i % 2 ? "tcp" : "shm";
        c.executor = i % 3 ? "inline" : "pool:2";
        c.op = i % 2 ? WRING_AVG : WRING_SUM;
        c.scheme =
            i % 2 && strchr(c.codec, '>') == NULL ? WRING_SCHEME_INDIVISIBLE : WRING_SCHEME_AUTO;
        wring_matrix_run(&c);
    }
}

/** Small ones of all go to all through other members: of fixed size, of any, and of the tensor. */
static void small_codes(void)
{
    static const char *const codecs[] = {"bf16", "int8:block=64+ef", "onebit:block=128+ef",
                                         "topk:ratio=0.1+ef", "lossless:block=64"};
    static const uint64_t elems[] = {1, 100, 777, 0};

    for (uint32_t n = 9, i = 0; n <= 33; n += n < 17 ? 1 : 16, i++) {
        struct wring_matrix_case c = plain;
        if (is_left_out(n))
            continue;
        c.codec = codecs[i % COUNT(codecs)];
        c.ranks = n;
        c.elems = elems[i % COUNT(elems)];
        c.chunk = "256k";
        c.steps = 3;
        c.provider = only != NULL ? only : i % 2 ? "tcp" : "shm+fault";
        c.executor = i % 3 ? "inline" : "pool:2";
        c.progress = i % 4 ? "caller" : "thread";
        c.op = i % 2 ? WRING_AVG : WRING_SUM;
        c.strict = i % 3 == 0;
        c.scheme = WRING_SCHEME_INDIVISIBLE;
        wring_matrix_run(&c);
        c.elems = elems[(i + 1) % COUNT(elems)];
        c.what = WRING_MATRIX_ALLREDUCE;
        c.codec = "topk:ratio=0.1";
        c.scheme = WRING_SCHEME_AUTO;
        wring_matrix_run(&c);
    }
}

/** Within a node of nine, and between nine nodes: each has a tree of its own. */
static void hierarchically(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct wring_matrix_case c = plain;
        c.ranks = 18;
        c.ranks_per_node = i % 2 ? 9 : 2;
        c.elems = 5003;
        c.provider = "auto";
        c.codec = i < 2 ? "none" : "int8:block=64";
        c.op = WRING_AVG;
        c.scheme = WRING_SCHEME_HIERARCHICAL;
        wring_matrix_run(&c);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_fold_would_differ", a_fold_would_differ},
        {"every_count_and_size", every_count_and_size},
        {"whatever_carries_it", whatever_carries_it},
        {"every_type_and_operation", every_type_and_operation},
        {"two_by_two", two_by_two},
        {"every_count_two_by_two", every_count_two_by_two},
        {"broadcasts", broadcasts},
        {"small_pieces", small_pieces},
        {"codes", codes},
        {"small_codes", small_codes},
        {"hierarchically", hierarchically},
        {NULL, NULL},
    };
    if (argc > 1 && strncmp(argv[1], "provider=", 9) == 0) {
        only = argv[1] + 9;
        argc--, argv++;
    }
    return wring_test_main(argc, argv, cases);
}
