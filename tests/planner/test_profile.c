/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles: the built-in ones' constants, files, codecs by spec, and whose they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/files/machine.h"
#include "planner/files/profile.h"
#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

static const char good[] =
    "{\"format\": \"wring-profile\", \"version\": 1, \"name\": \"mine\", \"machine\": \"A\",\n"
    " \"source\": \"calibrate\", \"nodes\": 2, \"ranks_per_node\": 4, \"chunked\": true,\n"
    " \"links\": {\"inter\": {\"provider\": \"tcp\", \"latency_us\": 30,\n"
    "   \"us_by_bytes\": {\"corners\": [[0, 5], [1000, 6.5]], \"slope\": 0.01, \"error\": 0.07,\n"
    "    \"spread\": 0.03, \"doubt\": 0.04, \"samples\": 17, \"points\": 9, \"noisy\": 5},\n"
    "   \"latency_trust\": {\"error\": 0, \"spread\": 0.5, \"doubt\": 0.3, \"samples\": 18,\n"
    "    \"points\": 3, \"noisy\": 3, \"doubtful\": 1},\n"
    "   \"put\": {\"latency_us_by_bytes\": {\"corners\": [[8, 6]], \"slope\": 0.5, \"error\": 0,\n"
    "     \"spread\": 0, \"doubt\": 0, \"samples\": 99, \"points\": 4, \"noisy\": 0},\n"
    "    \"us_by_bytes\": {\"corners\": [[8, 2]], \"slope\": 1.5, \"error\": 0,\n"
    "     \"spread\": 0, \"doubt\": 0, \"samples\": 3, \"points\": 4, \"noisy\": 0}},\n"
    "   \"routines\": [{\"routine\": \"alltoall\", \"latency_us\": 11,\n"
    "     \"us_by_bytes\": {\"corners\": [[0, 0]], \"slope\": 2}},\n"
    "    {\"routine\": \"broadcast\", \"latency_us\": 12,\n"
    "     \"us_by_bytes\": {\"corners\": [[0, 0]], \"slope\": 3}}]}},\n"
    " \"codecs\": [\n"
    "  {\"spec\": \"int8\", \"summable\": false, \"feedback\": false, \"nmse\": 0.001,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 4]], \"slope\": 1.0625},\n"
    "   \"at\": {\"cpu\": {\"encode_us\": {\"corners\": [[0, 1]], \"slope\": 0.25},\n"
    "     \"decode_us\": {\"corners\": [], \"slope\": 0}}}},\n"
    "  {\"spec\": \"topk:ratio=R+ef\", \"summable\": false, \"feedback\": true, \"nmse\": null,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 16]], \"slope\": 8},\n"
    "   \"at\": {\"device\": {\"encode_us\": {\"corners\": [], \"slope\": 0},\n"
    "     \"decode_us\": {\"corners\": [[0, 2]], \"slope\": 0.125},\n"
    "     \"decode_add_us\": {\"corners\": [[0, 3]], \"slope\": 0.5, \"error\": 0.01,\n"
    "      \"spread\": 0.06, \"doubt\": 0.02, \"samples\": 9, \"points\": 6, \"noisy\": 0}}},\n"
    "   \"coders\": [{\"cores\": 1, \"tier\": \"scalar\",\n"
    "     \"encode_us\": {\"corners\": [[1, 1]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"decode_us\": {\"corners\": [[1, 2]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"decode_add_us\": {\"corners\": [[1, 4]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 6, \"points\": 1, \"noisy\": 0}}]}\n"
    " ],\n"
    " \"copy_us\": {\"corners\": [[0, 0]], \"slope\": 0.0001, \"error\": 0.01,\n"
    "   \"spread\": 0.06, \"doubt\": 0.02, \"samples\": 11, \"points\": 7, \"noisy\": 2},\n"
    " \"computing\": {\"wake_us\": 19, \"wake_doubt_us\": 2, \"spin_lost\": 0.625, \"core_share\": "
    "0.5,\n"
    "   \"spin_coded\": {\"codec\": \"fp16\", \"lost\": 0.6, \"doubt\": 0.7},\n"
    "   \"spin_doubt\": 0.03, \"samples\": 20},\n"
    " \"ways\": [\n"
    "  {\"codec\": \"none\", \"run_as\": \"auto\", \"ranks\": 8, \"cores\": 4, \"max_elements\": "
    "4096,\n"
    "   \"solo_us\": {\"corners\": [[1024, 9], [4096, 15]], \"slope\": 0.002, \"error\": 0.02,\n"
    "    \"spread\": 0.4, \"doubt\": 0.1, \"samples\": 13, \"points\": 2, \"noisy\": 1},\n"
    "   \"busy_us\": {\"corners\": [[1024, 3]], \"slope\": 0.003, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 12, \"points\": 2, \"noisy\": 0},\n"
    "   \"cpu_us\": {\"corners\": [[1024, 4]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 12, \"points\": 2, \"noisy\": 0},\n"
    "   \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 4}},\n"
    "  {\"codec\": \"bf16\", \"run_as\": \"divisible\", \"ranks\": 2, \"cores\": 1, "
    "\"max_elements\": 1024,\n"
    "   \"coder_cores\": 2, \"chunk_bytes\": 65536,\n"
    "   \"solo_us\": {\"corners\": [[1024, 9]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"busy_us\": {\"corners\": [[1024, 3]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"cpu_us\": {\"corners\": [[1024, 4]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 1}}\n"
    " ],\n"
    " \"errors\": {\"source\": \"a training\", \"gradients\": \"00ff00ff00ff00ff\", \"steps\": "
    "16,\n"
    "  \"tensors\": [\"w\", \"b\"],\n"
    "  \"codecs\": [\n"
    "   {\"spec\": \"int8\", \"nmse\": 0.25, \"nmse_fed\": 0.25,\n"
    "    \"tensors\": [{\"nmse\": 0.5, \"nmse_fed\": 0.5}, {\"nmse\": 0, \"nmse_fed\": 0.125}]},\n"
    "   {\"spec\": \"onebit+ef\", \"nmse\": 0.75, \"nmse_fed\": 0.0625,\n"
    "    \"tensors\": [{\"nmse\": 0.9, \"nmse_fed\": 0.03125}, {\"nmse\": 1, \"nmse_fed\": 2}]}\n"
    "  ]}}\n";

static struct wring_log quiet = {.level = WRING_LOG_ERROR};

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_profile *profile = NULL;
    enum wring_status status = wring_profile_load(path, log, &profile);

    CHECK((status == WRING_OK) == (profile != NULL), "status %d, and a profile or none", status);
    wring_profile_destroy(profile);
    return status;
}

static struct wring_profile *load_text(const char *text, size_t bytes)
{
    struct wring_profile *profile = NULL;
    char path[64];
    int fd = json_text_open(text, bytes, path);

    CHECK(wring_profile_load(path, &quiet, &profile) == WRING_OK, "%s", text);
    close(fd);
    return profile;
}

static enum wring_status save(const void *profile, FILE *file)
{
    return wring_profile_save(profile, file);
}

static void check_round_trip(const struct wring_profile *profile)
{
    size_t bytes, bytes_again;
    char *text = json_text_save(profile, save, &bytes);
    struct wring_profile *copy = load_text(text, bytes);

    REQUIRE(copy != NULL, "%s: what was saved is refused", profile->name);
    CHECK(copy->hash == profile->hash, "%s: another hash", profile->name);
    char *again = json_text_save(copy, save, &bytes_again);
    CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s: another text\n%s",
          profile->name, again);
    free(again);
    free(text);
    wring_profile_destroy(copy);
}

/** What adds has a number of its own, or none. */
static void check_adding(const struct wring_profile *profile)
{
    const struct wring_profile_coding *cpu = &profile->codecs[0].at[WRING_PLACE_CPU];
    const struct wring_profile_coding *device = &profile->codecs[1].at[WRING_PLACE_DEVICE];
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
    struct wring_profile *profile = load_text(good, strlen(good));

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
    CHECK(int8->at[WRING_PLACE_CPU].encode_trust.samples == 0, "who said so?");
    const struct wring_profile_trust *copies = &profile->copy_trust;
    CHECK(copies->error == 0.01 && copies->spread == 0.06 && copies->doubt == 0.02 &&
              copies->samples == 11 && copies->points == 7 && copies->noisy == 2,
          "trust in copies");
    CHECK(int8->nmse == 0.001 && isnan(profile->codecs[1].nmse), "nmse");
    CHECK(!int8->at[WRING_PLACE_DEVICE].present && int8->at[WRING_PLACE_CPU].present &&
              !int8->two_level[WRING_PLACE_CPU].present,
          "places");
    CHECK(wring_cost_at(&int8->at[WRING_PLACE_CPU].encode_us, 4) == 2 &&
              wring_cost_at(&int8->at[WRING_PLACE_CPU].decode_us, 4) == 0,
          "coding");
    check_adding(profile);
    check_round_trip(profile);
    wring_profile_destroy(profile);
    wring_profile_destroy(NULL);
}

static void ways(void)
{
    struct wring_profile *profile = load_text(good, strlen(good));

    REQUIRE(profile != NULL, "the good profile is refused");
    CHECK(profile->n_ways == 2 && fabs(wring_cost_at(&profile->copy_us, 1e4) - 1) < 1e-12, "parts");
    const struct wring_profile_way *way = wring_profile_way(profile, "none", "auto", 0);
    REQUIRE(way == &profile->ways[0], "the first way");
    CHECK(wring_cost_at(&way->solo.us, 2560) == 12 && wring_cost_at(&way->busy.us, 2024) == 6 &&
              wring_cost_at(&way->cpu.us, 1e9) == 4 && wring_cost_at(&way->wire_bytes, 10) == 40,
          "its costs");
    CHECK(way->ranks == 8 && way->cores == 4 && way->max_elems == 4096 &&
              way->solo.trust.error == 0.02 && way->solo.trust.spread == 0.4 &&
              way->solo.trust.doubt == 0.1 && way->solo.trust.samples == 13 &&
              way->solo.trust.points == 2 && way->solo.trust.noisy == 1,
          "its trust");
    CHECK(wring_profile_way(profile, "none", "auto", 4) == NULL &&
              wring_profile_way(profile, "none", "divisible", 0) == NULL &&
              wring_profile_way(profile, "bf16", "divisible", 2) == &profile->ways[1],
          "found by codec, scheme and ranks");
    uint64_t hash = profile->hash;
    profile->ways[1].cpu.us.slope = 1e-9;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "hashed to the end");
    wring_profile_destroy(profile);
}

/** With which setting a way was measured; nobody having said so counts as the default. */
static void settings(void)
{
    const struct wring_setting usual = {0, 256 << 10}, other = {2, 1 << 16};
    struct wring_profile *profile = load_text(good, strlen(good));

    REQUIRE(profile != NULL, "the good profile is refused");
    const struct wring_profile_way *way = &profile->ways[0];
    CHECK(way->coder_cores == 0 && way->chunk_bytes == 0, "nobody said");
    CHECK(wring_profile_way_at(profile, "none", "auto", 8, &usual) == way &&
              wring_profile_way_at(profile, "none", "auto", 8, &other) == NULL,
          "the default");
    uint64_t hash = profile->hash;
    profile->ways[0].chunk_bytes = usual.chunk_bytes;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "that it is said");
    CHECK(wring_profile_way_at(profile, "none", "auto", 8, &usual) == way, "said");
    check_round_trip(profile);
    CHECK(wring_profile_way_at(profile, "bf16", "divisible", 2, &usual) == NULL &&
              wring_profile_way_at(profile, "bf16", "divisible", 2, &other) == &profile->ways[1],
          "another one");
    wring_profile_destroy(profile);
}

/** By the tensor's name, else of all; of two codecs the sum; what a budget is held against. */
static void errors(void)
{
    struct wring_profile *profile = load_text(good, strlen(good));

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
    CHECK(wring_profile_error(profile, "onebit+ef>int8", "w") == 0.53125, "two ways");
    CHECK(wring_profile_error(profile, "none>int8", "w") == 0.5 &&
              wring_profile_error(profile, "int8>none", "b") == 0.125,
          "one way coded");
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
    struct wring_profile *profile = load_text(good, strlen(good));

    REQUIRE(profile != NULL, "the good profile is refused");
    const struct wring_profile_computing *computing = &profile->computing;
    CHECK(computing->present && computing->wake_us == 19 && computing->wake_doubt_us == 2 &&
              computing->spin_lost == 0.625 && computing->spin_doubt == 0.03 &&
              strcmp(computing->spin_codec, "fp16") == 0 && computing->spin_coded_lost == 0.6 &&
              computing->spin_coded_doubt == 0.7 && computing->core_share == 0.5 &&
              computing->samples == 20,
          "what exchanges lose to computing");
    uint64_t hash = profile->hash;
    profile->computing.spin_lost = 0.5;
    CHECK(wring_profile_rehash(profile) == WRING_OK && profile->hash != hash, "hashed");
    wring_profile_destroy(profile);
}

/** us of coding e elements, both ways, and of decoding alone. */
static void check_device(const struct wring_profile_coding *coding, double both, double decode,
                         const char *what)
{
    double flat = wring_cost_at(&coding->encode_us, 1000) + wring_cost_at(&coding->decode_us, 1000);
    double linear =
        wring_cost_at(&coding->encode_us, 3 << 20) + wring_cost_at(&coding->decode_us, 3 << 20);

    CHECK(coding->present && fabs(flat - both) < 1e-9, "%s: %g us", what, flat);
    CHECK(fabs(wring_cost_at(&coding->decode_us, 1 << 20) - decode) < 1e-9, "%s: decode", what);
    CHECK(fabs(linear - 3 * both) < 1e-9, "%s: %g us for three times as many", what, linear);
}

static void builtin_codecs(void)
{
    static const struct {
        const char *spec;
        double both, decode, two_both, two_decode;
        double ratio; /* of float32 */
    } known[] = {
        {"fp16", 26, 22, 0, 0, 0.5},
        {"randk:ratio=0.01", 88, 34, 1000, 100, 0.02},
        {"dgc:ratio=0.001", 390, 34, 1400, 100, 0.002},
        {"onebit+ef", 270, 140, 810, 420, 1.0 / 32},
        {"onebit", 620, 170, 2000, 520, 1.0 / 32},
    };
    for (const char *const *name = wring_profile_builtin_names(); *name != NULL; name++) {
        struct wring_profile *profile = wring_profile_builtin(*name);
        REQUIRE(profile != NULL, "no %s", *name);
        CHECK(profile->nodes == 8 && profile->ranks_per_node == 8 && !profile->chunked &&
                  profile->machine[0] == '\0' && profile->n_codecs == 5,
              "%s", *name);
        for (size_t i = 0; i < 5; i++) {
            struct wring_profile_codec codec;
            REQUIRE(wring_profile_codec(profile, known[i].spec, &quiet, &codec) == WRING_OK,
                    "%s has no %s", *name, known[i].spec);
            CHECK(strcmp(codec.spec, known[i].spec) == 0, "%s for %s", codec.spec, known[i].spec);
            CHECK(fabs(wring_cost_at(&codec.wire_bytes, 1e6) - 4e6 * known[i].ratio) < 1e-6,
                  "%s: %g bytes", known[i].spec, wring_cost_at(&codec.wire_bytes, 1e6));
            check_device(&codec.at[WRING_PLACE_DEVICE], known[i].both, known[i].decode,
                         known[i].spec);
            if (known[i].two_both > 0)
                check_device(&codec.two_level[WRING_PLACE_DEVICE], known[i].two_both,
                             known[i].two_decode, known[i].spec);
            const struct wring_profile_coding *cpu = &codec.at[WRING_PLACE_CPU];
            CHECK(cpu->present == (i > 0), "%s on the CPU", known[i].spec);
            double bits_per_us =
                32e6 / (wring_cost_at(&cpu->encode_us, 1e6) + wring_cost_at(&cpu->decode_us, 1e6));
            CHECK(i == 0 || fabs(bits_per_us - 20e3) < 1e-6, "%g Gbit/s", bits_per_us / 1e3);
        }
        check_round_trip(profile);
        wring_profile_destroy(profile);
    }
}

static void builtin_links(void)
{
    static const struct {
        const char *name;
        double intra, inter; /* us of 1 MB */
    } known[] = {
        {"espresso-pcie", 400, 800},
        {"espresso-nvlink", 20, 800},
        {"testbed-pcie-25g", 400, 320},
        {"testbed-nvlink-100g", 20, 80},
    };
    uint64_t hashes[4];

    for (size_t i = 0; i < 4; i++) {
        struct wring_profile *profile = NULL; /* by name, as files are loaded */
        REQUIRE(wring_profile_load(known[i].name, &quiet, &profile) == WRING_OK, "no %s",
                known[i].name);
        const struct wring_profile_link *links = profile->links;
        CHECK(links[0].latency_us == 150 && links[1].latency_us == 150, "%s: latency",
              known[i].name);
        CHECK(fabs(wring_cost_at(&links[WRING_LEVEL_INTRA].us, 1e6) - known[i].intra) < 1e-9 &&
                  fabs(wring_cost_at(&links[WRING_LEVEL_INTER].us, 1e6) - known[i].inter) < 1e-9,
              "%s: links", known[i].name);
        hashes[i] = profile->hash;
        for (size_t j = 0; j < i; j++)
            CHECK(hashes[j] != hashes[i], "%s and %s: one hash", known[j].name, known[i].name);
        wring_profile_destroy(profile);
    }
    CHECK(wring_profile_builtin("espresso") == NULL, "a profile out of nowhere");
}

/**
 * VGG16 on espresso-pcie, nothing compressed and one network lane, by Espresso's formula on the
 * profile's links: 2a + intra · 2 (k - 1) / k · M + inter · 2 (N - 1) / N · M for each tensor.
 */
static double formula_us(const struct wring_profile *profile, double elems)
{
    double k = profile->ranks_per_node, n = profile->nodes;
    const struct wring_profile_link *intra = &profile->links[WRING_LEVEL_INTRA];
    const struct wring_profile_link *inter = &profile->links[WRING_LEVEL_INTER];

    return intra->latency_us + inter->latency_us +
           wring_cost_at(&intra->us, 2 * (k - 1) / k * 4 * elems) +
           wring_cost_at(&inter->us, 2 * (n - 1) / n * 4 * elems);
}

static void builtin_formula(void)
{
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");

    REQUIRE(profile != NULL, "no profile");
    /* 32 tensors of 138357544 elements in all; the lane never waits, so it is busy all the time */
    double busy = formula_us(profile, 138357544) + 31 * 300;
    CHECK(fabs(busy - 1171.8e3) < 50, "%g us", busy);
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
    struct wring_profile *profile = load_text(good, strlen(good));

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

static void machines(void)
{
    struct wring_profile *mine = load_text(good, strlen(good));
    struct wring_profile *builtin = wring_profile_builtin("espresso-pcie");
    struct json_log log;

    REQUIRE(mine != NULL && builtin != NULL, "no profiles");
    json_log_init(&log);
    CHECK(wring_profile_check_machine(mine, "A", &log.log) == WRING_OK && log.n == 0, "its own");
    CHECK(wring_profile_check_machine(mine, "B", &log.log) == WRING_ERR_MISMATCH && log.n == 1 &&
              strcmp(log.line, "the profile mine was measured on \"A\", and this is \"B\": measure "
                               "it with wring calibrate") == 0,
          "%s", log.line);
    CHECK(wring_profile_check_machine(builtin, "", &log.log) == WRING_ERR_MISMATCH && log.n == 2 &&
              strstr(log.line, "espresso-pcie is built in, and of no machine") != NULL,
          "%s", log.line);
    wring_profile_destroy(mine);
    wring_profile_destroy(builtin);
}

static void unknown_name(void)
{
    struct json_log log;

    json_log_init(&log);
    CHECK(load("espreso-pcie", &log.log) == WRING_ERR_SYSTEM && log.n == 1 &&
              strcmp(log.line, "espreso-pcie: neither a file nor the name of a built-in profile: "
                               "espresso-pcie, espresso-nvlink, testbed-pcie-25g, "
                               "testbed-nvlink-100g") == 0,
          "%s", log.line);
    json_log_init(&log);
    CHECK(load("/nowhere/espresso-pcie", &log.log) == WRING_ERR_SYSTEM && log.n == 1 &&
              strstr(log.line, "cannot be read: No such file") != NULL,
          "%s", log.line);
}

#define I WRING_ERR_INVALID

static void bad_files(void)
{
    static const struct json_case cases[] = {
        {"wring-profile", "wring-trace", I, "format: needs \"wring-profile\", is \"wring-trace\""},
        {"\"version\": 1", "\"version\": 7", WRING_ERR_VERSION,
         "version: is 7; this wring reads version 1"},
        {"\"mine\"", "\"\"", I, "name: needs a text of 1 to 63 bytes, is \"\""},
        {"\"machine\": \"A\",", "", I, "machine: needs a text of 0 to 255 bytes, is missing"},
        {"\"nodes\": 2", "\"nodes\": 0", I, "nodes: needs a whole number from 1 to 1048576, is 0"},
        {"\"ranks_per_node\": 4", "\"ranks_per_node\": 9223372036854775808", I,
         "ranks_per_node: needs a whole number from 1 to 65536, is 9.22337203685478e+18"},
        {"\"chunked\": true", "\"chunked\": 1", I, "chunked: needs true or false, is 1"},
        {"\"inter\"", "\"outer\"", I, "links: needs \"intra\" or \"inter\", has neither"},
        {"\"links\": {", "\"links\": 1, \"no\": {", I, "links: needs an object, is 1"},
        {"30", "-1", I, "links.inter.latency_us: needs a number from 0 to 1000000000, is -1"},
        {"30", "Infinity", I, "links.inter.latency_us: line 3: invalid token near 'Infinity'"},
        {"[0, 5]", "[0, 7]", I,
         "links.inter.us_by_bytes.corners[1]: y = 6.5 is below the 7 of the corner before it; "
         "costs never fall"},
        {"[0, 5]", "[1000, 5]", I,
         "links.inter.us_by_bytes.corners[1]: x = 1000 does not lie beyond the 1000 of the corner "
         "before it"},
        {"[0, 5]", "[0]", I,
         "links.inter.us_by_bytes.corners[0]: needs [x, y], is a list of another length"},
        {"[0, 5]", "5", I, "links.inter.us_by_bytes.corners[0]: needs [x, y], is 5"},
        {"[0, 5]", "[0, \"5\"]", I,
         "links.inter.us_by_bytes.corners[0]: needs a number from 0 to 1e+15, is \"5\""},
        {"[0, 5]", "[0,5],[1,5],[2,5],[3,5],[4,5],[5,5],[6,5],[7,5]", I,
         "links.inter.us_by_bytes.corners: needs 0 to 8 elements, has 9"},
        {"\"slope\": 0.01", "\"slope\": -1", I,
         "links.inter.us_by_bytes.slope: needs a number from 0 to 1000000000, is -1"},
        {"\"samples\": 17", "\"samples\": 0", I,
         "links.inter.us_by_bytes.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"noisy\": 5", "\"noisy\": 10", I,
         "links.inter.us_by_bytes: 10 of 9 points cannot be noisy"},
        {"\"noisy\": 5", "\"noisy\": 5, \"doubtful\": 10", I,
         "links.inter.us_by_bytes: 10 of 9 points cannot be in doubt"},
        {"\"put\": {", "\"put\": 1, \"no\": {", I, "links.inter.put: needs an object, is 1"},
        {"[8, 6]", "", I,
         "links.inter.put.latency_us_by_bytes: has no corners; what was measured has one at least"},
        {"\"routine\": \"broadcast\"", "\"routine\": \"alltoall\"", I,
         "links.inter.routines[1]: \"alltoall\" is there already"},
        {"\"latency_us\": 12", "\"latency_us\": -1", I,
         "links.inter.routines[1].latency_us: needs a number from 0 to 1000000000, is -1"},
        {"topk:ratio=R+ef", "int8", I,
         "codecs[1].spec: \"int8\" is the codec of codecs[0] already"},
        {"\"int8\", \"summable\"", "\"none\", \"summable\"", I,
         "codecs[0].spec: \"none\" costs nothing and needs no entry"},
        {"0.001", "\"small\"", I,
         "codecs[0].nmse: needs a number from 0 to 1000000000, is \"small\""},
        {"\"decode_us\": {\"corners\": []", "\"decoding\": {\"corners\": []", I,
         "codecs[0].at.cpu.decode_us: needs an object, is missing"},
        {"\"decode_add_us\": {\"corners\": [[0, 3]]",
         "\"decode_add_us\": 3, \"no\": {\"corners\": [[0, 3]]", I,
         "codecs[1].at.device.decode_add_us: needs an object, is 3"},
        {"\"decode_add_us\": {\"corners\": [[1, 4]]", "\"decode_add_us\": {\"corners\": []", I,
         "codecs[1].coders[0].decode_add_us: has no corners; what was measured has one at least"},
        {"\"slope\": 0.25", "\"slope\": null", I,
         "codecs[0].at.cpu.encode_us.slope: needs a number from 0 to 1000000000, is null"},
        {"\"slope\": 8", NULL, I,
         "codecs[1].wire_bytes: line 22: string or '}' expected near end of file"},
        {"\"slope\": 0.0001", "\"slope\": \"steep\"", I,
         "copy_us.slope: needs a number from 0 to 1000000000, is \"steep\""},
        {"\"points\": 7, \"noisy\": 2", "\"points\": 7, \"noisy\": 8", I,
         "copy_us: 8 of 7 points cannot be noisy"},
        {"\"wake_us\": 19", "\"wake_us\": -19", I,
         "computing.wake_us: needs a number from 0 to 1000000000, is -19"},
        {"\"spin_lost\": 0.625", "\"spin_lost\": 1.5", I,
         "computing.spin_lost: needs a number from 0 to 1, is 1.5"},
        {"\"core_share\": 0.5", "\"core_share\": 0", I,
         "computing.core_share: needs a number from 1e-06 to 1, is 0"},
        {"\"lost\": 0.6", "\"lost\": 2", I,
         "computing.spin_coded.lost: needs a number from 0 to 1, is 2"},
        {"\"spin_doubt\"", "\"doubt_of_spin\"", I,
         "computing.spin_doubt: needs a number from 0 to 1000000000, is missing"},
        {"\"samples\": 20", "\"samples\": 0", I,
         "computing.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"computing\": {", "\"computing\": 7, \"no\": {", I, "computing: needs an object, is 7"},
        {"\"computing\"", "\"nobody computes\"", WRING_OK, ""},
        {"\"ways\": [", "\"ways\": 3, \"no\": [", I, "ways: needs a list, is 3"},
        {"\"ways\": [\n", "\"ways\": [7,\n", I, "ways[0]: needs an object, is 7"},
        {"\"codec\": \"none\"", "\"codec\": \"\"", I,
         "ways[0].codec: needs a text of 1 to 127 bytes, is \"\""},
        {"\"run_as\": \"auto\"", "\"run_as\": \"rooted\"", I,
         "ways[0].run_as: needs auto, divisible or indivisible, or one of hierarchical, "
         "hierarchical-divisible and hierarchical-indivisible; is \"rooted\""},
        {"\"ranks\": 8", "\"ranks\": 0", I,
         "ways[0].ranks: needs a whole number from 1 to 1048576, is 0"},
        {"\"max_elements\": 4096", "\"coder_cores\": -1, \"max_elements\": 4096", I,
         "ways[0].coder_cores: needs a whole number from 0 to 4096, is -1"},
        {"\"max_elements\": 4096", "\"chunk_bytes\": 4095, \"max_elements\": 4096", I,
         "ways[0].chunk_bytes: needs a whole number from 4096 to 67108864, is 4095"},
        {"\"max_elements\": 4096", "\"max_elements\": 1.5", I,
         "ways[0].max_elements: needs a whole number from 1 to 1099511627776, is 1.5"},
        {"[1024, 9], [4096, 15]", "", I,
         "ways[0].solo_us: has no corners; what was measured has one at least"},
        {"\"error\": 0.02", "\"error\": -1", I,
         "ways[0].solo_us.error: needs a number from 0 to 1000000000, is -1"},
        {"\"noisy\": 1", "\"noisy\": 3", I, "ways[0].solo_us: 3 of 2 points cannot be noisy"},
        {"\"samples\": 13", "\"samples\": 0", I,
         "ways[0].solo_us.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"errors\": {", "\"errors\": 1, \"no\": {", I, "errors: needs an object, is 1"},
        {"[\"w\", \"b\"]", "[]", I, "errors.tensors: needs 1 to 65536 elements, has 0"},
        {"[\"w\", \"b\"]", "[\"w\"]", I, "errors.codecs[0].tensors: needs 1 to 1 elements, has 2"},
        {"[\"w\", \"b\"]", "[\"w\", \"w\"]", I, "errors.tensors: has \"w\" twice"},
        {"[\"w\", \"b\"]", "[\"w\", 7]", I,
         "errors.tensors[1]: needs a text of 1 to 512 bytes, is 7"},
        {"00ff00ff00ff00ff", "ff", I, "errors.gradients: needs 16 hexadecimal digits, is \"ff\""},
        {"\"steps\": 16", "\"steps\": 0", I,
         "errors.steps: needs a whole number from 1 to 4096, is 0"},
        {"\"onebit+ef\"", "\"int8\"", I,
         "errors.codecs[1]: \"int8\" is the codec of codecs[0] already"},
        {"0.75", "-1", I, "errors.codecs[1].nmse: needs a number from 0 to 1000000000, is -1"},
        {"0.03125", "null", I,
         "errors.codecs[1].tensors[0].nmse_fed: needs a number from 0 to 1000000000, is null"},
        {"\"cpu\"", "\"moon\"", WRING_OK, ""},
        {"\"source\": \"calibrate\",", "", WRING_OK, ""},
        {0},
    };
    json_cases_check(good, cases, load);
}

static void larger_buckets(void)
{
    const struct wring_profile_trust shaky = {0.1, 0.3, 0.02, 7, 3, 2, 1},
                                     firm = {0, 0, 0.05, 9, 3, 1, 0};
    struct wring_profile_curve curve = {wring_cost_line(1, 1), shaky};
    struct wring_profile_way way = {.max_elems = 4096, .solo = curve, .busy = curve, .cpu = curve};
    struct wring_profile_way larger = way;

    larger.max_elems = 65536;
    larger.solo = (struct wring_profile_curve){wring_cost_line(1, 2), firm};
    larger.solo.us.corners[0].x = 65536;
    larger.solo.us.corners[0].y = 1e5;
    wring_profile_extend_way(&way, &larger, 1);
    CHECK(way.max_elems == 65536, "%zu elements", (size_t)way.max_elems);
    CHECK(wring_cost_at(&way.solo.us, 4096) == 4097, "what it knew is another");
    CHECK(wring_cost_at(&way.solo.us, 65537) == 1e5 + 2, "not what is larger");
    const struct wring_profile_trust *trust = &way.solo.trust;
    CHECK(trust->error == 0.1 && trust->spread == 0.3 && trust->doubt == 0.05, "not the worse");
    CHECK(trust->samples == 7 && trust->points == 5 && trust->noisy == 3, "other points");
    larger.max_elems = 1024;
    wring_profile_extend_way(&way, &larger, 1);
    CHECK(way.max_elems == 65536 && trust->points == 5, "what is smaller changed it");
}

static void other_machines(void)
{
    const struct wring_machine_params here = {
        .version = "0.2.0", .provider = "shm", .nodes = 1, .ranks_per_node = 2, .cores = 2};
    struct wring_machine_params other = here;
    char text[256], why[512];

    wring_machine_describe(&here, text, sizeof(text));
    CHECK(!wring_machine_differs(text, &here, why, sizeof(why)), "itself: %s", why);
    CHECK(!wring_machine_differs("", &here, why, sizeof(why)), "no machine: %s", why);
    other.ranks_per_node = 8;
    other.provider = "shm,tcp";
    CHECK(!wring_machine_differs(text, &other, why, sizeof(why)), "another job: %s", why);
    other.version = "0.3.0";
    other.cores = 16;
    CHECK(wring_machine_differs(text, &other, why, sizeof(why)) &&
              strcmp(why, "wring 0.2.0 and not 0.3.0, cores 2 and not 16") == 0,
          "%s", why);
    CHECK(wring_machine_differs("wring 0.2.0, A, B and C, 2 cores, 1 x 2 ranks over shm,tcp", &here,
                                why, sizeof(why)) &&
              strncmp(why, "processor A, B and C and not ", 29) == 0,
          "%s", why);
    CHECK(wring_machine_differs("a cluster", &here, why, sizeof(why)) &&
              strstr(why, "\"a cluster\", and this is wring 0.2.0 on ") == why,
          "%s", why);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"fields", fields},
        {"ways", ways},
        {"larger_buckets", larger_buckets},
        {"settings", settings},
        {"errors", errors},
        {"computing", computing},
        {"builtin_codecs", builtin_codecs},
        {"builtin_links", builtin_links},
        {"builtin_formula", builtin_formula},
        {"codecs", codecs},
        {"machines", machines},
        {"unknown_name", unknown_name},
        {"bad_files", bad_files},
        {"other_machines", other_machines},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
