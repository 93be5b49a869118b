/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles: what files say, codecs by spec, and buckets that were measured later. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/planner/good_profile.h"
#include "tests/planner/json_cases.h"

/** What adds has a number of its own, or none. */
static void check_adding(const struct wring_profile *profile)
{
    const struct wring_profile_coding *cpu = &profile->codecs[0].at[WRING_SITE_CPU];
    const struct wring_profile_coding *device = &profile->codecs[1].at[WRING_SITE_DEVICE];
    const struct wring_profile_coder *coder = &profile->codecs[1].coders[0];

    CHECK(wring_profile_decoding(&cpu->decode_us, &cpu->decode_add_us, true) == &cpu->decode_us,
          "nobody has said what adding takes");
    CHECK(wring_cost_at(wring_profile_decoding(&device->decode_us, &device->decode_add_us, false),
                        8) == 3 &&
              wring_cost_at(
                  wring_profile_decoding(&device->decode_us, &device->decode_add_us, true), 8) == 7,
          "decoding into place, and adding");
    CHECK(device->decode_trust.samples == 0 && device->decode_add_trust.samples == 9, "its trust");
    CHECK(wring_cost_at(&coder->decode.us, 9) == 2 &&
              wring_cost_at(&coder->decode_add.us, 9) == 4 && coder->decode_add.trust.samples == 6,
          "by executor");
}

static void fields(void)
{
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    CHECK(strcmp(profile->name, "mine") == 0 && strcmp(profile->machine, "A") == 0 &&
              strcmp(profile->source, "calibrate") == 0 && profile->chunked &&
              profile->nodes == 2 && profile->ranks_per_node == 4,
          "head");
    CHECK(!profile->links[WRING_LEVEL_INTRA].present, "a link that was not there");
    const struct wring_profile_link *inter = &profile->links[WRING_LEVEL_INTER];
    CHECK(inter->present && strcmp(inter->provider, "tcp") == 0 && inter->latency_us == 30 &&
              wring_cost_at(&inter->us, 500) == 5.75,
          "inter");
    CHECK(inter->latency_trust.samples == 18 && inter->latency_trust.doubtful == 1, "its latency");
    CHECK(wring_cost_at(&inter->put.latency.us, 10) == 7 &&
              wring_cost_at(&inter->put.each.us, 12) == 8 && inter->put.each.trust.samples == 3,
          "puts");
    const struct wring_profile_routine *alltoall = wring_profile_routine(inter, "alltoall");
    CHECK(inter->n_routines == 2 && alltoall != NULL && alltoall->latency_us == 11 &&
              wring_cost_at(&alltoall->us, 4) == 8 &&
              wring_profile_routine(inter, "gather") == NULL,
          "steps");
    CHECK(inter->trust.error == 0.07 && inter->trust.samples == 17 && inter->trust.noisy == 5,
          "its trust");
    const struct wring_profile_codec *int8 = &profile->codecs[0];
    CHECK(int8->at[WRING_SITE_CPU].encode_trust.samples == 0, "who said so?");
    const struct wring_profile_trust *copies = &profile->copy_trust;
    CHECK(copies->error == 0.01 && copies->spread == 0.06 && copies->doubt == 0.02 &&
              copies->samples == 11 && copies->points == 7 && copies->noisy == 2,
          "trust in copies");
    CHECK(int8->nmse == 0.001 && isnan(profile->codecs[1].nmse), "nmse");
    CHECK(!int8->at[WRING_SITE_DEVICE].present && int8->at[WRING_SITE_CPU].present &&
              !int8->two_level[WRING_SITE_CPU].present,
          "sites");
    CHECK(wring_cost_at(&int8->at[WRING_SITE_CPU].encode_us, 4) == 2 &&
              wring_cost_at(&int8->at[WRING_SITE_CPU].decode_us, 4) == 0,
          "coding");
    check_adding(profile);
    good_profile_check_round_trip(profile);
    wring_profile_destroy(profile);
    wring_profile_destroy(NULL);
}

/** Does a change show in the hash? It is taken back. */
static void check_hashed(struct wring_profile *profile, double *number, const char *what)
{
    uint64_t hash = profile->hash;
    double before = *number;

    *number += 1;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "%s", what);
    *number = before;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash == hash, "%s, back", what);
}

/** What a codec is, beside its times. */
static void traits(void)
{
    struct wring_profile *profile = good_traits_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    struct wring_profile_traits *int8 = &profile->codecs[0].traits;
    struct wring_profile_way_back *back = &int8->way_back;
    struct wring_profile_coding *cpu = &profile->codecs[0].at[WRING_SITE_CPU];
    const struct wring_profile_traits *none = &profile->codecs[1].traits;
    CHECK(int8->alters && int8->rounds == 2 && int8->state_bytes == 6 &&
              wring_cost_at(&int8->round_bytes, 10) == 45,
          "rounds and state");
    CHECK(wring_cost_at(&back->bytes, 2) == 8 && wring_cost_at(&back->most_bytes, 2) == 16 &&
              wring_cost_at(&back->encode_us, 2) == 10 &&
              wring_cost_at(&back->decode_us, 2) == 12 && back->nmse == 0.7,
          "the way back");
    CHECK(wring_cost_at(&cpu->state_us, 4) == 15 && strcmp(cpu->source, "a paper") == 0, "coding");
    CHECK(!none->alters && none->rounds == 0 && none->state_bytes == 0 &&
              none->round_bytes.n == 0 && none->way_back.bytes.n == 0,
          "nobody said that");
    check_hashed(profile, &int8->state_bytes, "state");
    check_hashed(profile, &int8->round_bytes.slope, "rounds");
    check_hashed(profile, &back->most_bytes.slope, "the way back");
    check_hashed(profile, &back->decode_us.slope, "its decoding");
    check_hashed(profile, &back->nmse, "its error");
    check_hashed(profile, &cpu->state_us.slope, "state beside coding");
    struct wring_profile_coder *coder = &profile->codecs[0].coders[0];
    CHECK(wring_cost_at(wring_profile_summing(cpu, WRING_SITE_CPU), 4) == 6 &&
              cpu->sum_trust.samples == 8,
          "adding codes");
    CHECK(wring_cost_at(&coder->sum.us, 9) == 6 && coder->sum.trust.samples == 7, "by executor");
    check_hashed(profile, &cpu->sum_us.slope, "adding codes");
    check_hashed(profile, &coder->sum.us.slope, "by executor");
    uint64_t hash = profile->hash;
    cpu->source[0] = '\0';
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash == hash, "words");
    int8->alters = false;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "alters");
    good_profile_check_round_trip(profile);
    wring_profile_destroy(profile);
}

/** Files that say nothing of all that keep their hash, which plans have been made for. */
static void older_files(void)
{
    static const char text[] =
        "{\"format\": \"wring-profile\", \"version\": 1, \"name\": \"old\", \"machine\": \"\",\n"
        " \"nodes\": 2, \"ranks_per_node\": 1, \"chunked\": false,\n"
        " \"links\": {\"inter\": {\"provider\": \"tcp\", \"latency_us\": 60,\n"
        "   \"us_by_bytes\": {\"corners\": [[0, 0]], \"slope\": 0.5}}},\n"
        " \"codecs\": [{\"spec\": \"bf16\", \"summable\": false, \"feedback\": true,\n"
        "   \"nmse\": 0.25, \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 2},\n"
        "   \"at\": {\"cpu\": {\"encode_us\": {\"corners\": [[0, 1]], \"slope\": 4},\n"
        "     \"decode_us\": {\"corners\": [[0, 1]], \"slope\": 8}}}}]}\n";
    const struct wring_log log = {.level = WRING_LOG_ERROR};
    struct wring_profile *profile = NULL;
    char path[64];
    int fd = json_text_open(text, strlen(text), path);

    REQUIRE(wring_profile_load(path, &log, &profile) == WRING_OK, "refused");
    CHECK(profile->hash == 0x7dba58b3c07a0629, "another hash: %016llx",
          (unsigned long long)profile->hash);
    const struct wring_profile_coding *cpu = &profile->codecs[0].at[WRING_SITE_CPU];
    CHECK(cpu->sum_us.n == 0 && wring_profile_summing(cpu, WRING_SITE_CPU) == &cpu->decode_us &&
              wring_profile_summing(cpu, WRING_SITE_DEVICE)->n == 0,
          "adding codes counts as decoding them, and on a device as nothing");
    wring_profile_destroy(profile);
    close(fd);
}

static void collectives(void)
{
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    CHECK(profile->n_collectives == 2 && fabs(wring_cost_at(&profile->copy_us, 1e4) - 1) < 1e-12,
          "parts");
    const struct wring_measured_collective *collective =
        wring_profile_find_collective(profile, "none", "auto", 0);
    REQUIRE(collective == &profile->collectives[0], "the first collective");
    CHECK(wring_cost_at(&collective->solo.us, 2560) == 12 &&
              wring_cost_at(&collective->busy.us, 2024) == 6 &&
              wring_cost_at(&collective->cpu.us, 1e9) == 4 &&
              wring_cost_at(&collective->wire_bytes, 10) == 40,
          "its costs");
    CHECK(collective->ranks == 8 && collective->cores == 4 && collective->max_elems == 4096 &&
              collective->solo.trust.error == 0.02 && collective->solo.trust.spread == 0.4 &&
              collective->solo.trust.doubt == 0.1 && collective->solo.trust.samples == 13 &&
              collective->solo.trust.points == 2 && collective->solo.trust.noisy == 1,
          "its trust");
    CHECK(wring_profile_find_collective(profile, "none", "auto", 4) == NULL &&
              wring_profile_find_collective(profile, "none", "divisible", 0) == NULL &&
              wring_profile_find_collective(profile, "bf16", "divisible", 2) ==
                  &profile->collectives[1],
          "found by codec, scheme and ranks");
    uint64_t hash = profile->hash;
    profile->collectives[1].cpu.us.slope = 1e-9;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "hashed to the end");
    wring_profile_destroy(profile);
}

/** With which tuning a collective was measured; nobody having said so counts as the default. */
static void tunings(void)
{
    const struct wring_tuning usual = {0, 256 << 10}, other = {2, 1 << 16};
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    const struct wring_measured_collective *collective = &profile->collectives[0];
    CHECK(collective->coder_cores == 0 && collective->chunk_bytes == 0, "nobody said");
    CHECK(wring_profile_collective_at(profile, "none", "auto", 8, &usual) == collective &&
              wring_profile_collective_at(profile, "none", "auto", 8, &other) == NULL,
          "the default");
    uint64_t hash = profile->hash;
    profile->collectives[0].chunk_bytes = usual.chunk_bytes;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "that it is said");
    CHECK(wring_profile_collective_at(profile, "none", "auto", 8, &usual) == collective, "said");
    good_profile_check_round_trip(profile);
    CHECK(wring_profile_collective_at(profile, "bf16", "divisible", 2, &usual) == NULL &&
              wring_profile_collective_at(profile, "bf16", "divisible", 2, &other) ==
                  &profile->collectives[1],
          "another one");
    wring_profile_destroy(profile);
}

/** By the tensor's name, else of all; of two codecs the sum; what a budget is held against. */
static void errors(void)
{
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    CHECK(profile->errors.n_steps == 16 && profile->errors.gradients == 0x00ff00ff00ff00ff &&
              strcmp(profile->errors.source, "a training") == 0,
          "head");
    CHECK(profile->errors.codecs[1].all.nmse == 0.75 &&
              profile->errors.codecs[1].each[0].nmse == 0.9,
          "nmse");
    CHECK(wring_profile_error(profile, "int8", "w") == 0.5 &&
              wring_profile_error(profile, "int8", "b") == 0.125 &&
              wring_profile_error(profile, "int8", "else") == 0.25 &&
              wring_profile_error(profile, "int8", NULL) == 0.25,
          "int8");
    CHECK(wring_profile_error(profile, "onebit+ef>int8", "w") == 0.53125, "two collectives");
    CHECK(wring_profile_error(profile, "none>int8", "w") == 0.5 &&
              wring_profile_error(profile, "int8>none", "b") == 0.125,
          "one direction coded");
    CHECK(isnan(wring_profile_error(profile, "bf16", "w")) &&
              isnan(wring_profile_error(profile, "bf16>int8", NULL)) &&
              isnan(wring_profile_error(profile, "", "w")),
          "never measured");
    uint64_t hash = profile->hash;
    profile->errors.codecs[1].each[1].fed = 3;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "hashed to the end");
    wring_profile_destroy(profile);
}

static void computing(void)
{
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    const struct wring_profile_computing *computing = &profile->computing;
    CHECK(computing->present && computing->wake_us == 19 && computing->wake_doubt_us == 2 &&
              computing->spin_lost == 0.625 && computing->spin_doubt == 0.03 &&
              strcmp(computing->spin_codec, "fp16") == 0 && computing->spin_coded_lost == 0.6 &&
              computing->spin_coded_doubt == 0.7 && computing->core_share == 0.5 &&
              computing->samples == 20,
          "what collectives lose to computing");
    uint64_t hash = profile->hash;
    profile->computing.spin_lost = 0.5;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "hashed");
    wring_profile_destroy(profile);
}

static void codecs(void)
{
    static const struct {
        const char *spec;
        bool known;
        double bytes; /* of 1000 elements */
    } specs[] = {
        {"none", true, 4000},
        {"int8", true, 1066.5},
        {"int8:block=32", false, 0},
        {"topk:ratio=0.01+ef", true, 80.16},
        {"topk:ratio=1+ef", true, 8016},
        {"topk:ratio=1.5+ef", false, 0},
        {"topk:ratio=0+ef", false, 0},
        {"topk:ratio=-1+ef", false, 0},
        {"topk:ratio=nan+ef", false, 0},
        {"topk:ratio=0.01", false, 0},
        {"topk:ratio=R+ef", false, 0},
        {"", false, 0},
    };
    struct wring_profile *profile = good_profile_load();

    REQUIRE(profile != NULL, "the good profile is refused");
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct wring_profile_codec codec = {0};
        struct json_log log;
        json_log_init(&log);
        enum wring_status status = wring_profile_codec(profile, specs[i].spec, &log.log, &codec);
        CHECK(status == (specs[i].known ? WRING_OK : WRING_ERR_INVALID), "%s: status %d",
              specs[i].spec, status);
        CHECK(log.n == !specs[i].known, "%s: %u lines", specs[i].spec, log.n);
        CHECK(!specs[i].known ||
                  fabs(wring_cost_at(&codec.wire_bytes, 1000) - specs[i].bytes) < 1e-9,
              "%s: %g bytes", specs[i].spec, wring_cost_at(&codec.wire_bytes, 1000));
        CHECK(specs[i].known || strstr(log.line, "it has none, int8, topk:ratio=R+ef") != NULL,
              "%s", log.line);
    }
    wring_profile_destroy(profile);
}

static void larger_buckets(void)
{
    const struct wring_profile_trust shaky = {0.1, 0.3, 0.02, 7, 3, 2, 1},
                                     firm = {0, 0, 0.05, 9, 3, 1, 0};
    struct wring_profile_curve curve = {wring_cost_line(1, 1), shaky};
    struct wring_measured_collective collective = {
        .max_elems = 4096, .solo = curve, .busy = curve, .cpu = curve};
    struct wring_measured_collective larger = collective;

    larger.max_elems = 65536;
    larger.solo = (struct wring_profile_curve){wring_cost_line(1, 2), firm};
    larger.solo.us.corners[0].x = 65536;
    larger.solo.us.corners[0].y = 1e5;
    wring_profile_extend_collective(&collective, &larger, 1);
    CHECK(collective.max_elems == 65536, "%zu elements", (size_t)collective.max_elems);
    CHECK(wring_cost_at(&collective.solo.us, 4096) == 4097, "what it knew is another");
    CHECK(wring_cost_at(&collective.solo.us, 65537) == 1e5 + 2, "not what is larger");
    const struct wring_profile_trust *trust = &collective.solo.trust;
    CHECK(trust->error == 0.1 && trust->spread == 0.3 && trust->doubt == 0.05, "not the worse");
    CHECK(trust->samples == 7 && trust->points == 5 && trust->noisy == 3, "other points");
    larger.max_elems = 1024;
    wring_profile_extend_collective(&collective, &larger, 1);
    CHECK(collective.max_elems == 65536 && trust->points == 5, "what is smaller changed it");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"fields", fields},
        {"traits", traits},
        {"older_files", older_files},
        {"ways", collectives},
        {"larger_buckets", larger_buckets},
        {"tunings", tunings},
        {"errors", errors},
        {"computing", computing},
        {"codecs", codecs},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
