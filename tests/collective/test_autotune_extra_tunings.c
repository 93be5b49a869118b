/* SPDX-License-Identifier: Apache-2.0 */
/* Which tunings a job that plans for itself measures, by what its profile says. */
#include <stdlib.h>
#include <string.h>

#include "runtime/autotune/extra_tunings.h"
#include "tests/lib/test.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define SECOND_NS 1000000000ull

struct said {
    char text[2048];
};

/** A job of two ranks, whose profile knows none and bf16 as configured. */
struct job {
    struct said said;
    struct wring_session session;
    struct wring_profile profile;
    struct wring_measured_collective collectives[16];
    struct wring_autotune autotune;
    struct wring_collective_bench_codecs codecs;
    struct wring_collective_bench_params params;
    struct wring_autotune_extra_tunings found;
};

static void take_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct said *said = arg;
    size_t length = strlen(said->text);
    (void)level;
    (void)module;
    snprintf(said->text + length, sizeof(said->text) - length, "%s\n", text);
}

/** @param us  of an element @param busy  the part of it for which the processor works */
static void add_case(struct job *job, const char *codec, const char *run_as, double us, double busy,
                     const struct wring_tuning *tuning)
{
    struct wring_measured_collective *collective = &job->collectives[job->profile.n_collectives++];

    *collective = (struct wring_measured_collective){.ranks = 2,
                                                     .cores = 8,
                                                     .coder_cores = tuning->cores,
                                                     .chunk_bytes = tuning->chunk_bytes,
                                                     .max_elems = 16 * MIB,
                                                     .solo.us = wring_cost_line(0, us),
                                                     .busy.us = wring_cost_line(0, us),
                                                     .cpu.us = wring_cost_line(0, us * busy)};
    snprintf(collective->codec, sizeof(collective->codec), "%s", codec);
    snprintf(collective->run_as, sizeof(collective->run_as), "%s", run_as);
}

static struct job *make_job(double us, double busy)
{
    struct job *job = calloc(1, sizeof(*job));

    job->session.size = 2;
    job->session.log = (struct wring_log){take_line, &job->said, WRING_LOG_INFO};
    job->profile.collectives = job->collectives;
    job->autotune.session = &job->session;
    job->autotune.profile = &job->profile;
    job->autotune.tunables = (struct wring_autotune_tunables){
        .executor = "inline",
        .chunk_bytes = 256 * KIB,
        .tuning = {0, 256 * KIB},
        .cores = 7,
        .pieces = true,
    };
    job->codecs = (struct wring_collective_bench_codecs){.n = 1, .specs = {"bf16"}};
    job->params =
        (struct wring_collective_bench_params){.max_elems = 64 * MIB, .budget_ns = 2 * SECOND_NS};
    add_case(job, "none", "auto", us, busy, &job->autotune.tunables.tuning);
    add_case(job, "bf16", "divisible", us, busy, &job->autotune.tunables.tuning);
    return job;
}

/** What is found as text, "cores:KiB:codecs ...". */
static void check_found(struct job *job, const char *want)
{
    char got[256] = "";

    job->said.text[0] = '\0';
    wring_autotune_find_extra_tunings(&job->autotune, &job->codecs, &job->params, &job->found);
    for (uint32_t i = 0; i < job->found.n; i++) {
        const struct wring_autotune_extra_tuning *one = &job->found.list[i];
        size_t length = strlen(got);
        snprintf(got + length, sizeof(got) - length, "%s%u:%u:%u", i > 0 ? " " : "",
                 one->tuning.cores, (unsigned)(one->tuning.chunk_bytes / KIB), one->codecs.n);
    }
    CHECK(strcmp(got, want) == 0, "'%s', not '%s'; %s", got, want, job->said.text);
}

static void check_said(const struct job *job, const char *part)
{
    CHECK(strstr(job->said.text, part) != NULL, "no \"%s\" in: %s", part, job->said.text);
}

static void there_are_two_of_each(void)
{
    struct job *job = make_job(0.001, 1);
    struct wring_tuning tuning;

    check_found(job, "0:64:2 0:1024:2 1:256:2 4:256:2");
    job->autotune.tunables.cores = 2;
    check_found(job, "0:64:2 0:1024:2 1:256:2 2:256:2");
    job->autotune.tunables.cores = 1;
    check_found(job, "0:64:2 0:1024:2 1:256:2");
    job->autotune.tunables.pieces = false;
    check_found(job, "1:256:2");
    job->autotune.tunables.cores = 0;
    check_found(job, "");
    CHECK(job->said.text[0] == '\0', "%s", job->said.text);

    tuning = (struct wring_tuning){1, 256 * KIB};
    CHECK(!wring_autotune_may_have(&job->autotune, &tuning), "it has no such leeway");
    job->autotune.tunables.cores = 1;
    CHECK(wring_autotune_may_have(&job->autotune, &tuning), "it has");
    tuning = (struct wring_tuning){1, 64 * KIB};
    CHECK(!wring_autotune_may_have(&job->autotune, &tuning), "pieces are not free");
    tuning = (struct wring_tuning){0, 256 * KIB};
    CHECK(wring_autotune_may_have(&job->autotune, &tuning), "as configured");
    job->autotune.tunables.tuning.chunk_bytes = 0;
    CHECK(!wring_autotune_may_have(&job->autotune, &tuning), "nothing is told apart");
    free(job);
}

/** Of what is known nothing is measured, and nothing said. */
static void what_is_known_is_left_out(void)
{
    static const struct wring_tuning small = {0, 64 * KIB}, large = {0, 1024 * KIB},
                                     one = {1, 256 * KIB};
    struct job *job = make_job(0.001, 1);

    add_case(job, "none", "auto", 0.001, 1, &small);
    check_found(job, "0:64:1 0:1024:2 1:256:2 4:256:2");
    add_case(job, "bf16", "indivisible", 0.001, 1, &small);
    add_case(job, "none", "auto", 0.001, 1, &large);
    add_case(job, "bf16", "divisible", 0.001, 1, &large);
    add_case(job, "bf16", "divisible", 0.001, 1, &one);
    check_found(job, "1:256:1 4:256:2");
    CHECK(strcmp(job->found.list[0].codecs.specs[0], "none") == 0, "%s",
          job->found.list[0].codecs.specs[0]);
    free(job);
}

/** Who waits for a link gains nothing by a core, and who has no codec needs none. */
static void cores_are_for_those_who_work(void)
{
    struct job *job = make_job(0.001, 0.8);

    check_found(job, "0:64:2 0:1024:2");
    check_said(job,
               "262144 bytes with 1 pinned cores are not measured: collectives with codecs wait "
               "for their links");
    job->codecs.n = 0;
    check_found(job, "0:64:1 0:1024:1");
    check_said(job, "no codec may be used");
    free(job);
}

/** Four pieces are 256 Ki elements; with what leads up to them, and of two codecs, three times
 * about 4/3 of that are 2.1 ms. */
static void what_takes_too_long_is_left_out(void)
{
    struct job *job = make_job(0.001, 1);

    job->params.budget_ns = 8 * 6 * 2 * SECOND_NS / 1000; /* 2 ms for a turn */
    check_found(job, "");
    check_said(job, "65536 bytes with 0 pinned cores are not measured: it would take too long for "
                    "WRING_PLAN_SECONDS");
    job->params.budget_ns = 8 * 6 * 3 * SECOND_NS / 1000;
    check_found(job, "0:64:2 0:1024:2 1:256:2 4:256:2");
    job->params.max_elems = 256 * KIB;
    check_found(job, "0:64:2 0:1024:2 1:256:2 4:256:2");
    job->params.max_elems = 256 * KIB - 1;
    check_found(job, "");
    check_said(job, "65536 bytes with 0 pinned cores are not measured: all buckets together have "
                    "too few of them");
    free(job);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"there_are_two_of_each", there_are_two_of_each},
        {"what_is_known_is_left_out", what_is_known_is_left_out},
        {"cores_are_for_those_who_work", cores_are_for_those_who_work},
        {"what_takes_too_long_is_left_out", what_takes_too_long_is_left_out},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
