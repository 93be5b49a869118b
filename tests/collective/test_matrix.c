/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective x scheme x type x operation x codec x provider x ranks x counts, and everything else
 * that must not change a bit: every pair of values once, some at random, and some axes in full.
 * test_matrix [provider=NAME] [races] [CASE...]: all of it on one provider, not each in turn;
 * pairs and chance without what no race depends on.
 */
#include "tests/collective/matrix.h"

#include <stdlib.h>
#include <string.h>

#include "tests/collective/cover.h"
#include "tests/lib/spec_name.h"
#include "tests/lib/test.h"
#include <wring/codec.h>

#define SEED 20240607
#define RANDOM_CASES 60
#define RUN_ELEMS_MAX 20000 /* of one member's run, in collectives that have one for each */

/* the first ones go into immediate calls: no residual, units that fit the smallest slot; of them
 * the last ones, with a way back, only into allreduces */
#define ALLTOALL_CODECS 9
#define IMMEDIATE_CODECS 12
static const char *const codecs[] = {
    "none",
    "lossless:block=64",
    "bf16",
    "fp16",
    "int8:block=64",
    "onebit:block=128",
    "onebit:block=32:means=2",
    "topk:ratio=0.1:block=256",
    "qsgd:block=64",
    "fp16>none",
    "none>int8:block=64",
    "randk:ratio=0.1:block=64",
    "onebit",
    "bf16+ef",
    "fp16+ef",
    "int8+ef",
    "onebit:block=128+ef",
    "topk:ratio=0.01:select=exact+ef",
    "topk:ratio=1:block=1024",
    "onebit+ef>int8",
    "onebit+ef>lossless",
    "topk:ratio=0.1:block=256+ef>bf16",
    "none>int8:block=64+ef",
    "int8:block=64+ef>onebit:block=128+ef",
    "signsgd:block=64",
    "signum:block=64",
    "sharedint:block=64",
    "sharedint:width=16+ef",
    "randk:ratio=0.02:seed=private+ef",
    "union",
    "topkc:ratio=0.1:chunk=32:block=1024+ef",
    "dgc:ratio=0.02:block=256:clip=3:warmup=2",
    "dgc:ratio=0.1:block=256:index=packed",
    "topk:ratio=0.1:block=256:index=packed/int8:block=32+ef",
    "hashed:ratio=0.05:block=256+ef",
    "threshold:value=0.5:block=256+ef",
    "threshold:value=0.5:cap=0.2:index=packed+ef",
    "thc:block=128+ef",
    "qsgd:bits=2:norm=l2+ef",
    "natural+ef",
    "terngrad:block=96+ef",
    "terngrad:bits=8:block=96",
    "powersgd+ef",
    "powersgd:rank=1+ef",
    "bf16:round=random",
    "bounded:error=0.01:block=64",
    "bounded:error=0.001+ef",
    "int4:block=64",
    "int2:range=minmax+ef",
    "fp8:round=random:block=96+ef",
    "mxfp8:format=e5m2+ef",
    "mxfp4",
    "nvfp4:block=64+ef",
    "topk:ratio=0.2:block=256/int8:block=32+warmup:steps=2+momentum+ef",
    "sharedint:block=64+nesterov+ef",
    "int8:block=64+ef21",
    "onebit:block=128+ef:residual=bf16",
    "int8:block=64+ef:residual=int8",
    "thc:block=256:rotate=64",
    "sharedint:width=4:block=64",
    "thc:width=4:clip=2.5+ef",
    "thc:width=4:block=128:sums=saturate",
    "thc:sums=saturate+ef",
};
static const uint64_t counts[] = {0, 1, 2, 31, 33, 127, 1000, 2049, 10007, 65537, 100001};
/* of pairs: nothing, and what travels in each way: on a board, in one piece, in some, in many */
static const uint64_t counts_of_pairs[] = {0, 1, 33, 1000, 2049, 10007, 65537};
static const uint64_t counts_for_races[] = {0, 33, 2049, 10007, 40009};
static const uint64_t *sizes = counts_of_pairs; /* of pairs and chance */
/* alone, as many on each node and not, odd and a power of two, more than eight; of all counts there
 * is "every_rank_and_count" */
static const uint32_t ranks_of_pairs[] = {1, 2, 3, 5, 6, 8, 9};
static const char *providers[] = {"tcp", "shm", "auto", "tcp+fault", "shm+fault"};
static const char *const chunks[] = {"4k", "16k", "256k"};
static const char *const tiers[] = {"best", "avx2", "scalar"};
static const char *const executors[] = {"inline", "pool:2"};
static const char *const progress[] = {"thread", "caller"};
static const char *const slots[] = {"64", "4", "1"};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum dimension {
    WHAT,
    SCHEME,
    DTYPE,
    OP,
    CODEC,
    PROVIDER,
    RANKS,
    NODES,
    ELEMS,
    CHUNK,
    TIER,
    EXECUTOR,
    PROGRESS,
    SLOTS,
    MEMORY,
    STRICT,
    IN_PLACE,
    FLUSH,
    SPECIAL,
    STEPS,
    DIMENSIONS,
};

/* Types and operations that have kernels of their own count one by one; the rest, of which the test
 * "types" has all, as two more of each. */
#define OWN_DTYPES (WRING_I64 + 1)
#define OWN_OPS (WRING_MAX + 1)
#define DTYPES (OWN_DTYPES + 2)
#define OPS (OWN_OPS + 2)

static uint32_t values[DIMENSIONS] = {
    [WHAT] = WRING_MATRIX_WHATS,
    [SCHEME] = WRING_SCHEMES,
    [DTYPE] = DTYPES,
    [OP] = OPS,
    [CODEC] = COUNT(codecs),
    [PROVIDER] = COUNT(providers),
    [RANKS] = COUNT(ranks_of_pairs),
    [NODES] = 4, /* ranks of one, 0: all on this host */
    [ELEMS] = COUNT(counts_of_pairs),
    [CHUNK] = COUNT(chunks),
    [TIER] = COUNT(tiers),
    [EXECUTOR] = COUNT(executors),
    [PROGRESS] = COUNT(progress),
    [SLOTS] = COUNT(slots),
    [MEMORY] = WRING_MATRIX_MEMORIES,
    [STRICT] = 2,
    [IN_PLACE] = 2,
    [FLUSH] = 2,
    [SPECIAL] = 2,
    [STEPS] = 4,
};

static bool reduces(uint32_t what)
{
    return what == WRING_MATRIX_BUCKET || what == WRING_MATRIX_ALLREDUCE ||
           what == WRING_MATRIX_REDUCE_SCATTER;
}

static bool has_way_back(const char *codec)
{
    return strchr(codec, '>') != NULL || strncmp(codec, "sign", 4) == 0 ||
           strstr(codec, "+ef21") != NULL;
}

static bool lacks_way_back(enum wring_scheme scheme)
{
    return scheme == WRING_SCHEME_INDIVISIBLE || scheme == WRING_SCHEME_HIERARCHICAL_INDIVISIBLE;
}

/** Codecs of whole buckets are not cut, a way back wants a scheme that has one, and a ring takes
 * none. */
static bool is_refused(const char *codec, enum wring_scheme scheme)
{
    if (scheme == WRING_SCHEME_RING)
        return strcmp(codec, "none") != 0;
    bool divisible =
        scheme == WRING_SCHEME_DIVISIBLE || scheme == WRING_SCHEME_HIERARCHICAL_DIVISIBLE;
    return strncmp(codec, "powersgd", 8) == 0 ? divisible
                                              : has_way_back(codec) && lacks_way_back(scheme);
}

static bool takes(uint32_t what, enum wring_op op, enum wring_dtype dtype)
{
    return wring_op_takes(op, dtype) && (what != WRING_MATRIX_BUCKET || op != WRING_PREMUL_SUM);
}

/** Any number, which the choice alone decides. */
static uint32_t hash_of(const uint32_t *choice)
{
    uint32_t hash = 1;
    for (int d = RANKS; d < DIMENSIONS; d++)
        hash = (hash ^ choice[d]) * 2654435761u;
    return hash >> 8;
}

static enum wring_dtype dtype_of(const uint32_t *choice)
{
    uint32_t other = OWN_DTYPES + hash_of(choice) % (WRING_DTYPES - OWN_DTYPES);
    return (enum wring_dtype)(choice[DTYPE] < OWN_DTYPES ? choice[DTYPE] : other);
}

/** Of those that are for the type. */
static enum wring_op op_of(const uint32_t *choice)
{
    uint32_t op = choice[OP] < OWN_OPS ? choice[OP] : OWN_OPS + hash_of(choice) % 7;
    while (!takes(choice[WHAT], (enum wring_op)op, dtype_of(choice)))
        op = (op + 1) % WRING_OPS;
    return (enum wring_op)op;
}

/** What codecs take. */
static const enum wring_dtype codable[] = {WRING_F32, WRING_F16, WRING_BF16};

static bool is_codable(uint32_t dtype)
{
    return dtype == WRING_F32 || dtype == WRING_F16 || dtype == WRING_BF16;
}

/** What the interface does not offer is not asked for. */
static void mend(void *arg, uint32_t *choice)
{
    uint32_t what = choice[WHAT];
    (void)arg;
    if (what != WRING_MATRIX_BUCKET) {
        choice[SCHEME] = WRING_SCHEME_AUTO;
        choice[CODEC] %= what == WRING_MATRIX_ALLREDUCE ? IMMEDIATE_CODECS : ALLTOALL_CODECS;
    }
    if (choice[SCHEME] == WRING_SCHEME_RING)
        choice[CODEC] = 0;
    if (is_refused(codecs[choice[CODEC]], (enum wring_scheme)choice[SCHEME]))
        choice[SCHEME]--;
    if (choice[NODES] > 0 && strncmp(providers[choice[PROVIDER]], "shm", 3) == 0)
        choice[NODES] = 0; /* nothing leads to other hosts */
    if (!reduces(what))
        choice[OP] = WRING_SUM;
    else if (choice[OP] < OWN_OPS)
        choice[OP] = op_of(choice) < OWN_OPS ? op_of(choice) : OWN_OPS;
    if (!is_codable(choice[DTYPE]) || choice[OP] > WRING_AVG)
        choice[CODEC] = 0;
    if (what == WRING_MATRIX_BROADCAST || what == WRING_MATRIX_ALLTOALL)
        choice[IN_PLACE] = what == WRING_MATRIX_BROADCAST;
    if (choice[STRICT] && strchr(providers[choice[PROVIDER]], '+') != NULL)
        choice[STRICT] = 0; /* the wrapped device is out of the test's reach */
}

static struct wring_matrix_case case_of(const uint32_t *choice)
{
    struct wring_matrix_case c = {
        .what = (enum wring_matrix_what)choice[WHAT],
        .scheme = (enum wring_scheme)choice[SCHEME],
        .dtype = dtype_of(choice),
        .op = reduces(choice[WHAT]) ? op_of(choice) : WRING_SUM,
        .codec = codecs[choice[CODEC]],
        .provider = providers[choice[PROVIDER]],
        .ranks = ranks_of_pairs[choice[RANKS]],
        .ranks_per_node = choice[NODES],
        .elems = sizes[choice[ELEMS]],
        .chunk = chunks[choice[CHUNK]],
        .cpu = tiers[choice[TIER]],
        .executor = executors[choice[EXECUTOR]],
        .progress = progress[choice[PROGRESS]],
        .slots = slots[choice[SLOTS]],
        .memory = (enum wring_matrix_memory)choice[MEMORY],
        .strict = choice[STRICT],
        .in_place = choice[IN_PLACE],
        .flush = choice[FLUSH],
        .special = choice[SPECIAL] ? 3 : 0,
        .steps = choice[STEPS] + 1,
    };
    bool runs = wring_matrix_in_elems(&c) + wring_matrix_out_elems(&c) > 2 * c.elems;
    if (runs && c.elems > RUN_ELEMS_MAX)
        c.elems = RUN_ELEMS_MAX + c.elems % 10;
    return c;
}

static void run_choice(void *arg, const uint32_t *choice)
{
    struct wring_matrix_case c = case_of(choice);
    (void)arg;
    wring_matrix_run(&c);
}

/** Six peers, each with four pieces to send to each of six, work on eight at a time and no more. So
 *  the one that a rank needs may stand behind those that come too early for others. */
static void fewer_slots_than_members(void)
{
    const struct wring_matrix_case c = {.what = WRING_MATRIX_REDUCE_SCATTER,
                                        .ranks = 7,
                                        .elems = 20001,
                                        .dtype = WRING_F32,
                                        .op = WRING_SUM,
                                        .codec = "none",
                                        .steps = 2,
                                        .provider = "tcp",
                                        .chunk = "16k",
                                        .cpu = "best",
                                        .executor = "inline",
                                        .progress = "thread",
                                        .slots = "4"};
    for (int i = 0; i < 3; i++)
        wring_matrix_run(&c);
}

static void every_pair(void)
{
    struct wring_cover_params params = {
        .dimensions = DIMENSIONS, .seed = SEED, .mend = mend, .run = run_choice};
    memcpy(params.values, values, sizeof(values));
    size_t n = wring_cover_pairs(&params);
    printf("seed %d: %zu cases hold every pair\n", SEED, n);
}

static void random_cases(void)
{
    uint32_t state = SEED + 1, choice[DIMENSIONS];
    printf("seed %d: %d cases\n", SEED + 1, RANDOM_CASES);
    for (int i = 0; i < RANDOM_CASES; i++) {
        for (int d = 0; d < DIMENSIONS; d++)
            choice[d] = wring_test_random(&state) % values[d];
        mend(NULL, choice);
        run_choice(NULL, choice);
    }
}

static const struct wring_matrix_case plain = {
    .ranks = 3,
    .elems = 10007,
    .codec = "int8:block=64+ef",
    .op = WRING_AVG,
    .steps = 3,
    .provider = "shm",
    .chunk = "16k",
    .cpu = "best",
    .executor = "inline",
    .progress = "thread",
    .in_place = true,
};

static void every_rank_and_count(void)
{
    for (uint32_t ranks = 1; ranks <= 9; ranks++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            struct wring_matrix_case c = plain;
            c.ranks = ranks;
            c.elems = counts[i];
            c.provider = providers[(ranks + i) % 2];
            c.codec = i % 2 ? "none" : plain.codec;
            wring_matrix_run(&c);
        }
}

static void every_codec_is_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (size_t i = 0; i < COUNT(codecs); i++)
            found |= wring_test_spec_is_of(codecs[i], (*ops)->name);
        CHECK(found, "codec %s is not among the codecs of this test", (*ops)->name);
    }
}

/** A codec's jobs, each in another scheme or over another provider, and by other tiers, executors
 * and sizes of pieces; by one of the providers of each type. @return how many had all bits of the
 * definition; with sanitizers a third of them */
static unsigned run_forms(size_t codec, unsigned *n)
{
    unsigned right = 0;

    for (size_t scheme = 0; scheme < 3; scheme++)
        for (size_t p = 0; p < 2; p++) {
            struct wring_matrix_case c = plain;
            c.codec = codecs[codec];
            c.scheme = (enum wring_scheme)scheme;
            c.provider = providers[p];
            c.dtype = p == 0 ? WRING_F32 : codable[(codec + scheme) % COUNT(codable)];
            c.cpu = tiers[(codec + scheme + p) % COUNT(tiers)];
            c.executor = executors[(codec + scheme) % COUNT(executors)];
            c.chunk = chunks[(codec + p) % COUNT(chunks)];
            c.special = (codec + scheme + p) % 2 ? 2 : 0;
            bool left_out = WRING_TEST_STRIDE > 1 && (codec / 3 + scheme + 2 * p) % 3 != 0;
            if (left_out || is_refused(c.codec, c.scheme))
                continue;
            right += wring_matrix_run(&c);
            (*n)++;
        }
    return right;
}

static void every_codec_scheme_and_provider(void)
{
    unsigned n = 0, right = 0;

    for (size_t codec = 0; codec < COUNT(codecs); codec++) {
        unsigned before = n, well = run_forms(codec, &n);
        CHECK(well == n - before, "%s: %u of %u jobs had the bits of its definition", codecs[codec],
              well, n - before);
        right += well;
    }
    printf("%zu specs in %u jobs over schemes, types, providers, tiers, executors and sizes of "
           "pieces: %u had the bits of their definition\n",
           COUNT(codecs), n, right);
}

/** Nodes of two and three ranks, sums in place or in slots; each codec in a scheme that it can be
 * in, and every third one of 16 bits, too. Pairs have the others. */
static void every_codec_between_nodes(void)
{
    for (size_t codec = 0; codec < COUNT(codecs); codec++) {
        struct wring_matrix_case c = plain;
        c.codec = codecs[codec];
        c.scheme = (enum wring_scheme)(WRING_SCHEME_HIERARCHICAL + codec % 3);
        if (is_refused(c.codec, c.scheme))
            c.scheme = WRING_SCHEME_HIERARCHICAL;
        c.provider = providers[codec % 4 < 2 ? 0 : 2];
        c.ranks_per_node = 2 + (uint32_t)codec % 2;
        c.ranks = c.ranks_per_node * (2 + (uint32_t)codec / 3 % 2);
        c.special = codec % 2 ? 2 : 0;
        wring_matrix_run(&c);
        if (codec / 3 % 3 != 0)
            continue;
        c.dtype = codec % 2 == 0 ? WRING_F16 : WRING_BF16;
        c.op = codec / 9 % 2 == 0 ? WRING_SUM : WRING_AVG;
        wring_matrix_run(&c);
    }
}

/** Also where ranks on nodes are not equally many, where each is alone, or all together. */
static void every_rank_between_nodes(void)
{
    for (uint32_t ranks = 2; ranks <= 9; ranks++)
        for (uint32_t per_node = 1 + ranks % 2; per_node <= 4; per_node += 2) {
            struct wring_matrix_case c = plain;
            c.ranks = ranks;
            c.ranks_per_node = per_node;
            c.elems = counts[(ranks + per_node) % COUNT(counts)];
            c.codec = per_node % 4 < 2 ? "none" : plain.codec;
            c.scheme = WRING_SCHEME_HIERARCHICAL;
            c.provider = providers[ranks % 4 < 2 ? 0 : 2];
            wring_matrix_run(&c);
        }
}

static void every_type_between_nodes(void)
{
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_OPS; op++) {
            struct wring_matrix_case c = plain;
            bool own = dtype < OWN_DTYPES && op < OWN_OPS;
            if ((!own && (dtype * 3 + op) % 5 != 0) ||
                !takes(WRING_MATRIX_BUCKET, (enum wring_op)op, (enum wring_dtype)dtype))
                continue;
            c.dtype = (enum wring_dtype)dtype;
            c.op = (enum wring_op)op;
            c.codec = "none";
            c.ranks = 6;
            c.ranks_per_node = 2 + (uint32_t)op % 2;
            c.scheme = WRING_SCHEME_HIERARCHICAL;
            c.provider = providers[dtype % 2 ? 0 : 2];
            wring_matrix_run(&c);
        }
}

/** Types and operations, by blocks that are alike and not, in one piece and in several, in slots
 * and straight into place; by more ranks than are folded elsewhere, too. */
static void around_a_ring(void)
{
    uint32_t turn = 0;

    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_OPS; op++) {
            struct wring_matrix_case c = plain;
            bool own = dtype < OWN_DTYPES && op < OWN_OPS;
            if ((dtype + op) % (own ? 2 : 5) != 0 ||
                !takes(WRING_MATRIX_BUCKET, (enum wring_op)op, (enum wring_dtype)dtype))
                continue;
            c.dtype = (enum wring_dtype)dtype;
            c.op = (enum wring_op)op;
            c.codec = "none";
            c.scheme = WRING_SCHEME_RING;
            c.ranks = 2 + turn % 9;
            c.ranks_per_node = turn % 4 == 3 ? 3 : 0;
            c.elems = UINT64_C(1024) * c.ranks + turn % 3 * 4099;
            c.steps = 2;
            c.chunk = turn % 2 ? "4k" : "256k";
            c.memory = turn % 3 == 1 ? WRING_MATRIX_FOREIGN : WRING_MATRIX_ALLOCATED;
            c.special = turn % 4 == 1 ? 2 : 0;
            c.provider = c.ranks_per_node > 0 ? "auto" : providers[turn % COUNT(providers)];
            wring_matrix_run(&c);
            turn++;
        }
}

/** Two slices, and as many as there may be. */
static void slices_between_nodes(void)
{
    static const char *const some[] = {"none", "onebit+ef>int8", "topk:ratio=1:block=1024"};
    for (size_t i = 0; i < COUNT(some); i++) {
        struct wring_matrix_case c = plain;
        c.codec = some[i];
        c.ranks = 4;
        c.ranks_per_node = 2;
        c.elems = i % 2 ? 1200007 : 600011;
        c.steps = 2;
        c.chunk = "256k";
        c.scheme = WRING_SCHEME_HIERARCHICAL;
        c.provider = "auto";
        wring_matrix_run(&c);
    }
}

/** Matrices of which rounds find a rank; by all ranks and by nodes'. */
static void matrices(void)
{
    static const char *const some[] = {"powersgd", "powersgd+ef", "powersgd:rank=8",
                                       "powersgd:rank=1+ef"};
    for (size_t each = 0; each < 16; each++) {
        struct wring_matrix_case c = plain;
        size_t i = each % 8;
        c.codec = some[each / 8 * 2 + i % 2];
        c.op = i / 2 % 2 == 0 ? WRING_SUM : WRING_AVG;
        c.scheme = i / 4 % 2 == 0 ? WRING_SCHEME_AUTO : WRING_SCHEME_HIERARCHICAL;
        c.ranks = i < 4 ? 2 + (uint32_t)i : 4;
        c.ranks_per_node = i < 4 ? 0 : 2;
        c.rows = 48;
        c.elems = c.rows * 83;
        c.provider = providers[i < 4 ? i % 2 : 2];
        c.special = i % 4 == 3 ? 2 : 0;
        wring_matrix_run(&c);
    }
}

/** Votes of evenly many ranks are often a draw, which takes a random sign that all of them know. */
static void draws(void)
{
    for (uint32_t ranks = 2; ranks <= 10; ranks += 4)
        for (int what = WRING_MATRIX_BUCKET; what <= WRING_MATRIX_ALLREDUCE; what++)
            for (uint32_t scheme = 0; scheme < 2; scheme++) {
                struct wring_matrix_case c = plain;
                c.what = (enum wring_matrix_what)what;
                c.codec = "signsgd:block=32";
                c.scheme = scheme > 0 && what == WRING_MATRIX_BUCKET ? WRING_SCHEME_HIERARCHICAL
                                                                     : WRING_SCHEME_AUTO;
                c.ranks = ranks;
                c.ranks_per_node = scheme > 0 ? ranks / 2 : 0;
                c.elems = 1000;
                c.op = scheme > 0 ? WRING_AVG : WRING_SUM;
                c.provider = scheme > 0 ? "tcp" : "shm";
                wring_matrix_run(&c);
            }
}

/** Every codec of each collective, on devices and in pieces of several sizes and types. */
static void every_call_and_codec(void)
{
    for (int what = WRING_MATRIX_REDUCE_SCATTER; what < WRING_MATRIX_WHATS; what++)
        for (size_t codec = 0; codec < ALLTOALL_CODECS; codec++)
            for (size_t i = 0; i < COUNT(chunks); i++) {
                struct wring_matrix_case c = plain;
                c.what = (enum wring_matrix_what)what;
                c.codec = codecs[codec];
                c.dtype = codable[(codec + i + (size_t)what) % COUNT(codable)];
                c.chunk = chunks[i];
                c.ranks = 2 + (uint32_t)(codec + i) % 4;
                c.provider = providers[(codec + i) % 2];
                c.special = (codec + i) % 3 == 0 ? 2 : 0;
                c.in_place = what != WRING_MATRIX_ALLTOALL && i % 2 == 0;
                wring_matrix_run(&c);
            }
}

/** Many pieces of 256k: buckets' of numbers, of codes of a fixed size, of any, and of two kinds,
 * and those of an allreduce. Other calls have a few. */
static void large(void)
{
    static const char *const some[] = {"none", "int8:block=64+ef", "lossless:block=64",
                                       "topk:ratio=0.1:block=256+ef>bf16"};
    struct wring_matrix_case c = plain;
    c.elems = 2000003;
    c.chunk = "256k";
    c.ranks = 4;
    c.steps = 2;
    for (size_t i = 0; i < COUNT(some); i++) {
        c.codec = some[i];
        wring_matrix_run(&c);
    }
    c.in_place = false;
    c.codec = "bf16";
    for (int what = WRING_MATRIX_ALLREDUCE; what < WRING_MATRIX_WHATS; what++) {
        c.what = (enum wring_matrix_what)what;
        c.elems = what == WRING_MATRIX_ALLREDUCE   ? 2000003
                  : what == WRING_MATRIX_BROADCAST ? 500009
                                                   : 200003;
        wring_matrix_run(&c);
    }
}

/** On that provider only, wrapped now and then. */
static void use_only(const char *provider)
{
    static char wrapped[64];
    snprintf(wrapped, sizeof(wrapped), "%s+fault", provider);
    for (size_t i = 0; i < COUNT(providers); i++)
        providers[i] = strchr(providers[i], '+') != NULL ? wrapped : provider;
}

/** Arithmetic is each thread's own; of jobs of all sizes there is a case of their own. */
static void use_for_races(void)
{
    values[DTYPE] = values[TIER] = values[FLUSH] = values[SPECIAL] = 1;
    values[OP] = 2; /* a sum, and what divides it */
    values[RANKS] = 5;
    values[ELEMS] = COUNT(counts_for_races);
    sizes = counts_for_races;
}

/** @return whether the first argument begins so; then it is taken away */
static bool take(int *argc, char ***argv, const char *begin)
{
    if (*argc < 2 || strncmp((*argv)[1], begin, strlen(begin)) != 0)
        return false;
    (*argc)--;
    (*argv)++;
    return true;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_codec_is_listed", every_codec_is_listed},
        {"every_codec_scheme_and_provider", every_codec_scheme_and_provider},
        {"every_codec_between_nodes", every_codec_between_nodes},
        {"every_rank_between_nodes", every_rank_between_nodes},
        {"every_type_between_nodes", every_type_between_nodes},
        {"around_a_ring", around_a_ring},
        {"slices_between_nodes", slices_between_nodes},
        {"matrices", matrices},
        {"draws", draws},
        {"every_call_and_codec", every_call_and_codec},
        {"every_rank_and_count", every_rank_and_count},
        {"fewer_slots_than_members", fewer_slots_than_members},
        {"every_pair", every_pair},
        {"random_cases", random_cases},
        {"large", large},
        {NULL, NULL},
    };
    if (take(&argc, &argv, "provider="))
        use_only(strchr(argv[0], '=') + 1);
    if (take(&argc, &argv, "races"))
        use_for_races();
    return wring_test_main(argc, argv, cases);
}
