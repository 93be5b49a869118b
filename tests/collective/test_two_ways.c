/* SPDX-License-Identifier: Apache-2.0 */
/* Codecs "in>out" where they are asked for: buckets of each scheme, and immediate calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include <wring/wring.h>

#define N 5000
#define WAIT_NS (60ull * 1000000000)

static void register_indivisible(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"onebit+ef>int8", "signsgd"};
    static float data[2][N];
    (void)arg;

    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        struct wring_bucket *bucket = NULL;
        struct wring_bucket_params params = {.name = "b",
                                             .data = data[rank],
                                             .elems = N,
                                             .codec = codecs[i],
                                             .scheme = WRING_SCHEME_INDIVISIBLE};
        CHECK(wring_bucket_register(session, &params, &bucket) == WRING_ERR_INVALID &&
                  bucket == NULL,
              "a scheme without a way back takes %s", codecs[i]);
    }
}

static void needs_a_way_back(void)
{
    struct wring_test_job job = {.ranks = 1, .run = register_indivisible};
    wring_test_run_ranks(&job);
}

/** Integers up to 6: bf16 carries them and their sums exactly, onebit would not. */
static void sum_at_once(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[3][N];
    struct wring_group *world = wring_session_world(session);
    uint32_t ranks = *(const uint32_t *)arg;
    float *x = data[rank];

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2 + (int)rank);
    enum wring_status status = wring_allreduce(world, x, x, N, WRING_F32, WRING_SUM,
                                               &(struct wring_call){.codec = "bf16>none"}, NULL);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    for (int i = 0; i < N; i++) {
        float want = (float)(i % 2) * (float)ranks + (float)(ranks * (ranks - 1) / 2);
        REQUIRE(x[i] == want, "%u ranks: element %d is %g, not %g", ranks, i, x[i], want);
    }
    status = wring_allreduce(world, x, x, N, WRING_F32, WRING_SUM,
                             &(struct wring_call){.codec = "bf16+ef>none"}, NULL);
    CHECK(status == WRING_ERR_UNSUPPORTED, "an immediate call keeps a residual");
}

/** The way back is taken by two ranks too, though one codec would then not need it. */
static void back_codec_counts(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[3][N];
    uint32_t ranks = *(const uint32_t *)arg;
    float *x = data[rank];

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2) + 1; /* ranks, or 2 ranks, in turn: their mean is 1.5 ranks */
    enum wring_status status =
        wring_allreduce(wring_session_world(session), x, x, 1024, WRING_F32, WRING_SUM,
                        &(struct wring_call){.codec = "none>onebit"}, NULL);
    CHECK(status == WRING_OK, "%s", wring_status_text(status));
    for (int i = 0; i < 1024; i++)
        REQUIRE(x[i] == 1.5f * (float)ranks, "%u ranks: element %d is %g", ranks, i, x[i]);
}

static void immediate(void)
{
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        struct wring_test_job job = {.ranks = ranks, .arg = &ranks, .run = sum_at_once};
        wring_test_run_ranks(&job);
        job.run = back_codec_counts;
        wring_test_run_ranks(&job);
    }
}

/* ---- feedback at worker and owner ---- */

#define STEPS 30
#define ZEROS 60 /* steps without input, in which all that was kept goes out */
#define RANKS 3

struct loss {
    const char *codec;
    enum wring_op op;
    double gain; /* of each input, over all steps */
    double most; /* that may be lost of any element's sum */
    bool keeps;  /* nothing more than that is lost */
};

/** @param x  [N] */
static bool make_bucket(struct wring_session *session, const struct loss *loss, float *x,
                        struct wring_bucket **bucket)
{
    struct wring_bucket_params params = {
        .name = "b", .data = x, .elems = N, .op = loss->op, .codec = loss->codec};

    return wring_bucket_register(session, &params, bucket) == WRING_OK &&
           wring_session_commit(session) == WRING_OK;
}

static void draw(float *x, uint32_t *random)
{
    for (int i = 0; i < N; i++)
        x[i] = wring_test_random_float(random);
}

/** What comes out over all steps, beside what went in. @return the largest difference */
static double difference(const struct loss *loss, const double *out)
{
    static float x[N];
    static double in[N];
    double share = loss->op == WRING_AVG ? 1.0 / RANKS : 1, most = 0;

    for (int i = 0; i < N; i++)
        in[i] = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint32_t random = 100 + rank;
        for (int step = 0; step < STEPS; step++) {
            draw(x, &random);
            for (int i = 0; i < N; i++)
                in[i] += (double)x[i] * share * loss->gain;
        }
    }
    for (int i = 0; i < N; i++)
        most = fabs(in[i] - out[i]) > most ? fabs(in[i] - out[i]) : most;
    return most;
}

static void post_steps(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[RANKS][N];
    static double out[N];
    const struct loss *loss = arg;
    uint32_t random = 100 + rank;
    float *x = data[rank];
    struct wring_bucket *bucket = NULL;
    struct wring_bucket_params params = {.name = "b",
                                         .data = x,
                                         .elems = N,
                                         .op = loss->op,
                                         .codec = loss->codec,
                                         .scheme = WRING_SCHEME_DIVISIBLE};

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "%s: no bucket", loss->codec);
    for (int i = 0; i < N && rank == 0; i++)
        out[i] = 0;
    for (int step = 0; step < STEPS + ZEROS; step++) {
        memset(x, 0, sizeof(data[rank]));
        if (step < STEPS)
            draw(x, &random);
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "%s: step %d", loss->codec, step);
        for (int i = 0; i < N && rank == 0; i++)
            out[i] += (double)x[i];
    }
    if (rank != 0)
        return;
    double most = difference(loss, out);
    CHECK((most <= loss->most) == loss->keeps, "%s, %s: sums over all steps are off by %g",
          loss->codec, wring_op_name(loss->op), most);
}

/** Over all steps nothing is lost, of contributions or of their sum, but where one way has no
 *  feedback. */
static void feedback_at_worker_and_owner(void)
{
    static const char *const settings[] = {"WRING_BYPASS=never", NULL};
    static const struct {
        const char *codec;
        double gain;
        bool keeps;
        double rounds; /* what residuals of 16 bits may come to lose */
    } cases[] = {
        {"topk:ratio=0.25:block=256+ef", 1, true, 0},
        {"int8:block=64+ef", 1, true, 0},
        {"topk:ratio=0.25:block=256/int8:block=32+ef", 1, true, 0},
        {"topk:ratio=0.25:block=256+momentum:beta=0.5+ef", 2, true, 0},
        {"topk:ratio=0.25:block=256+nesterov:beta=0.5+warmup:steps=9+ef", 2, true, 0},
        {"topk:ratio=0.25:block=256+momentum:beta=0.5+ef>int8:block=64+ef", 2, true, 0},
        {"topk:ratio=0.25:block=256+ef:residual=bf16", 1, true, 1},
        {"int8:block=64+ef:residual=bf16", 1, true, 0.01},
        {"int8:block=64+ef:residual=int8", 1, true, 0.05},
        {"topk:ratio=0.25:block=256+ef:residual=int8>int8:block=64", 1, false, 0},
        {"topk:ratio=0.25:block=256+ef:residual=int8", 1, true, 4},
        {"topk:ratio=0.25:block=256+momentum:beta=0.5+ef:residual=bf16", 2, true, 2},
        {"topk:ratio=0.25:block=256+ef>topk:ratio=0.25:block=256", 1, false, 0},
        {"topk:ratio=0.25:block=256>topk:ratio=0.25:block=256+ef", 1, false, 0},
        {"topk:ratio=0.25:block=256+momentum:beta=0.5+ef>topk:ratio=0.25:block=256", 2, false, 0},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        for (int average = 0; average < 2; average++) {
            struct loss loss = {cases[c].codec, average ? WRING_AVG : WRING_SUM, cases[c].gain,
                                1e-3 + cases[c].rounds, cases[c].keeps};
            struct wring_test_job job = {
                .ranks = RANKS, .settings = settings, .run = post_steps, .arg = &loss};
            wring_test_run_ranks(&job);
        }
}

/* ---- differences ---- */

/** A rank's input, the same in each step. */
static float constant(int i, uint32_t rank)
{
    return (float)((i * 37 + (int)rank * 11) % 101) / 64 - 0.5f;
}

static double sum_of_constants(int i, uint32_t ranks)
{
    double sum = 0;

    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += (double)constant(i, rank);
    return sum;
}

static void post_constants(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[RANKS][N];
    const struct loss *loss = arg;
    float *x = data[rank];
    struct wring_bucket *bucket = NULL;

    REQUIRE(make_bucket(session, loss, x, &bucket), "%s: no bucket", loss->codec);
    for (int step = 0; step < STEPS + ZEROS; step++) {
        for (int i = 0; i < N; i++)
            x[i] = constant(i, rank);
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "%s: step %d", loss->codec, step);
    }
    for (int i = 0; i < N; i++) {
        double share = loss->op == WRING_AVG ? 1.0 / RANKS : 1;
        double want = sum_of_constants(i, RANKS) * share * loss->gain;
        REQUIRE(fabs((double)x[i] - want) <= loss->most, "%s, %s: element %d comes to %g, not %g",
                loss->codec, wring_op_name(loss->op), i, (double)x[i], want);
    }
}

/** Where inputs stay as they are, what comes out becomes their sum, though no code holds it. */
static void differences_approach_the_sum(void)
{
    static const struct {
        const char *codec;
        double gain;
    } cases[] = {
        {"topk:ratio=0.1:block=256+ef21", 1},
        {"int8:block=64+ef21", 1},
        {"topk:ratio=0.1:block=256/fp16+ef21", 1},
        {"topk:ratio=0.1:block=256+ef21>int8:block=64+ef", 1},
        {"topk:ratio=0.1:block=256+momentum:beta=0.5+ef21", 2},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        for (int average = 0; average < 2; average++) {
            struct loss loss = {cases[c].codec, average ? WRING_AVG : WRING_SUM, cases[c].gain,
                                1e-4, true};
            struct wring_test_job job = {.ranks = RANKS, .run = post_constants, .arg = &loss};
            wring_test_run_ranks(&job);
        }
}

#define NAN_STEP 20

/** In one step rank 0 has NaN, and the others' inputs change for good. */
static void post_a_nan(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[RANKS][N];
    const struct loss *loss = arg;
    float *x = data[rank];
    struct wring_bucket *bucket = NULL;

    REQUIRE(make_bucket(session, loss, x, &bucket), "%s: no bucket", loss->codec);
    for (int step = 0; step < STEPS + ZEROS; step++) {
        for (int i = 0; i < N; i++)
            x[i] = step < NAN_STEP || rank == 0 ? constant(i, rank) : constant(i, rank + RANKS);
        for (int i = 0; i < N && step == NAN_STEP && rank == 0; i += 64)
            x[i] = NAN;
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "%s: step %d", loss->codec, step);
        for (int i = 0; i < N && step == NAN_STEP; i += 64)
            REQUIRE(isnan(x[i]), "%s: element %d is %g", loss->codec, i, (double)x[i]);
    }
    for (int i = 0; i < N; i++) {
        double want = constant(i, 0), share = loss->op == WRING_AVG ? 1.0 / RANKS : 1;
        for (uint32_t other = 1; other < RANKS; other++)
            want += (double)constant(i, other + RANKS);
        REQUIRE(fabs((double)x[i] - want * share) <= loss->most,
                "%s, %s: element %d comes to %g, not %g", loss->codec, wring_op_name(loss->op), i,
                (double)x[i], want * share);
    }
}

/** Ranks that took no notice count as sent what came in vain with another's NaN. */
static void differences_outlive_a_nan(void)
{
    static const struct {
        const char *codec;
        double most;
    } cases[] = {
        {"topk:ratio=0.1:block=256+ef21", 1e-3},
        {"int8:block=64+ef21", 1e-3},
        {"bf16+ef21", 1e-3},
        {"topk:ratio=0.1:block=256+ef21>int8:block=64+ef", 1e-3},
    };

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        for (int average = 0; average < 2; average++) {
            struct loss loss = {cases[c].codec, average ? WRING_AVG : WRING_SUM, 1, cases[c].most,
                                true};
            struct wring_test_job job = {.ranks = RANKS, .run = post_a_nan, .arg = &loss};
            wring_test_run_ranks(&job);
        }
}

/** What of two ranks that each give 1 a step comes to, as bf16. */
static const struct {
    const char *codec;
    float want[3];
} of_16_bits[] = {
    {"lossless+momentum:beta=0.5", {2, 3, 3.5F}},
    {"lossless+nesterov:beta=0.5", {3, 3.5F, 3.75F}},
};

static float widen(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float wide;

    memcpy(&wide, &bits, sizeof(wide));
    return wide;
}

static void post_16_bits(struct wring_session *session, uint32_t rank, void *arg)
{
    static uint16_t data[2][N];
    uint16_t *x = data[rank];
    size_t n = sizeof(of_16_bits) / sizeof(of_16_bits[0]);
    (void)arg;

    for (size_t c = 0; c < n; c++) {
        struct wring_bucket *bucket = NULL;
        struct wring_bucket_params params = {.name = of_16_bits[c].codec,
                                             .data = x,
                                             .elems = N,
                                             .dtype = WRING_BF16,
                                             .codec = of_16_bits[c].codec};
        REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
                    wring_session_commit(session) == WRING_OK,
                "%s: no bucket", params.codec);
        for (int step = 0; step < 4; step++) {
            for (int i = 0; i < N; i++)
                x[i] = step == 3 && i == 0 && rank == 0 ? 0x7FC0 : 0x3F80; /* NaN; 1 */
            REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                        wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                    "%s: step %d", params.codec, step);
            CHECK(step < 3 || isnan(widen(x[0])), "%s: no NaN", params.codec);
            for (int i = 0; i < N && step < 3; i++)
                REQUIRE(widen(x[i]) == of_16_bits[c].want[step], "%s, step %d: element %d is %g",
                        params.codec, step, i, (double)widen(x[i]));
        }
    }
}

/** lossless takes 16 bits as they are, but not under momentum, which is of f32. */
static void momentum_of_16_bits(void)
{
    struct wring_test_job job = {.ranks = 2, .run = post_16_bits};
    wring_test_run_ranks(&job);
}

/** Ranks that go on where others were. */
struct relay {
    uint32_t ranks;
    bool load, save;
    void *states[RANKS];
    size_t bytes[RANKS];
    double first, last; /* how far the first and the last step are off the sum */
};

static double off_the_sum(const float *x, uint32_t ranks)
{
    double most = 0;

    for (int i = 0; i < N; i++)
        most = fmax(most, fabs((double)x[i] - sum_of_constants(i, ranks)));
    return most;
}

static void run_relay(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[RANKS][N];
    struct relay *relay = arg;
    float *x = data[rank];
    struct wring_bucket *bucket = NULL;
    struct wring_bucket_params params = {.name = "b",
                                         .data = x,
                                         .elems = N,
                                         .codec = "topk:ratio=0.1:block=256+momentum:beta=0+ef21"};

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "no bucket");
    for (uint32_t i = 0; i < RANKS && relay->load; i++)
        REQUIRE(wring_session_load_state(session, relay->states[i], relay->bytes[i]) == WRING_OK,
                "state of rank %u", i);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            x[i] = constant(i, rank);
        REQUIRE(wring_bucket_post(bucket) == WRING_OK &&
                    wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
                "step %d", step);
        if (step == 0 && rank == 0)
            relay->first = off_the_sum(x, relay->ranks);
    }
    if (rank == 0)
        relay->last = off_the_sum(x, relay->ranks);
    if (!relay->save)
        return;
    REQUIRE(wring_session_save_state(session, NULL, &relay->bytes[rank]) == WRING_OK, "size");
    relay->states[rank] = malloc(relay->bytes[rank]);
    REQUIRE(relay->states[rank] != NULL &&
                wring_session_save_state(session, relay->states[rank], &relay->bytes[rank]) ==
                    WRING_OK,
            "state");
}

/** As many ranks go on where the job was. Others begin anew: what a rank that is gone has sent
 * would stay in their sums for ever. */
static void differences_are_of_as_many_ranks(void)
{
    struct relay relay = {.ranks = RANKS, .save = true};
    struct wring_test_job job = {.ranks = RANKS, .run = run_relay, .arg = &relay};

    wring_test_run_ranks(&job);
    CHECK(relay.first > 0.1 && relay.last <= 1e-4, "off by %g, then %g", relay.first, relay.last);
    relay.load = true, relay.save = false;
    wring_test_run_ranks(&job);
    CHECK(relay.first <= 1e-4 && relay.last <= 1e-4, "goes on: %g, then %g", relay.first,
          relay.last);
    relay.ranks = job.ranks = RANKS - 1;
    wring_test_run_ranks(&job);
    CHECK(relay.first > 0.1 && relay.last <= 1e-4, "fewer ranks: %g, then %g", relay.first,
          relay.last);
    for (uint32_t i = 0; i < RANKS; i++)
        free(relay.states[i]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"feedback_at_worker_and_owner", feedback_at_worker_and_owner},
        {"differences_approach_the_sum", differences_approach_the_sum},
        {"differences_outlive_a_nan", differences_outlive_a_nan},
        {"momentum_of_16_bits", momentum_of_16_bits},
        {"differences_are_of_as_many_ranks", differences_are_of_as_many_ranks},
        {"needs_a_way_back", needs_a_way_back},
        {"immediate", immediate},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
