/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of several tunings in one profile. */
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/profile.h"
#include "tests/lib/test.h"

static const struct wring_tuning usual = {0, WRING_TUNING_CHUNK_BYTES}, small = {0, 64 << 10},
                                 scaling = {1, WRING_TUNING_CHUNK_BYTES};

static void put(struct wring_profile *profile, const char *codec, double slope, uint64_t max_elems,
                const struct wring_tuning *tuning)
{
    struct wring_measured_collective *collective = &profile->collectives[profile->n_collectives++];

    *collective = (struct wring_measured_collective){.ranks = 2,
                                                     .cores = 2,
                                                     .coder_cores = tuning->cores,
                                                     .chunk_bytes = tuning->chunk_bytes,
                                                     .max_elems = max_elems,
                                                     .solo.us = wring_cost_line(0, slope),
                                                     .busy.us = wring_cost_line(0, slope),
                                                     .cpu.us = wring_cost_line(0, slope)};
    snprintf(collective->codec, sizeof(collective->codec), "%s", codec);
    snprintf(collective->run_as, sizeof(collective->run_as), "auto");
}

static double us_of(const struct wring_profile *profile, const char *codec, double elems,
                    const struct wring_tuning *tuning)
{
    const struct wring_measured_collective *collective =
        wring_profile_collective_at(profile, codec, "auto", 2, tuning);

    CHECK(collective != NULL, "%s with %u cores and %zu bytes is not there", codec, tuning->cores,
          (size_t)tuning->chunk_bytes);
    return collective != NULL ? wring_cost_at(&collective->busy.us, elems) : -1;
}

static void others_are_set_aside(void)
{
    struct wring_profile profile = {.collectives = calloc(8, sizeof(*profile.collectives))};
    struct wring_profile_aside aside;

    put(&profile, "none", 1, 1000, &small);
    put(&profile, "none", 2, 1000, &usual);
    put(&profile, "bf16", 3, 1000, &small);
    REQUIRE(wring_profile_set_aside(&profile, &usual, &aside) == WRING_OK, "aside");
    CHECK(profile.n_collectives == 1 && aside.n == 2, "%u and %u", profile.n_collectives, aside.n);
    put(&profile, "bf16", 4, 1000, &(struct wring_tuning){0});
    REQUIRE(wring_profile_bring_back(&profile, &usual, &aside) == WRING_OK, "back");
    CHECK(profile.n_collectives == 4 && aside.collectives == NULL, "%u collectives",
          profile.n_collectives);
    CHECK(profile.collectives[0].chunk_bytes == usual.chunk_bytes, "the default comes first");
    CHECK(us_of(&profile, "none", 1, &usual) == 2 && us_of(&profile, "none", 1, &small) == 1 &&
              us_of(&profile, "bf16", 1, &usual) == 4 && us_of(&profile, "bf16", 1, &small) == 3,
          "collectives have changed places");

    REQUIRE(wring_profile_set_aside(&profile, &scaling, &aside) == WRING_OK, "aside");
    put(&profile, "none", 5, 1000, &small); /* measured anew, with another tuning */
    REQUIRE(wring_profile_bring_back(&profile, &small, &aside) == WRING_OK, "back");
    CHECK(profile.n_collectives == 4 && us_of(&profile, "none", 1, &small) == 5, "twice");
    free(profile.collectives);
}

static void collectives_without_a_tuning_are_labelled(void)
{
    struct wring_profile profile = {.collectives = calloc(2, sizeof(*profile.collectives))};

    put(&profile, "none", 1, 1000, &small);
    put(&profile, "bf16", 2, 1000, &(struct wring_tuning){0});
    wring_profile_label_collectives(&profile, &scaling);
    CHECK(us_of(&profile, "none", 1, &small) == 1 && us_of(&profile, "bf16", 1, &scaling) == 2,
          "another one has that tuning");
    free(profile.collectives);
}

/** Half of what the known one takes where both were measured is half of it everywhere. */
static void collectives_are_carried_on(void)
{
    struct wring_profile profile = {.collectives = calloc(4, sizeof(*profile.collectives))};

    put(&profile, "none", 2, 1 << 20, &usual);
    put(&profile, "none", 1, 1 << 16, &small);
    put(&profile, "bf16", 1, 1 << 16, &small); /* nothing to go by */
    profile.collectives[0].busy.us = (struct wring_cost){
        .n = 3, .corners = {{1024, 10}, {1 << 16, 100}, {1 << 20, 10000}}, .slope = 0.5};
    profile.collectives[1].busy.us =
        (struct wring_cost){.n = 2, .corners = {{1024, 10}, {1 << 16, 50}}, .slope = 0.001};
    wring_profile_carry_on(&profile, &usual);
    CHECK(us_of(&profile, "none", 1024, &small) == 10, "what was measured is another");
    CHECK(us_of(&profile, "none", 1 << 16, &small) == 50, "likewise");
    CHECK(us_of(&profile, "none", 1 << 20, &small) == 5000, "%g us",
          us_of(&profile, "none", 1 << 20, &small));
    CHECK(us_of(&profile, "none", (1 << 20) + 100, &small) == 5025, "beyond");
    CHECK(us_of(&profile, "none", 1 << 20, &usual) == 10000, "and the other one");
    CHECK(profile.collectives[1].max_elems == 1 << 20 &&
              profile.collectives[2].max_elems == 1 << 16,
          "sizes");
    free(profile.collectives);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"others_are_set_aside", others_are_set_aside},
        {"collectives_without_a_tuning_are_labelled", collectives_without_a_tuning_are_labelled},
        {"collectives_are_carried_on", collectives_are_carried_on},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
