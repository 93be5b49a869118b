/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs on elements of 16 bits: what comes out is, bit for bit, what float32 of the same numbers
 * come to, rounded once at the end. Every codec of the library, in buckets by its name and with
 * each suffix and way back that it can have, and in each call that takes it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "compress/kernels/reduce.h"
#include "runtime/commit/commit.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/shared_scale.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ROWS 43
#define COLUMNS 70
#define ELEMS ((uint64_t)ROWS * COLUMNS) /* no whole unit at the end */
#define STEPS 4
#define RANKS_MAX 9
#define SUBJECTS_MAX 256
#define PLANS 6
#define CODECS_OF_GROUP 8 /* that its calls may have */
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- what is tried ---- */

/** In buckets each codec has the first ones in every plan, and each of the rest in one of them. */
static const char *const suffixes[] = {"",
                                       "+ef",
                                       "+ef>bf16",
                                       ">lossless",
                                       "+momentum+ef",
                                       "+nesterov+ef>int8:block=64",
                                       "+warmup:steps=2+ef",
                                       "+ef21",
                                       "+ef:residual=bf16",
                                       "+ef:residual=int8"};
#define OF_EVERY_PLAN 2
#define OF_ONE_PLAN (COUNT(suffixes) - OF_EVERY_PLAN)

/** Other parameters than the usual ones, and codecs of a program's own; of all plans. */
static const char *const more[] = {
    "shared8",
    "shared16+ef",
    "shared16",
    "none>int8:block=64+ef",
    "int8:block=64+ef>onebit:block=128+ef",
    "bf16:round=random",
    "topk:block=256:ratio=0.3",
    "topk:ratio=0.1:block=256:index=packed/int8:block=32+ef",
    "randk:ratio=0.1:seed=private:block=64+ef",
    "sharedint:width=4:block=64",
    "thc:block=256:rotate=64",
    "thc:width=4:block=128:sums=saturate+ef",
    "powersgd:rank=1+ef",
};

struct plan {
    const char *const *settings;
    uint32_t ranks;
    enum wring_dtype dtype;
    enum wring_op op;
    enum wring_scheme scheme; /* of codecs that can be in it */
    unsigned number;
};

struct subject {
    char spec[WRING_CODEC_SPEC_MAX];
    enum wring_scheme scheme;
    bool calls; /* it keeps nothing between steps, so that calls may have it */
};

/** Subjects of a plan; read by all ranks. */
static struct subject subjects[SUBJECTS_MAX];
static size_t n_subjects;

static bool is_refused(const struct wring_codec *codec, enum wring_scheme scheme)
{
    const struct wring_codec_info *info = wring_codec_info(codec);

    if (scheme == WRING_SCHEME_INDIVISIBLE)
        return (info->flags & WRING_CODEC_TWO_WAYS) != 0;
    return scheme == WRING_SCHEME_DIVISIBLE && info->unit == 0;
}

/** @return whether there is such a codec, for as many ranks */
static bool add_subject(const struct plan *plan, const char *spec)
{
    struct subject *subject = &subjects[n_subjects];
    struct wring_codec *codec;

    if (wring_codec_create(spec, NULL, shared_codecs, NULL, 0, &codec) != WRING_OK)
        return false;
    const struct wring_codec_info *info = wring_codec_info(codec);
    const struct wring_codec *in = wring_codec_way(codec, 0);
    bool too_many = in->ops->most_ranks != NULL && plan->ranks > in->ops->most_ranks(in);
    CHECK(n_subjects < SUBJECTS_MAX, "more than %d", SUBJECTS_MAX);
    if (!too_many && n_subjects < SUBJECTS_MAX) {
        snprintf(subject->spec, sizeof(subject->spec), "%s", spec);
        subject->scheme = is_refused(codec, plan->scheme) ? WRING_SCHEME_AUTO : plan->scheme;
        subject->calls = (info->flags & WRING_CODEC_FEEDBACK) == 0 && info->states == 0;
        n_subjects++;
    }
    wring_codec_destroy(codec);
    return !too_many;
}

/** With units of which a bucket has several, if it can. @return whether there is such a codec */
static bool add_with_suffix(const struct plan *plan, const char *name, const char *suffix)
{
    static const char *const smaller[] = {":block=128", ":block=1024:chunk=32", ":block=64", ""};
    char spec[WRING_CODEC_SPEC_MAX];

    for (size_t i = 0; i < COUNT(smaller); i++) {
        snprintf(spec, sizeof(spec), "%s%s%s", name, smaller[i], suffix);
        if (add_subject(plan, spec))
            return true;
    }
    return false;
}

static void find_subjects(const struct plan *plan)
{
    size_t codec = 0;

    n_subjects = 0;
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        size_t before = n_subjects, turn = (codec++ + plan->number) % PLANS;
        for (size_t i = 0; i < OF_EVERY_PLAN; i++)
            add_with_suffix(plan, (*ops)->name, suffixes[i]);
        CHECK(n_subjects > before, "%s is not tried", (*ops)->name);
        for (size_t i = turn; i < OF_ONE_PLAN; i += PLANS)
            add_with_suffix(plan, (*ops)->name, suffixes[OF_EVERY_PLAN + i]);
    }
    for (size_t i = 0; i < COUNT(more); i++)
        add_subject(plan, more[i]);
}

/* ---- numbers ---- */

/** The same numbers of both types. */
struct numbers {
    float *wide;
    uint16_t *narrow;
};

/** A plan is run with float32, whose results are kept, and then with elements of 16 bits, whose
 *  results are compared: codecs that draw random numbers do so by name and step. */
struct job {
    const struct plan *plan;
    bool narrow;
    float *of_buckets;          /* [STEPS][n_subjects][ELEMS]: the same on all ranks */
    double *held;               /* [ranks][n_subjects]: root mean squares of residuals */
    float *of_calls[RANKS_MAX]; /* [n_subjects][KINDS][ELEMS] */
    bool *taken;                /* [n_subjects][KINDS] */
};

/** Memory that lives as long as the session. */
static struct numbers make_numbers(struct wring_session *session)
{
    struct numbers numbers = {NULL, NULL};

    CHECK(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&numbers.wide) == WRING_OK &&
              wring_buffer_alloc(session, ELEMS * sizeof(uint16_t), (void **)&numbers.narrow) ==
                  WRING_OK,
          "no memory");
    return numbers;
}

static const struct wring_reduce_kernels *reference(void)
{
    return wring_reduce_tiers[0].kernels;
}

/** What sums overflow in the type of 16 bits, but not all in float32. Those of two ranks with bf16
 *  are half way between the largest number and the next power of two. */
static float large_number(enum wring_dtype dtype, uint32_t rank)
{
    if (dtype == WRING_F16)
        return 60000;
    return rank % 2 == 0 ? 0x1p127f : 0x1.FEp126f;
}

/** In the last steps there are some that are not finite, and some whose sums are not. */
static void fill(const struct job *job, struct numbers to, uint64_t n, uint32_t rank, int step)
{
    enum wring_dtype dtype = job->plan->dtype;
    uint32_t random = 1 + rank + 100 * (uint32_t)step;

    for (uint64_t i = 0; i < n; i++) {
        to.wide[i] = wring_test_random_float(&random);
        if (i % 64 == 5)
            to.wide[i] *= dtype == WRING_F16 ? 1e-6f : 1e-39f;
        if (step == 2 && rank == 1 && i % 1009 == 3)
            to.wide[i] = i % 2 == 0 ? NAN : -INFINITY;
        if (step == 3 && i / 256 % 2 == 0 && i % 7 == 4)
            to.wide[i] = i % 2 == 0 ? large_number(dtype, rank) : -large_number(dtype, rank);
    }
    reference()->narrow[dtype](to.narrow, to.wide, n, 1);
    reference()->widen[dtype](to.wide, to.narrow, n);
}

/** @param overflows  updated: how many became infinite by being rounded */
static void check(const struct plan *plan, const uint16_t *got, const float *wide, uint64_t n,
                  const char *spec, const char *what, uint64_t *overflows)
{
    const uint16_t infinite = plan->dtype == WRING_F16 ? 0x7C00 : 0x7F80;
    uint16_t *want = calloc(n, sizeof(*want));
    uint64_t i = 0;

    reference()->narrow[plan->dtype](want, wide, n, 1);
    for (; i < n && got[i] == want[i]; i++)
        *overflows += isfinite(wide[i]) && (got[i] & 0x7FFF) == infinite;
    CHECK(i == n, "%s of %s by %s, %u ranks: %d of %d is %04x, not %04x", what,
          wring_dtype_name(plan->dtype), spec, plan->ranks, (int)i, (int)n, i < n ? got[i] : 0,
          i < n ? want[i] : 0);
    free(want);
}

/* ---- buckets ---- */

struct bucket {
    struct wring_bucket *of;
    struct numbers data;
};

static void add_bucket(struct wring_session *session, const struct job *job, size_t s,
                       struct bucket *bucket)
{
    char name[64];
    struct wring_bucket_params params = {.name = name,
                                         .elems = ELEMS,
                                         .dtype = job->narrow ? job->plan->dtype : WRING_F32,
                                         .op = job->plan->op,
                                         .codec = subjects[s].spec,
                                         .scheme = subjects[s].scheme,
                                         .shape = {.rows = ROWS, .columns = COLUMNS}};

    snprintf(name, sizeof(name), "bucket %zu", s);
    bucket->data = make_numbers(session);
    params.data = job->narrow ? (void *)bucket->data.narrow : bucket->data.wide;
    CHECK(wring_bucket_register(session, &params, &bucket->of) == WRING_OK, "%s", params.codec);
}

static void run_step(const struct job *job, struct bucket *buckets, uint32_t rank, int step,
                     uint64_t *overflows)
{
    for (size_t s = 0; s < n_subjects; s++) {
        fill(job, buckets[s].data, ELEMS, rank, step);
        CHECK(wring_bucket_post(buckets[s].of) == WRING_OK, "post");
    }
    for (size_t s = 0; s < n_subjects; s++) {
        float *wide = job->of_buckets + ((size_t)step * n_subjects + s) * ELEMS;
        const struct numbers *data = &buckets[s].data;
        CHECK(wring_bucket_wait(buckets[s].of, WAIT_NS, NULL) == WRING_OK, "wait");
        if (job->narrow)
            check(job->plan, data->narrow, wide, ELEMS, subjects[s].spec, "a bucket", overflows);
        else if (rank == 0)
            memcpy(wide, data->wide, ELEMS * sizeof(float));
    }
}

/** What is held back is the same, too. */
static void check_residual(const struct job *job, struct wring_bucket *bucket, size_t s,
                           uint32_t rank)
{
    double *held = &job->held[rank * n_subjects + s];
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;

    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    if (!job->narrow)
        *held = stats.residual_rms;
    CHECK(memcmp(&stats.residual_rms, held, sizeof(*held)) == 0, "%s holds back %g, and %g of f32",
          subjects[s].spec, stats.residual_rms, *held);
}

static void in_buckets(struct wring_session *session, uint32_t rank, const struct job *job)
{
    struct bucket *buckets = calloc(n_subjects, sizeof(*buckets));
    uint64_t overflows = 0;

    for (size_t s = 0; s < n_subjects; s++)
        add_bucket(session, job, s, &buckets[s]);
    enum wring_status status = wring_session_commit(session);
    CHECK(status == WRING_OK, "commit: %s", wring_status_text(status));
    for (int step = 0; step < STEPS && status == WRING_OK; step++)
        run_step(job, buckets, rank, step, &overflows);
    CHECK(!job->narrow || job->plan->op == WRING_AVG || overflows > 0 || job->plan->ranks > 2,
          "no sum was too large for %s", wring_dtype_name(job->plan->dtype));
    for (size_t s = 0; s < n_subjects && status == WRING_OK; s++)
        check_residual(job, buckets[s].of, s, rank);
    free(buckets);
}

/* ---- calls ---- */

#define RUN 250 /* elements of a member's run, where each has one */

enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    GATHER,
    SCATTER,
    ALLTOALL,
    BROADCAST,
    KINDS,
};

static const char *const kinds[] = {
    "an allreduce",           "a reduce", "a reduce-scatter", "one with runs", "allgather",
    "one with gathered runs", "a gather", "a scatter",        "an alltoall",   "a broadcast"};

/** A member's runs, of which those behind it are shorter. */
static uint64_t run_of(uint32_t member)
{
    return RUN - 7 * (uint64_t)member;
}

/** All runs of in or out, or the member's own. */
static uint64_t count_results(const struct plan *plan, enum kind kind, uint32_t rank)
{
    uint64_t all = 0;

    for (uint32_t m = 0; m < plan->ranks; m++)
        all += run_of(m);
    switch (kind) {
    case ALLREDUCE:
    case BROADCAST:
        return ELEMS;
    case REDUCE:
        return rank == 1 ? ELEMS : 0;
    case REDUCE_SCATTER:
    case SCATTER:
        return RUN;
    case REDUCE_SCATTERV:
        return run_of(rank);
    case ALLGATHERV:
        return all;
    case GATHER:
        return rank == 1 ? (uint64_t)RUN * plan->ranks : 0;
    default:
        return (uint64_t)RUN * plan->ranks;
    }
}

static enum wring_status call(struct wring_group *group, const struct plan *plan, enum kind kind,
                              enum wring_dtype dtype, const char *spec, const void *in, void *out)
{
    struct wring_call how = {.codec = spec};
    uint64_t runs[RANKS_MAX];

    for (uint32_t m = 0; m < plan->ranks; m++)
        runs[m] = run_of(m);
    switch (kind) {
    case ALLREDUCE:
        return wring_allreduce(group, in, out, ELEMS, dtype, plan->op, &how, NULL);
    case REDUCE:
        return wring_reduce(group, in, out, ELEMS, dtype, plan->op, 1, &how, NULL);
    case REDUCE_SCATTER:
        return wring_reduce_scatter(group, in, out, RUN, dtype, plan->op, &how, NULL);
    case REDUCE_SCATTERV:
        return wring_reduce_scatterv(group, in, out, runs, dtype, plan->op, &how, NULL);
    case ALLGATHER:
        return wring_allgather(group, in, out, RUN, dtype, &how, NULL);
    case ALLGATHERV:
        return wring_allgatherv(group, in, out, runs, dtype, &how, NULL);
    case GATHER:
        return wring_gather(group, in, out, RUN, dtype, 1, &how, NULL);
    case SCATTER:
        return wring_scatter(group, in, out, RUN, dtype, 1, &how, NULL);
    case ALLTOALL:
        return wring_alltoall(group, in, out, RUN, dtype, &how, NULL);
    default:
        how.dtype = dtype;
        memcpy(out, in, ELEMS * wring_dtype_bytes(dtype));
        return wring_broadcast(group, out, ELEMS * wring_dtype_bytes(dtype), 1, &how, NULL);
    }
}

/** Both jobs are refused the same. @return whether this one was taken */
static bool try_call(struct wring_group *group, const struct job *job, size_t s, enum kind kind,
                     uint32_t rank, struct numbers in, struct numbers out)
{
    const struct plan *plan = job->plan;
    uint64_t n = count_results(plan, kind, rank), overflows = 0;
    size_t at = s * KINDS + kind;
    enum wring_dtype dtype = job->narrow ? plan->dtype : WRING_F32;
    void *from = job->narrow ? (void *)in.narrow : in.wide;
    void *to = job->narrow ? (void *)out.narrow : out.wide;
    float *wide = job->of_calls[rank] + at * ELEMS;

    fill(job, in, ELEMS, rank, kind % STEPS);
    enum wring_status status = call(group, plan, kind, dtype, subjects[s].spec, from, to);
    bool taken = status == WRING_OK;
    CHECK(taken || status == WRING_ERR_UNSUPPORTED, "%s by %s: %s", kinds[kind], subjects[s].spec,
          wring_status_text(status));
    if (!job->narrow && taken)
        memcpy(wide, to, n * sizeof(float));
    if (!job->narrow && rank == 0)
        job->taken[at] = taken;
    CHECK(!job->narrow || taken == job->taken[at], "%s of %s by %s: %s", kinds[kind],
          wring_dtype_name(dtype), subjects[s].spec, taken ? "taken" : "refused");
    if (job->narrow && taken)
        check(plan, to, wide, n, subjects[s].spec, kinds[kind], &overflows);
    return taken;
}

/** Codecs that keep nothing; as many of them in a group as it may have. */
static void in_calls(struct wring_session *session, uint32_t rank, const struct job *job)
{
    const uint32_t members[RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct numbers in = make_numbers(session), out = make_numbers(session);
    struct wring_group *group = NULL;
    unsigned used = 0, taken[KINDS] = {0};

    for (size_t s = 0; s < n_subjects; s++) {
        if (!subjects[s].calls)
            continue;
        if (used++ % CODECS_OF_GROUP == 0) {
            wring_group_destroy(group);
            REQUIRE(wring_group_create(wring_session_world(session), members, job->plan->ranks,
                                       used, WAIT_NS, &group) == WRING_OK,
                    "group");
        }
        for (int kind = 0; kind < KINDS; kind++)
            taken[kind] += try_call(group, job, s, (enum kind)kind, rank, in, out);
    }
    wring_group_destroy(group);
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(taken[kind] >= 10, "%s was tried with %u codecs", kinds[kind], taken[kind]);
}

/* ---- numbers that a codec keeps ---- */

/** Calls that round nothing: of f16 and bf16 numbers lossless is exact, and a cast to the type. */
static void check_kept(struct wring_session *session, const struct job *job, uint32_t rank)
{
    const char *const kept[] = {
        "none", "lossless:block=64", job->plan->dtype == WRING_F16 ? "fp16" : "bf16",
        job->plan->dtype == WRING_F16 ? "fp16:round=random" : "bf16:round=random"};
    struct wring_group *world = wring_session_world(session);
    struct numbers in = make_numbers(session), out = make_numbers(session);

    for (size_t i = 0; i < COUNT(kept); i++) {
        struct wring_call how = {.codec = kept[i], .dtype = job->plan->dtype};
        fill(job, in, ELEMS, 0, 0); /* the same everywhere */
        fill(job, out, ELEMS, rank, 0);
        CHECK(wring_broadcast(world, out.narrow, ELEMS * sizeof(uint16_t), 0, &how, NULL) ==
                      WRING_OK &&
                  memcmp(in.narrow, out.narrow, ELEMS * sizeof(uint16_t)) == 0,
              "a broadcast by %s changes bits", kept[i]);
        how.dtype = 0;
        CHECK(wring_allgather(world, in.narrow, out.narrow, RUN, job->plan->dtype, &how, NULL) ==
                  WRING_OK,
              "allgather");
        for (uint32_t m = 0; m < job->plan->ranks; m++)
            CHECK(memcmp(in.narrow, out.narrow + (size_t)m * RUN, RUN * sizeof(uint16_t)) == 0,
                  "an allgather by %s changes bits", kept[i]);
    }
}

/* ---- jobs ---- */

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct job *job = arg;

    in_buckets(session, rank, job);
    in_calls(session, rank, job);
    if (job->narrow)
        check_kept(session, job, rank);
}

/** What the codecs refuse is said in each job, and by all ranks. */
static void drop_refusals(void *arg, enum wring_log_level level, const char *module,
                          const char *text)
{
    (void)arg;
    if (level <= WRING_LOG_WARN && strstr(text, "codec") == NULL)
        fprintf(stderr, "%s: %s\n", module, text);
}

static void run_plan(struct plan plan)
{
    struct job job = {.plan = &plan};
    struct wring_test_job both = {.ranks = plan.ranks,
                                  .settings = plan.settings,
                                  .run = run,
                                  .arg = &job,
                                  .log = drop_refusals,
                                  .codecs = shared_codecs};

    find_subjects(&plan);
    job.of_buckets = calloc(STEPS * n_subjects * ELEMS, sizeof(float));
    job.held = calloc(plan.ranks * n_subjects, sizeof(double));
    job.taken = calloc(n_subjects * KINDS, sizeof(bool));
    for (uint32_t r = 0; r < plan.ranks; r++)
        job.of_calls[r] = calloc(n_subjects * KINDS * ELEMS, sizeof(float));
    wring_test_run_ranks(&both);
    job.narrow = true;
    wring_test_run_ranks(&both);
    for (uint32_t r = 0; r < plan.ranks; r++)
        free(job.of_calls[r]);
    free(job.taken);
    free(job.held);
    free(job.of_buckets);
    printf("%s, %u ranks: %zu specs\n", wring_dtype_name(plan.dtype), plan.ranks, n_subjects);
}

static const char *const measured[] = {"WRING_STATS_EVERY=1", "WRING_PROVIDER=tcp",
                                       "WRING_CHUNK_BYTES=4k", "WRING_EXECUTOR=pool", NULL};
static const char *const whole[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=inline", NULL};
static const char *const chunked[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k",
                                      "WRING_EXECUTOR=inline", "WRING_CPU=scalar", NULL};

static void halves(void)
{
    run_plan((struct plan){chunked, 3, WRING_F16, WRING_SUM, WRING_SCHEME_INDIVISIBLE, 0});
    if (WRING_TEST_STRIDE > 1)
        return; /* a fault of memory, or a race, is one of whatever codecs, not of their turns */
    run_plan((struct plan){whole, 2, WRING_F16, WRING_AVG, WRING_SCHEME_AUTO, 1});
    run_plan((struct plan){measured, 2, WRING_F16, WRING_SUM, WRING_SCHEME_DIVISIBLE, 2});
}

static void upper_halves(void)
{
    run_plan((struct plan){measured, 2, WRING_BF16, WRING_SUM, WRING_SCHEME_AUTO, 3});
    if (WRING_TEST_STRIDE > 1)
        return;
    run_plan((struct plan){chunked, 9, WRING_BF16, WRING_SUM, WRING_SCHEME_AUTO, 4});
    run_plan((struct plan){whole, 4, WRING_BF16, WRING_AVG, WRING_SCHEME_DIVISIBLE, 5});
}

/* ---- worked sums ---- */

static const struct worked {
    enum wring_dtype dtype;
    uint16_t first, second, sum;
} worked[] = {
    {WRING_F16, 0x7BFF, 0x4BFF, 0x7BFF},  /* 65504 + 15.99: still the largest number */
    {WRING_F16, 0x7BFF, 0x4C00, 0x7C00},  /* half way to 65536: to the even side, infinity */
    {WRING_F16, 0xFBFF, 0xCC00, 0xFC00},  /* likewise below zero */
    {WRING_F16, 0xFE01, 0x3C00, 0x7E00},  /* NaN becomes the one NaN */
    {WRING_F16, 0x7C00, 0x3C00, 0x7C00},  /* infinity stays */
    {WRING_F16, 0x7C00, 0xFC00, 0x7E00},  /* but for its opposite */
    {WRING_F16, 0x6800, 0x3C00, 0x6800},  /* 2048 + 1: to the even one below */
    {WRING_F16, 0x6801, 0x3C00, 0x6802},  /* 2050 + 1: to the even one above */
    {WRING_F16, 0x0001, 0x0001, 0x0002},  /* denormals are numbers */
    {WRING_BF16, 0x7F00, 0x7EFF, 0x7F80}, /* half way to 2^128 */
    {WRING_BF16, 0x7EFF, 0x7EFF, 0x7F7F}, /* the largest number */
    {WRING_BF16, 0xFFC1, 0x3F80, 0x7FC0}, {WRING_BF16, 0xFF80, 0x3F80, 0xFF80},
    {WRING_BF16, 0x4380, 0x3F80, 0x4380}, /* 256 + 1 */
    {WRING_BF16, 0x4381, 0x3F80, 0x4382}, {WRING_BF16, 0x0001, 0x0001, 0x0002},
};

/** Codecs that change none of these numbers; of the last ones a unit with infinity is NaN. */
static const char *const exact[] = {"none", "lossless:block=64", "none>lossless:block=64",
                                    "topk:ratio=1:block=256", "union"};
#define KEEP_INFINITY 3

static uint16_t worked_sum(const struct worked *of, size_t codec)
{
    const uint16_t infinite = of->dtype == WRING_F16 ? 0x7C00 : 0x7F80;
    bool infinity = (of->first & 0x7FFF) == infinite || (of->second & 0x7FFF) == infinite;

    if (codec < KEEP_INFINITY || !infinity)
        return of->sum;
    return of->dtype == WRING_F16 ? 0x7E00 : 0x7FC0;
}

static void add_worked(struct wring_session *session, size_t codec, size_t i, uint16_t *at,
                       struct wring_bucket **bucket)
{
    char name[64];
    struct wring_bucket_params params = {
        .name = name, .data = at, .elems = 1, .codec = exact[codec], .dtype = worked[i].dtype};

    snprintf(name, sizeof(name), "%s %zu", exact[codec], i);
    *at = wring_session_rank(session) == 0 ? worked[i].first : worked[i].second;
    CHECK(wring_bucket_register(session, &params, bucket) == WRING_OK, "%s", name);
}

static void check_worked(struct wring_bucket *bucket, size_t codec, size_t i, const uint16_t *at)
{
    uint16_t want = worked_sum(&worked[i], codec);

    CHECK(wring_bucket_post(bucket) == WRING_OK &&
              wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
          "step");
    CHECK(*at == want, "%s of %s: %04x + %04x is %04x, not %04x", exact[codec],
          wring_dtype_name(worked[i].dtype), worked[i].first, worked[i].second, *at, want);
}

static void sum_worked(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[COUNT(exact)][COUNT(worked)];
    uint16_t *at = make_numbers(session).narrow;
    (void)rank, (void)arg;

    for (size_t c = 0; c < COUNT(exact); c++)
        for (size_t i = 0; i < COUNT(worked); i++)
            add_worked(session, c, i, &at[c * COUNT(worked) + i], &buckets[c][i]);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (size_t c = 0; c < COUNT(exact); c++)
        for (size_t i = 0; i < COUNT(worked); i++)
            check_worked(buckets[c][i], c, i, &at[c * COUNT(worked) + i]);
}

static void numbers_beyond_and_between(void)
{
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = 2, .settings = whole, .run = sum_worked});
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = 2, .settings = chunked, .run = sum_worked});
}

/* ---- codecs that are left out ---- */

#define CAST_ELEMS 1000

static void leave_out(struct wring_session *session, bool without)
{
    REQUIRE(wring_commit_take_back(session) == WRING_OK, "something is under way");
    snprintf(session->config.bypass, sizeof(session->config.bypass), "%s",
             without ? "always" : "never");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
}

/** One rank's number of a step: f16 that bf16 has no room for. */
static float number_of(uint32_t rank, int step, uint32_t i)
{
    uint16_t bits = (uint16_t)(0x3C00 + (i * 37 + rank * 501 + (uint32_t)step * 211) % 0x800);
    float wide;

    reference()->widen[WRING_F16](&wide, &bits, 1);
    return wide;
}

static float cast_to(enum wring_dtype dtype, float x)
{
    uint16_t bits;
    float wide;

    reference()->narrow[dtype](&bits, &x, 1, 1);
    reference()->widen[dtype](&wide, &bits, 1);
    return wide;
}

/** Of two ranks, whose codes nobody encodes again: each adds what its casts have lost, and keeps
 *  what this one loses; without the codec that is rounded to f16, and nothing is kept. */
static float sum_of_casts(int step, uint32_t i)
{
    float lost[2] = {0, 0}, sum = 0;

    for (int at = 0; at <= step; at++) {
        sum = 0;
        for (uint32_t rank = 0; rank < 2; rank++) {
            bool without = at % 2 == 1;
            float value = number_of(rank, at, i) + lost[rank];
            float sent = cast_to(without ? WRING_F16 : WRING_BF16, value);
            lost[rank] = without ? 0 : value - sent;
            sum += sent;
        }
    }
    return sum;
}

static void switch_casts(struct wring_session *session, uint32_t rank, void *arg)
{
    uint16_t *data = make_numbers(session).narrow, want;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {.name = "casts",
                                         .data = data,
                                         .elems = CAST_ELEMS,
                                         .dtype = WRING_F16,
                                         .codec = "bf16+ef",
                                         .scheme = WRING_SCHEME_INDIVISIBLE};
    (void)arg;

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < 6; step++) {
        leave_out(session, step % 2 == 1);
        for (uint32_t i = 0; i < CAST_ELEMS; i++) {
            float wide = number_of(rank, step, i);
            reference()->narrow[WRING_F16](&data[i], &wide, 1, 1);
        }
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "step");
        for (uint32_t i = 0; i < CAST_ELEMS; i++) {
            float sum = sum_of_casts(step, i);
            reference()->narrow[WRING_F16](&want, &sum, 1, 1);
            CHECK(data[i] == want, "step %d: %u is %04x, not %04x", step, i, data[i], want);
        }
    }
}

static void codecs_that_are_left_out(void)
{
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = 2, .settings = whole, .run = switch_casts});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"numbers_beyond_and_between", numbers_beyond_and_between},
        {"codecs_that_are_left_out", codecs_that_are_left_out},
        {"halves", halves},
        {"upper_halves", upper_halves},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
