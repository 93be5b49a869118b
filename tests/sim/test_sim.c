/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks in one thread: sums, counts, times and deaths. */
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "tests/lib/test.h"
#include "tests/sim/sim_job.h"
#include "transport/fabric.h"

#define STEPS 3

struct sums {
    uint64_t elems;
    uint32_t wrong;
    struct wring_sim_counts before, after; /* of rank 1, around the last step */
    uint64_t step_ns;                      /* of the last step, until its last rank was done */
};

/** Whole numbers, so that no order of additions rounds; each element has a sum of its own. */
static float contribution(uint32_t rank, uint64_t element)
{
    return (float)((rank * 7 + element * 13) % 31) - 15;
}

static bool is_sum(const float *data, uint64_t elems, uint32_t ranks)
{
    for (uint64_t i = 0; i < elems; i++) {
        float sum = 0;
        for (uint32_t rank = 0; rank < ranks; rank++)
            sum += contribution(rank, i);
        if (data[i] != sum)
            return false;
    }
    return true;
}

static void sum_again_and_again(struct sim_job *job, struct wring_session *session, uint32_t rank)
{
    struct sums *sums = job->arg;
    struct wring_group *world = wring_session_world(session);
    float *data = malloc(sums->elems * sizeof(*data));
    enum wring_status status = WRING_OK;

    REQUIRE(data != NULL, "no memory");
    for (unsigned step = 0; step < STEPS && status == WRING_OK; step++) {
        for (uint64_t i = 0; i < sums->elems; i++)
            data[i] = contribution(rank, i);
        status = wring_barrier(world, NULL, NULL);
        uint64_t begin_ns = wring_sim_now_ns(job->sim);
        if (rank == 1)
            sums->before = wring_sim_sent(job->sim, 1);
        if (status == WRING_OK)
            status =
                wring_allreduce(world, data, data, sums->elems, WRING_F32, WRING_SUM, NULL, NULL);
        if (rank == 1)
            sums->after = wring_sim_sent(job->sim, 1);
        uint64_t took_ns = wring_sim_now_ns(job->sim) - begin_ns;
        sums->step_ns = step == STEPS - 1 && took_ns > sums->step_ns ? took_ns : sums->step_ns;
        /* to compute all sums on all ranks takes long: a few are enough of equal bits */
        if (status != WRING_OK ||
            (rank % 61 == 0 && !is_sum(data, sums->elems, job->network.ranks)))
            sums->wrong++;
    }
    free(data);
}

static struct sums run_sums(uint32_t ranks, uint64_t elems)
{
    struct sums sums = {.elems = elems};
    struct sim_job job = {.network = sim_network(ranks), .arg = &sums, .run = sum_again_and_again};

    CHECK(sim_job_run(&job) == WRING_OK, "%u ranks do not end", ranks);
    CHECK(job.unopened == 0, "%u of %u sessions did not open", job.unopened, ranks);
    CHECK(sums.wrong == 0, "%u wrong sums of %u ranks", sums.wrong, ranks);
    sim_job_end(&job);
    return sums;
}

static void sums_are_right(void)
{
    static const uint32_t ranks[] = {2, 3, 8, 9, 32};
    static const uint64_t elems[] = {1, 1024, 30000};
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
        for (size_t e = 0; e < sizeof(elems) / sizeof(elems[0]); e++)
            run_sums(ranks[r], elems[e]);
}

/** What two ranks exchange crosses, so it takes as long as one message. */
static void a_step_of_two_takes_one_message(void)
{
    const struct wring_sim_params network = sim_network(2);
    struct sums sums = run_sums(2, 1024);

    CHECK(sums.step_ns == sim_message_ns(&network, 4096), "%llu ns, not %llu",
          (unsigned long long)sums.step_ns, (unsigned long long)sim_message_ns(&network, 4096));
    CHECK(sums.after.puts - sums.before.puts == 1, "more than one put");
    CHECK(sums.after.put_bytes - sums.before.put_bytes == 4096, "not 4096 bytes");
}

static unsigned count_doublings(uint32_t ranks)
{
    unsigned n = 0;
    while (ranks >= 2u << n)
        n++;
    return n;
}

/** Members exchange all they have summed, twice as far each time. A credit answers each message,
 * and goes out ahead of the next one. */
static void steps_grow_with_the_logarithm(void)
{
    static const uint32_t ranks[] = {16, 20, 64, 256};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        const struct wring_sim_params network = sim_network(ranks[i]);
        struct sums sums = run_sums(ranks[i], 1024);
        unsigned levels = count_doublings(ranks[i]);
        uint64_t puts = sums.after.puts - sums.before.puts;
        uint64_t want_ns =
            levels * sim_message_ns(&network, 4096) + (levels - 1) * network.message_ns;
        bool even = ranks[i] == 1u << levels;

        CHECK(puts >= levels && puts <= levels + (even ? 0 : 2), "%u ranks: %llu puts", ranks[i],
              (unsigned long long)puts);
        CHECK(sums.after.messages - sums.before.messages <= puts + 2, "%u ranks: %llu messages",
              ranks[i], (unsigned long long)(sums.after.messages - sums.before.messages));
        CHECK(!even || sums.step_ns <= want_ns + 100, "%u ranks: %llu ns, not %llu", ranks[i],
              (unsigned long long)sums.step_ns, (unsigned long long)want_ns);
    }
}

static void sum_around(struct sim_job *job, struct wring_session *session, uint32_t rank)
{
    struct sums *sums = job->arg;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    void *data = NULL;

    params.name = "around";
    params.elems = sums->elems;
    params.scheme = WRING_SCHEME_RING;
    enum wring_status status = wring_buffer_alloc(session, sums->elems * sizeof(float), &data);
    params.data = data;
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    for (unsigned step = 0; step < STEPS && status == WRING_OK; step++) {
        for (uint64_t i = 0; i < sums->elems; i++)
            ((float *)data)[i] = contribution(rank, i);
        wring_barrier(wring_session_world(session), NULL, NULL);
        uint64_t begin_ns = wring_sim_now_ns(job->sim);
        if (rank == 1)
            sums->before = wring_sim_sent(job->sim, 1);
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
        if (rank == 1)
            sums->after = wring_sim_sent(job->sim, 1);
        uint64_t took_ns = wring_sim_now_ns(job->sim) - begin_ns;
        sums->step_ns = step == STEPS - 1 && took_ns > sums->step_ns ? took_ns : sums->step_ns;
    }
    if (status != WRING_OK || (rank % 13 == 0 && !is_sum(data, sums->elems, job->network.ranks)))
        sums->wrong++;
}

/** Each turn passes a block on to one neighbour: in one piece it takes as long as that message, in
 * several the port is never idle. Credits and the first piece's way come on top. */
static void rings_take_two_turns_a_rank(void)
{
    static const struct {
        uint32_t ranks, block_elems, pieces;
    } rows[] = {{2, 1024, 1}, {3, 1024, 1}, {64, 1024, 1}, {5, 16384, 4}, {17, 16384, 4}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t ranks = rows[i].ranks, turns = 2 * (ranks - 1), pieces = rows[i].pieces;
        struct sums sums = {.elems = (uint64_t)ranks * rows[i].block_elems};
        struct sim_job job = {.network = sim_network(ranks), .arg = &sums, .run = sum_around};
        uint64_t bytes = rows[i].block_elems * sizeof(float) / pieces;
        uint64_t alone_ns = sim_message_ns(&job.network, bytes);
        uint64_t busy_ns = pieces * (alone_ns - job.network.latency_ns);
        uint64_t want_ns = turns * (alone_ns > busy_ns ? alone_ns : busy_ns);

        CHECK(sim_job_run(&job) == WRING_OK && job.unopened == 0, "%u ranks do not end", ranks);
        CHECK(sums.wrong == 0, "%u wrong sums of %u ranks", sums.wrong, ranks);
        CHECK(sums.after.puts - sums.before.puts == (uint64_t)turns * pieces, "%u ranks: %llu puts",
              ranks, (unsigned long long)(sums.after.puts - sums.before.puts));
        CHECK(sums.after.put_bytes - sums.before.put_bytes == turns * pieces * bytes,
              "%u ranks: %llu bytes", ranks,
              (unsigned long long)(sums.after.put_bytes - sums.before.put_bytes));
        CHECK(sums.step_ns >= want_ns && sums.step_ns <= want_ns + want_ns / 16 + alone_ns,
              "%u ranks: %llu ns, not %llu", ranks, (unsigned long long)sums.step_ns,
              (unsigned long long)want_ns);
        sim_job_end(&job);
    }
}

static void runs_repeat(void)
{
    struct sums one = run_sums(16, 5000), other = run_sums(16, 5000);

    CHECK(one.step_ns == other.step_ns && memcmp(&one.after, &other.after, sizeof(one.after)) == 0,
          "%llu and %llu ns", (unsigned long long)one.step_ns, (unsigned long long)other.step_ns);
}

/* ---- death ---- */

struct death {
    uint32_t victim;
    uint64_t died_ns, heard_ns; /* by the last one */
    uint32_t heard, other;      /* ranks that were told so; or something else */
};

static void die_or_hear(struct sim_job *job, struct wring_session *session, uint32_t rank)
{
    struct death *death = job->arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    float one = 1;

    if (wring_barrier(wring_session_world(session), NULL, NULL) != WRING_OK)
        death->other++;
    if (rank == death->victim) {
        wring_sim_sleep_until(job->sim, wring_sim_now_ns(job->sim) + 1000000);
        death->died_ns = wring_sim_now_ns(job->sim);
        wring_sim_kill(job->sim, rank);
        return;
    }
    enum wring_status status = wring_allreduce(wring_session_world(session), &one, &one, 1,
                                               WRING_F32, WRING_SUM, NULL, NULL);
    wring_session_error(session, &detail);
    if (status == WRING_ERR_PEER && detail.rank == (int32_t)death->victim)
        death->heard++;
    else
        death->other++;
    if (wring_sim_now_ns(job->sim) > death->heard_ns)
        death->heard_ns = wring_sim_now_ns(job->sim);
}

static unsigned count_levels(uint32_t ranks)
{
    unsigned levels = 0;
    for (uint32_t last = ranks - 1; last > 0; last = (last - 1) / 8)
        levels++;
    return levels;
}

static void deaths_are_heard_by_all(void)
{
    static const uint32_t ranks[] = {2, 9, 40};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        for (uint32_t victim = 0; victim < ranks[i]; victim += ranks[i] < 10 ? 1 : 13) {
            struct death death = {.victim = victim};
            struct sim_job job = {
                .network = sim_network(ranks[i]), .arg = &death, .run = die_or_hear};
            uint64_t most_ns = 10000000 + 1000000 * (uint64_t)count_levels(ranks[i]);

            CHECK(sim_job_run(&job) == WRING_OK, "%u ranks do not end", ranks[i]);
            CHECK(death.heard == ranks[i] - 1 && death.other == 0, "%u of %u heard; %u did not",
                  death.heard, ranks[i] - 1, death.other);
            CHECK(death.heard_ns - death.died_ns <= most_ns, "rank %u of %u: %llu ns", victim,
                  ranks[i], (unsigned long long)(death.heard_ns - death.died_ns));
            sim_job_end(&job);
        }
}

/* ---- good-byes ---- */

#define SPREAD_NS 20000000 /* between the first good-bye and the last */

struct leaving {
    bool apart; /* not all at once */
    struct wring_sim_counts *before;
};

static char byte; /* of messages that nobody sends */

/** Wait in a call, where good-byes of others are heard. */
static void wait_for(struct wring_session *session, uint64_t ns)
{
    struct wring_request *request;

    if (wring_recv(wring_session_world(session), &byte, 1, WRING_ANY_SOURCE, 0, NULL, &request) ==
        WRING_OK)
        wring_request_wait(request, ns, NULL);
}

static void leave(struct sim_job *job, struct wring_session *session, uint32_t rank)
{
    struct leaving *leaving = job->arg;

    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    if (leaving->apart)
        wait_for(session,
                 (uint64_t)rank * 7919 % job->network.ranks * SPREAD_NS / job->network.ranks);
    leaving->before[rank] = wring_sim_sent(job->sim, rank);
}

/** The most and the mean of the messages that a rank sends as it closes its session. */
static void count_good_byes(uint32_t ranks, bool apart, uint64_t *most, double *mean)
{
    struct leaving leaving = {apart, calloc(ranks, sizeof(*leaving.before))};
    struct sim_job job = {.network = sim_network(ranks), .arg = &leaving, .run = leave};

    REQUIRE(leaving.before != NULL, "no memory");
    CHECK(sim_job_run(&job) == WRING_OK, "%u ranks do not end", ranks);
    CHECK(job.unopened == 0, "%u of %u sessions did not open", job.unopened, ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t n = wring_sim_sent(job.sim, i).messages - leaving.before[i].messages;
        *most = n > *most ? n : *most;
        *mean += (double)n / ranks;
    }
    sim_job_end(&job);
    free(leaving.before);
}

/** Each other rank's good-bye once would be as many as there are ranks. */
static void good_byes_are_few(void)
{
    static const uint32_t ranks[] = {16, 64, 512};
    for (size_t i = 0; i < 2 * sizeof(ranks) / sizeof(ranks[0]); i++) {
        uint32_t n = ranks[i / 2];
        uint64_t most = 0;
        double mean = 0;

        count_good_byes(n, i % 2 == 1, &most, &mean);
        /* who is the parent of many whose own has left sends them more */
        CHECK(i % 2 == 1 || most <= 24 * count_doublings(n), "%u ranks: %llu messages at most", n,
              (unsigned long long)most);
        CHECK(mean <= 8 * count_doublings(n), "%u ranks: %.1f messages in the mean", n, mean);
    }
}

struct departure {
    uint32_t leaves, waits; /* ranks; they are no neighbours and have no connection */
    uint64_t left_ns, heard_ns;
    uint32_t blamed;
};

static void leave_or_wait(struct sim_job *job, struct wring_session *session, uint32_t rank)
{
    struct departure *departure = job->arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    struct wring_request *request;

    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    if (rank == departure->leaves) {
        wait_for(session, 1000000);
        departure->left_ns = wring_sim_now_ns(job->sim);
        return;
    }
    uint32_t from = rank == departure->waits ? departure->leaves : WRING_ANY_SOURCE;
    CHECK(wring_recv(wring_session_world(session), &byte, 1, from, 7, NULL, &request) == WRING_OK,
          "receive");
    enum wring_status status = wring_request_wait(request, WRING_FOREVER, NULL);
    wring_session_error(session, &detail);
    departure->blamed += status == WRING_ERR_PEER && detail.rank == (int32_t)departure->leaves;
    if (rank == departure->waits)
        departure->heard_ns = wring_sim_now_ns(job->sim);
}

static void who_waits_for_one_that_leaves_hears_it(void)
{
    static const uint32_t pairs[][2] = {{199, 6}, {3, 250}, {0, 255}, {255, 0}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct departure departure = {.leaves = pairs[i][0], .waits = pairs[i][1]};
        struct sim_job job = {.network = sim_network(256), .arg = &departure, .run = leave_or_wait};
        uint64_t most_ns = 10000000 + 1000000 * (uint64_t)count_levels(256);

        CHECK(sim_job_run(&job) == WRING_OK, "256 ranks do not end");
        CHECK(departure.blamed == 255, "%u of 255 blame rank %u", departure.blamed, pairs[i][0]);
        CHECK(departure.heard_ns - departure.left_ns <= most_ns, "rank %u of rank %u: %llu ns",
              pairs[i][1], pairs[i][0],
              (unsigned long long)(departure.heard_ns - departure.left_ns));
        sim_job_end(&job);
    }
}

#define QUIET_NS 300000000 /* after the last good-bye: nothing is under way any more */

struct exodus {
    uint32_t seed;
    uint32_t stay_of_16; /* ranks; at least one stays */
    uint64_t spread_ns;
    uint32_t stayed, missed, lost; /* good-byes that one which stays has not heard; failures */
};

static uint32_t draw(const struct exodus *exodus, uint32_t rank, uint32_t which)
{
    uint32_t random = exodus->seed * 7919 + rank * 2 + which + 1;
    for (int i = 0; i < 4; i++)
        wring_test_random(&random);
    return wring_test_random(&random);
}

static bool stays(const struct exodus *exodus, uint32_t rank, uint32_t ranks)
{
    return draw(exodus, rank, 0) % 16 < exodus->stay_of_16 || rank == exodus->seed % ranks;
}

static void leave_some_time_or_listen(struct sim_job *job, struct wring_session *session,
                                      uint32_t rank)
{
    struct exodus *exodus = job->arg;
    uint32_t ranks = job->network.ranks;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;

    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    uint64_t begin_ns = wring_sim_now_ns(job->sim);
    if (!stays(exodus, rank, ranks)) {
        if (exodus->spread_ns > 0)
            wait_for(session, draw(exodus, rank, 1) % exodus->spread_ns);
        return;
    }
    wait_for(session, exodus->spread_ns + QUIET_NS);
    wring_sim_sleep_until(job->sim, begin_ns + exodus->spread_ns + QUIET_NS);
    exodus->stayed++;
    for (uint32_t other = 0; other < ranks; other++)
        exodus->missed += !stays(exodus, other, ranks) && !session->fabric->peers[other].left;
    wring_session_error(session, &detail);
    exodus->lost += detail.status != WRING_OK && strstr(detail.text, "closed its session") == NULL;
    /* nobody leaves before all have looked */
    wring_sim_sleep_until(job->sim, begin_ns + exodus->spread_ns + 2 * (uint64_t)QUIET_NS);
}

/** A parent may close at the same moment as its child, and so may the parent's own. The tree of 300
 * is no deeper than that of 90, and takes long: once is enough. */
static void no_good_bye_is_missed(void)
{
    static const uint32_t ranks[] = {3, 12, 90, 300}, stay[] = {0, 2, 8};
    static const uint64_t spreads[] = {0, 50000, 1000000, 20000000};
    uint32_t seed = 1;

    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
        for (size_t s = 0; s < sizeof(spreads) / sizeof(spreads[0]); s++)
            for (size_t k = 0; k < 3 * sizeof(stay) / sizeof(stay[0]); k++, seed++) {
                struct exodus exodus = {
                    .seed = seed, .stay_of_16 = stay[k / 3], .spread_ns = spreads[s]};
                if (ranks[r] > 100 && k % 3 != s % 3)
                    continue;
                struct sim_job job = {.network = sim_network(ranks[r]),
                                      .arg = &exodus,
                                      .run = leave_some_time_or_listen};

                CHECK(sim_job_run(&job) == WRING_OK, "%u ranks do not end", ranks[r]);
                CHECK(job.unopened == 0, "%u sessions did not open", job.unopened);
                CHECK(exodus.missed == 0 && exodus.lost == 0,
                      "seed %u, %u ranks within %llu ns: %u that stay have missed %u, lost %u",
                      seed, ranks[r], (unsigned long long)spreads[s], exodus.stayed, exodus.missed,
                      exodus.lost);
                sim_job_end(&job);
            }
}

static const struct wring_test_case cases[] = {
    {"sums_are_right", sums_are_right},
    {"a_step_of_two_takes_one_message", a_step_of_two_takes_one_message},
    {"steps_grow_with_the_logarithm", steps_grow_with_the_logarithm},
    {"rings_take_two_turns_a_rank", rings_take_two_turns_a_rank},
    {"runs_repeat", runs_repeat},
    {"deaths_are_heard_by_all", deaths_are_heard_by_all},
    {"good_byes_are_few", good_byes_are_few},
    {"who_waits_for_one_that_leaves_hears_it", who_waits_for_one_that_leaves_hears_it},
    {"no_good_bye_is_missed", no_good_bye_is_missed},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
