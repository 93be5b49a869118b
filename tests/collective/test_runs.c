/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with a root, and those with runs of any lengths: of 1 to 9 members, and of many, out of
 * place and in place, with a codec that wants each context to be right and without, against what
 * one thread computes. What must not be written to is looked at as well.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/sealed.h"
#include "tests/lib/test.h"

#define MEMBERS_FEW 9
#define MEMBERS_MAX 64
#define WAIT_NS (60ull * 1000000000)
#define CANARY 0x6B
#define CANARIES 64 /* bytes behind what a call may write to */
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum kind {
    REDUCE,
    GATHER,
    SCATTER,
    ALLGATHERV,
    REDUCE_SCATTERV,
    ALLTOALLV,
    KINDS
};

static const char *const names[] = {"reduce",     "gather",          "scatter",
                                    "allgatherv", "reduce-scatterv", "alltoallv"};

/** How long runs are, of at most `elems`. */
enum pattern {
    EVEN,
    UNEVEN,
    ONE_ALONE,
    NOTHING,
    PATTERNS
};

struct call {
    enum kind kind;
    uint32_t members, me, root;
    uint64_t elems;
    enum pattern pattern;
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec;
    bool in_place, asks;        /* for a request */
    uint64_t runs[MEMBERS_MAX]; /* of all members */
    uint64_t to[MEMBERS_MAX];   /* alltoallv: what this one sends */
    uint64_t from[MEMBERS_MAX]; /* and what it is sent */
};

static const char *text_of(const struct call *c, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s of %u members, root %u, %llu elems of %s, pattern %d, %s, %s%s",
             names[c->kind], c->members, c->root, (unsigned long long)c->elems,
             wring_dtype_name(c->dtype), (int)c->pattern, wring_op_name(c->op),
             c->codec != NULL ? c->codec : "raw", c->in_place ? ", in place" : "");
    return text;
}

static uint64_t run_of(const struct call *c, uint32_t member)
{
    switch (c->pattern) {
    case EVEN:
        return c->elems;
    case UNEVEN: /* member 1 has nothing */
        return member == 1 ? 0 : c->elems * (member + 1) / c->members;
    case ONE_ALONE:
        return member + 1 == c->members ? c->elems : 0;
    case NOTHING:
    case PATTERNS:
        break;
    }
    return 0;
}

/** What a member sends another. */
static uint64_t pair_of(const struct call *c, uint32_t from, uint32_t to)
{
    return c->pattern == UNEVEN ? c->elems * ((from * 3 + to * 5) % 4) / 3
                                : run_of(c, (from + to) % c->members);
}

static uint64_t total(const uint64_t *runs, uint32_t n)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < n; i++)
        elems += runs[i];
    return elems;
}

static void lay_out(struct call *c)
{
    for (uint32_t i = 0; i < c->members; i++) {
        c->runs[i] = run_of(c, i);
        c->to[i] = pair_of(c, c->me, i);
        c->from[i] = pair_of(c, i, c->me);
    }
}

static uint64_t in_elems(const struct call *c, uint32_t member)
{
    uint64_t elems = 0;
    switch (c->kind) {
    case SCATTER:
        return member == c->root ? c->elems * c->members : 0;
    case ALLGATHERV:
        return c->runs[member];
    case REDUCE_SCATTERV:
        return total(c->runs, c->members);
    case ALLTOALLV:
        for (uint32_t i = 0; i < c->members; i++)
            elems += pair_of(c, member, i);
        return elems;
    default:
        return c->elems;
    }
}

static uint64_t out_elems(const struct call *c)
{
    bool root = c->me == c->root;
    switch (c->kind) {
    case REDUCE:
        return root ? c->elems : 0;
    case GATHER:
        return root ? c->elems * c->members : 0;
    case SCATTER:
        return c->elems;
    case ALLGATHERV:
        return total(c->runs, c->members);
    case REDUCE_SCATTERV:
        return c->runs[c->me];
    default:
        return total(c->from, c->members);
    }
}

/** What a member contributes. The caller frees it. */
static uint8_t *input_of(const struct call *c, uint32_t member)
{
    uint64_t elems = in_elems(c, member);
    uint8_t *data = malloc((elems + 1) * wring_dtype_bytes(c->dtype));
    wring_test_fill(c->dtype, data, elems, WRING_TEST_PLAIN, 1 + member + (uint32_t)c->kind * 16);
    return data;
}

/** Where this member's part of what a member has begins, and how long it is. */
static uint64_t part_of(const struct call *c, uint32_t member, uint64_t *begin)
{
    *begin = 0;
    switch (c->kind) {
    case SCATTER:
        *begin = c->elems * c->me;
        return c->elems;
    case REDUCE_SCATTERV:
        *begin = total(c->runs, c->me);
        return c->runs[c->me];
    case ALLTOALLV:
        for (uint32_t i = 0; i < c->me; i++)
            *begin += pair_of(c, member, i);
        return c->from[member];
    default:
        return in_elems(c, member);
    }
}

/** What this member must end with. */
static void expect(const struct call *c, uint8_t *want)
{
    size_t bytes = wring_dtype_bytes(c->dtype);
    bool reduces = c->kind == REDUCE || c->kind == REDUCE_SCATTERV;
    uint8_t *inputs[MEMBERS_MAX];
    const void *parts[MEMBERS_MAX];
    uint64_t begin, n = 0, at = 0;

    for (uint32_t i = 0; i < c->members; i++) {
        inputs[i] = input_of(c, i);
        n = part_of(c, i, &begin);
        parts[i] = inputs[i] + begin * bytes;
        if (reduces || (c->kind == SCATTER && i != c->root))
            continue;
        memcpy(want + at * bytes, parts[i], n * bytes);
        at += n;
    }
    if (reduces && c->members > 1)
        wring_test_reduce(c->dtype, c->op, parts, c->members, n, want);
    else if (reduces)
        memcpy(want, parts[0], n * bytes);
    for (uint32_t i = 0; i < c->members; i++)
        free(inputs[i]);
}

static enum wring_status start(struct wring_group *group, const struct call *c, const void *in,
                               void *out, struct wring_request **request)
{
    const struct wring_call how = {.codec = c->codec};
    switch (c->kind) {
    case REDUCE:
        return wring_reduce(group, in, out, c->elems, c->dtype, c->op, c->root, &how, request);
    case GATHER:
        return wring_gather(group, in, out, c->elems, c->dtype, c->root, &how, request);
    case SCATTER:
        return wring_scatter(group, in, out, c->elems, c->dtype, c->root, &how, request);
    case ALLGATHERV:
        return wring_allgatherv(group, in, out, c->runs, c->dtype, &how, request);
    case REDUCE_SCATTERV:
        return wring_reduce_scatterv(group, in, out, c->runs, c->dtype, c->op, &how, request);
    case ALLTOALLV:
        return wring_alltoallv(group, in, c->to, out, c->from, c->dtype, &how, request);
    case KINDS:
        break;
    }
    return WRING_ERR_INVALID;
}

static enum wring_status run_call(struct wring_group *group, const struct call *c, const void *in,
                                  void *out)
{
    struct wring_result result = WRING_RESULT_INIT;
    struct wring_request *request;
    char text[256];

    if (!c->asks)
        return start(group, c, in, out, NULL);
    enum wring_status status = start(group, c, in, out, &request);
    if (status != WRING_OK)
        return status;
    status = wring_request_wait(request, WAIT_NS, &result);
    CHECK(result.bytes == out_elems(c) * wring_dtype_bytes(c->dtype), "%llu bytes of a result: %s",
          (unsigned long long)result.bytes, text_of(c, text, sizeof(text)));
    return status;
}

/** Where `in` lies in the memory of both, or `out`. */
static void overlay(const struct call *c, uint8_t *both, uint8_t **in, uint8_t **out)
{
    size_t bytes = wring_dtype_bytes(c->dtype);
    bool spreads = c->kind == GATHER || c->kind == ALLGATHERV;
    uint64_t own = c->kind == REDUCE                         ? 0
                   : c->kind == GATHER || c->kind == SCATTER ? c->elems * c->me
                                                             : total(c->runs, c->me);
    *in = spreads ? both + own * bytes : both;
    *out = spreads ? both : both + own * bytes;
}

static bool can_be_in_place(const struct call *c)
{
    bool rooted = c->kind == REDUCE || c->kind == GATHER || c->kind == SCATTER;
    return c->kind != ALLTOALLV && (!rooted || c->me == c->root);
}

static void check(struct wring_group *group, struct call *c)
{
    size_t bytes = wring_dtype_bytes(c->dtype);
    size_t in_bytes = in_elems(c, c->me) * bytes, out_bytes = out_elems(c) * bytes;
    uint8_t *mine = input_of(c, c->me), *want = malloc(out_bytes + 1);
    uint8_t *in_memory = malloc(in_bytes + out_bytes + CANARIES);
    uint8_t *out_memory = malloc(out_bytes + CANARIES);
    uint8_t *in = in_memory, *out = out_memory;
    bool in_place = c->in_place && can_be_in_place(c);
    char text[256];

    memset(out_memory, CANARY, out_bytes + CANARIES);
    if (in_place)
        overlay(c, in_memory, &in, &out);
    memcpy(in, mine, in_bytes);
    uint64_t mode = wring_fp_enter();
    if (out_bytes > 0)
        expect(c, want);
    wring_fp_leave(mode);
    bool none = out_bytes == 0 && !c->in_place;
    enum wring_status status = run_call(group, c, in_bytes > 0 ? in : NULL, none ? NULL : out);
    CHECK(status == WRING_OK, "member %u: %s: %s", c->me, wring_status_text(status),
          text_of(c, text, sizeof(text)));
    CHECK(memcmp(out, want, out_bytes) == 0, "member %u: %s", c->me,
          text_of(c, text, sizeof(text)));
    CHECK(in_place || memcmp(in, mine, in_bytes) == 0, "member %u: its input was written to: %s",
          c->me, text_of(c, text, sizeof(text)));
    for (size_t i = 0; i < CANARIES && !in_place; i++)
        CHECK(out_memory[out_bytes + i] == CANARY, "member %u: byte %zu behind out: %s", c->me, i,
              text_of(c, text, sizeof(text)));
    free(mine);
    free(want);
    free(in_memory);
    free(out_memory);
}

/** One that the type has, and that needs no factor. */
static enum wring_op op_of(enum wring_dtype dtype, uint32_t step)
{
    enum wring_op op = (enum wring_op)(step % WRING_OPS);
    while (op == WRING_PREMUL_SUM || !wring_op_takes(op, dtype))
        op = (enum wring_op)((op + 1) % WRING_OPS);
    return op;
}

/** A small one, one of several pieces, and one that ends with a full piece of 4 KiB. */
static const uint64_t sizes[] = {1, 45, 1024, 5003};

static void every_kind_and_pattern(struct wring_session *session, uint32_t rank, void *arg)
{
    uint32_t n = wring_session_size(session), first = *(const uint32_t *)arg, step = n;
    for (int kind = 0; kind < KINDS; kind++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            for (size_t size = first; size < COUNT(sizes); size += 2, step++) {
                bool coded = kind != ALLTOALLV && step % 2 == 1;
                enum wring_dtype any = (enum wring_dtype)(step / 2 % WRING_DTYPES);
                struct call c = {
                    .kind = (enum kind)kind,
                    .members = n,
                    .me = rank,
                    .root = step % n,
                    .elems = sizes[size],
                    .pattern = (enum pattern)pattern,
                    .dtype = coded ? WRING_F32 : any,
                    .op = coded ? (enum wring_op)(step / 2 % 2) : op_of(any, step),
                    .codec = coded ? "sealed" : NULL,
                    .in_place = step / 2 % 2,
                    .asks = step / 4 % 2,
                };
                lay_out(&c);
                check(wring_session_world(session), &c);
            }
}

/** Raw calls with a root, of each member in turn or of some. */
static void rooted(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t elems[] = {1, 45, 700, 5003};
    uint32_t n = wring_session_size(session), step = n;
    (void)arg;

    for (uint32_t root = 0; root<n; root += n> 17 ? 15 : 1)
        for (int kind = REDUCE; kind <= SCATTER; kind++, step++) {
            enum wring_dtype dtype = (enum wring_dtype)(step % WRING_DTYPES);
            struct call c = {
                .kind = (enum kind)kind,
                .members = n,
                .me = rank,
                .root = root,
                .elems = elems[(step + root) % (n > 17 ? 2 : COUNT(elems))],
                .dtype = dtype,
                .op = op_of(dtype, step / 3),
                .in_place = step % 2,
                .asks = step / 2 % 2,
            };
            lay_out(&c);
            check(wring_session_world(session), &c);
        }
}

static void large(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)arg;
    for (int kind = 0; kind < KINDS; kind++)
        for (int coded = 0; coded < (kind == ALLTOALLV ? 1 : 2); coded++) {
            struct call c = {
                .kind = (enum kind)kind,
                .members = wring_session_size(session),
                .me = rank,
                .root = 1,
                .elems = 100007,
                .pattern = UNEVEN,
                .codec = coded ? "sealed" : NULL,
                .in_place = coded == 0,
            };
            lay_out(&c);
            check(wring_session_world(session), &c);
        }
}

/** What a lossy codec makes of a sum, too, is the same as in an allreduce. */
static void reduce_is_allreduce(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"none", "bf16", "int8:block=64", "onebit", "bf16>int8"};
    static const uint64_t elems[] = {0, 3, 1000, 40007};
    struct wring_group *world = wring_session_world(session);
    void *in = malloc(40007 * sizeof(float)), *sum = malloc(40007 * sizeof(float));
    void *out = malloc(40007 * sizeof(float));
    uint32_t n = wring_session_size(session), step = 0;
    (void)arg;

    for (size_t c = 0; c < COUNT(codecs); c++)
        for (size_t i = 0; i < COUNT(elems); i++, step++) {
            static const enum wring_op ops[] = {WRING_SUM, WRING_AVG, WRING_PREMUL_SUM};
            enum wring_op op = ops[step % COUNT(ops)];
            double factor = op == WRING_PREMUL_SUM ? 0.25 + rank : 0;
            const struct wring_call how = {.codec = codecs[c], .factor = factor};
            uint32_t root = step % n;
            enum wring_dtype dtype = step / 2 % 2 ? WRING_F16 : WRING_F32;
            size_t bytes = elems[i] * wring_dtype_bytes(dtype);
            wring_test_fill(dtype, in, elems[i], WRING_TEST_PLAIN, 1 + rank);
            enum wring_status a = wring_allreduce(world, in, sum, elems[i], dtype, op, &how, NULL);
            enum wring_status b = wring_reduce(world, in, rank == root ? out : NULL, elems[i],
                                               dtype, op, root, &how, NULL);
            CHECK(a == WRING_OK && b == WRING_OK, "%s of %llu: %s, and an allreduce: %s", codecs[c],
                  (unsigned long long)elems[i], wring_status_text(b), wring_status_text(a));
            CHECK(rank != root || memcmp(sum, out, bytes) == 0, "%s of %llu, %u members", codecs[c],
                  (unsigned long long)elems[i], n);
        }
    free(in);
    free(sum);
    free(out);
}

/** Roots that come and go, with requests under way: members run ahead of each other. */
static void many_under_way(struct wring_session *session, uint32_t rank, void *arg)
{
    enum {
        CALLS = 24,
        ELEMS = 700
    };
    int32_t in[ELEMS], (*out)[ELEMS * 13] = malloc(CALLS * sizeof(*out));
    struct wring_group *world = wring_session_world(session);
    struct wring_request *requests[CALLS];
    uint32_t n = wring_session_size(session);
    (void)arg;

    for (uint32_t i = 0; i < ELEMS; i++)
        in[i] = (int32_t)(rank * 10000 + i);
    for (uint32_t k = 0; k < CALLS; k++) {
        enum wring_status status =
            k % 2 ? wring_gather(world, in, out[k], ELEMS, WRING_I32, k / 2 % n, NULL, &requests[k])
                  : wring_reduce(world, in, out[k], ELEMS, WRING_I32, WRING_MAX, k / 2 % n, NULL,
                                 &requests[k]);
        REQUIRE(status == WRING_OK, "call %u: %s", k, wring_status_text(status));
    }
    for (uint32_t k = CALLS; k-- > 0;) {
        CHECK(wring_request_wait(requests[k], WAIT_NS, NULL) == WRING_OK, "wait %u", k);
        if (k / 2 % n != rank)
            continue;
        for (uint32_t i = 0; i < ELEMS * (k % 2 ? n : 1); i++)
            REQUIRE(out[k][i] == (int32_t)((k % 2 ? i / ELEMS : n - 1) * 10000 + i % ELEMS),
                    "call %u, element %u: %d", k, i, out[k][i]);
    }
    free(out);
}

static void run_with(uint32_t ranks, const char *const *settings,
                     void (*part)(struct wring_session *, uint32_t, void *), void *arg)
{
    struct wring_test_job job = {
        .ranks = ranks, .settings = settings, .run = part, .arg = arg, .codecs = wring_test_sealed};
    wring_test_run_ranks(&job);
}

static void run(uint32_t ranks, const char *const *settings,
                void (*part)(struct wring_session *, uint32_t, void *))
{
    run_with(ranks, settings, part, NULL);
}

/** Of each number of members one provider has these sizes, and the other one those. */
static void every_number(const char *const *settings, uint32_t first)
{
    for (uint32_t ranks = 1; ranks <= MEMBERS_FEW; ranks++) {
        uint32_t size = (first + ranks) % 2;
        run_with(ranks, settings, every_kind_and_pattern, &size);
    }
}

static const char *const over_tcp[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller",
                                       "WRING_CHUNK_BYTES=4k", "WRING_FLAT_BYTES=512", NULL};
static const char *const over_shm[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k",
                                       "WRING_FLAT_BYTES=512", "WRING_WINDOW=2", NULL};
static const char *const over_slow_shm[] = {"WRING_PROVIDER=shm", "WRING_FAULT=rate=40gbit", NULL};
static const char *const over_tcp_threads[] = {"WRING_PROVIDER=tcp", NULL};
static const char *const usual[] = {NULL};

static void shm(void)
{
    every_number(over_shm, 0);
}

static void tcp(void)
{
    every_number(over_tcp, 1);
}

static void what_is_large(void)
{
    run(4, usual, large);
}

static void reduce_has_the_bits_of_allreduce(void)
{
    static const uint32_t ranks[] = {2, 5, 8, 9, 14};

    for (size_t i = 0; i < COUNT(ranks); i++) {
        run(ranks[i], over_shm, reduce_is_allreduce);
        run(ranks[i], over_tcp, reduce_is_allreduce);
    }
    run(11, over_slow_shm, reduce_is_allreduce);
}

/** From member to member, be it that they map each other's memory or not. */
static void of_many(void)
{
    static const char *const *const settings[] = {over_tcp, over_slow_shm, over_shm,
                                                  over_tcp_threads};

    for (uint32_t ranks = 9; ranks <= 17; ranks += WRING_TEST_STRIDE > 1 ? 5 : 1)
        run(ranks, settings[ranks % COUNT(settings)], rooted);
    run(33, over_tcp, rooted);
    run(37, over_tcp_threads, rooted);
    if (WRING_TEST_STRIDE > 1)
        return; /* nothing that they have not seen in others */
    run(MEMBERS_MAX, over_tcp, rooted);
}

static void under_way(void)
{
    run(4, over_shm, many_under_way);
    run(4, over_tcp, many_under_way);
    run(13, over_tcp, many_under_way);
    run(9, over_slow_shm, many_under_way);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"shm", shm},
        {"tcp", tcp},
        {"what_is_large", what_is_large},
        {"reduce_has_the_bits_of_allreduce", reduce_has_the_bits_of_allreduce},
        {"under_way", under_way},
        {"of_many", of_many},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
