/* SPDX-License-Identifier: Apache-2.0 */
/** What of a calibration is noise does not stay because the rest is good. */
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tools/calibrate/calibrate.h"

#define SOME                                     \
    {                                            \
        .samples = 5, .points = 8, .doubtful = 2 \
    }
#define MOST                                     \
    {                                            \
        .samples = 5, .points = 8, .doubtful = 3 \
    }

/** A profile of two codecs of two executors each, and what was measured of it. */
struct made {
    struct wring_profile profile;
    struct wring_profile_codec codecs[2];
    struct wring_measured_collective collectives[4];
    struct wring_calibrate_params params;
    struct wring_calibration job;
};

static void add_case(struct made *made, const char *codec, const char *run_as)
{
    struct wring_measured_collective *collective =
        &made->collectives[made->profile.n_collectives++];

    snprintf(collective->codec, sizeof(collective->codec), "%s", codec);
    snprintf(collective->run_as, sizeof(collective->run_as), "%s", run_as);
    collective->solo.trust = collective->busy.trust = collective->cpu.trust =
        (struct wring_profile_trust)SOME;
}

static void set_up(struct made *made)
{
    static const char *const specs[] = {"bf16", "int8"};

    *made = (struct made){.params = {.name = "test", .doubtful_max = 0.25}};
    made->job.params = &made->params;
    made->job.wants = (struct wring_calibrate_wants){.links = 1,
                                                     .copies = 1,
                                                     .codecs = {3, {"none", "bf16", "int8"}},
                                                     .coded = {2, {"bf16", "int8"}}};
    made->profile.codecs = made->codecs;
    made->profile.collectives = made->collectives;
    made->profile.n_codecs = 2;
    for (int i = 0; i < 2; i++) {
        snprintf(made->codecs[i].spec, sizeof(made->codecs[i].spec), "%s", specs[i]);
        made->codecs[i].at[WRING_SITE_CPU].encode_trust = (struct wring_profile_trust)SOME;
        made->codecs[i].n_coders = 2;
        made->codecs[i].coders[1].cores = 1;
    }
    add_case(made, "none", "auto");
    add_case(made, "bf16", "divisible");
    add_case(made, "bf16", "indivisible");
    add_case(made, "int8", "divisible");
}

static void what_is_known_stays(void)
{
    struct made made;

    set_up(&made);
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "refused");
    CHECK(made.profile.n_codecs == 2 && made.profile.n_collectives == 4 &&
              made.codecs[0].n_coders == 2,
          "%u codecs, %u collectives", made.profile.n_codecs, made.profile.n_collectives);
}

static void noise_goes_by_itself(void)
{
    struct made made;

    set_up(&made);
    made.codecs[0].at[WRING_SITE_CPU].decode_add_trust = (struct wring_profile_trust)MOST;
    made.codecs[1].coders[0].encode.trust = (struct wring_profile_trust)MOST;
    made.codecs[1].at[WRING_SITE_CPU].sum_us.n = made.codecs[1].coders[1].sum.us.n = 1;
    made.codecs[1].at[WRING_SITE_CPU].sum_trust = (struct wring_profile_trust)MOST;
    made.codecs[1].coders[1].sum.trust = (struct wring_profile_trust)SOME;
    made.collectives[2].busy.trust = (struct wring_profile_trust)MOST;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "refused");
    CHECK(made.profile.n_codecs == 1 && strcmp(made.codecs[0].spec, "int8") == 0, "%u codecs",
          made.profile.n_codecs);
    CHECK(made.codecs[0].n_coders == 1 && made.codecs[0].coders[0].cores == 1, "%u coders",
          made.codecs[0].n_coders);
    /* adding its codes counts as decoding and adding them */
    CHECK(made.codecs[0].at[WRING_SITE_CPU].sum_us.n == 0, "adding codes");
    CHECK(made.codecs[0].coders[0].sum.us.n == 1, "adding codes on a core");
    /* all of bf16's collectives, so that the next run misses them */
    CHECK(made.profile.n_collectives == 2 && strcmp(made.collectives[1].codec, "int8") == 0,
          "%u collectives", made.profile.n_collectives);
}

/** Sift, and keep what is said. @param said  out, [bytes] */
static void listen_to_sift(struct made *made, char *said, size_t bytes)
{
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);

    said[0] = '\0';
    REQUIRE(file != NULL && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0, "no file");
    int code = wring_calibrate_sift(&made->job, &made->profile);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    said[fread(said, 1, bytes - 1, file)] = '\0';
    fclose(file);
    CHECK(code == 0, "refused");
}

/** A run finds missing codecs by itself, but not an executor of one. */
static void lines_say_what_measures_it_again(void)
{
    struct made made;
    char said[1024];

    set_up(&made);
    made.codecs[0].at[WRING_SITE_CPU].encode_trust = (struct wring_profile_trust)MOST;
    listen_to_sift(&made, said, sizeof(said));
    CHECK(strstr(said, "the same command measures it again") != NULL, "%s", said);
    set_up(&made);
    made.codecs[1].coders[1].decode.trust = (struct wring_profile_trust)MOST;
    listen_to_sift(&made, said, sizeof(said));
    CHECK(strstr(said, "int8 on 1 pinned cores is left out") != NULL &&
              strstr(said, "--coding 'int8' measures it again") != NULL,
          "%s", said);
}

static void what_was_there_is_left_alone(void)
{
    struct made made;

    set_up(&made);
    made.job.wants.codecs.n = 2; /* of int8 nothing was measured now */
    made.job.wants.coded.n = 1;
    made.codecs[1].at[WRING_SITE_CPU].decode_trust = (struct wring_profile_trust)MOST;
    made.collectives[3].cpu.trust = (struct wring_profile_trust)MOST;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "refused");
    CHECK(made.profile.n_codecs == 2 && made.profile.n_collectives == 4,
          "%u codecs, %u collectives", made.profile.n_codecs, made.profile.n_collectives);
}

static void links_lose_what_is_noise(void)
{
    struct made made;

    set_up(&made);
    struct wring_profile_link *link = &made.profile.links[WRING_LEVEL_INTER];
    link->put.latency.us.n = link->put.each.us.n = 1;
    link->n_routines = 2;
    snprintf(link->routines[1].name, sizeof(link->routines[1].name), "alltoall");
    link->routines[0].latency_trust = (struct wring_profile_trust)MOST;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "refused");
    CHECK(link->n_routines == 1 && link->put.latency.us.n == 1 &&
              wring_profile_routine(link, "alltoall") != NULL,
          "%u steps", link->n_routines);
    link->put.each.trust = (struct wring_profile_trust)MOST;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "refused");
    CHECK(link->put.latency.us.n == 0, "puts");
    link->latency_trust = (struct wring_profile_trust)MOST;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 1, "a latency");
}

static void plans_need_some_of_it(void)
{
    const struct wring_profile_trust most = MOST;
    struct made made;

    set_up(&made);
    made.profile.links[WRING_LEVEL_INTER].trust = most;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 1, "noisy links");
    made.params.doubtful_max = 1;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 0, "accepted noise");
    set_up(&made);
    made.profile.copy_trust = most;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 1, "noisy copies");
    set_up(&made);
    made.collectives[0].solo.trust = most;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 1, "noisy raw collectives");
    set_up(&made);
    made.job.wants.codecs = (struct wring_collective_bench_codecs){1, {"int8"}};
    made.collectives[3].busy.trust = most;
    CHECK(wring_calibrate_sift(&made.job, &made.profile) == 1, "nothing that was asked for");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"what_is_known_stays", what_is_known_stays},
        {"noise_goes_by_itself", noise_goes_by_itself},
        {"lines_say_what_measures_it_again", lines_say_what_measures_it_again},
        {"what_was_there_is_left_alone", what_was_there_is_left_alone},
        {"links_lose_what_is_noise", links_lose_what_is_noise},
        {"plans_need_some_of_it", plans_need_some_of_it},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
