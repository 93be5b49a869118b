/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles that are built in, and whose the others are. */
#include <math.h>
#include <string.h>

#include "compress/codec.h"
#include "compress/solo.h"
#include "planner/core/files/machine.h"
#include "tests/lib/test.h"
#include "tests/planner/good_profile.h"
#include "tests/planner/json_cases.h"

static struct wring_log quiet = {.level = WRING_LOG_ERROR};

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
                  profile->machine[0] == '\0' && profile->n_codecs > 5,
              "%s", *name);
        for (size_t i = 0; i < 5; i++) {
            struct wring_profile_codec codec;
            REQUIRE(wring_profile_codec(profile, known[i].spec, &quiet, &codec) == WRING_OK,
                    "%s has no %s", *name, known[i].spec);
            CHECK(strcmp(codec.spec, known[i].spec) == 0, "%s for %s", codec.spec, known[i].spec);
            CHECK(fabs(wring_cost_at(&codec.wire_bytes, 1e6) - 4e6 * known[i].ratio) < 1e-6,
                  "%s: %g bytes", known[i].spec, wring_cost_at(&codec.wire_bytes, 1e6));
            check_device(&codec.at[WRING_SITE_DEVICE], known[i].both, known[i].decode,
                         known[i].spec);
            if (known[i].two_both > 0)
                check_device(&codec.two_level[WRING_SITE_DEVICE], known[i].two_both,
                             known[i].two_decode, known[i].spec);
            const struct wring_profile_coding *cpu = &codec.at[WRING_SITE_CPU];
            CHECK(cpu->present == (i > 0), "%s on the CPU", known[i].spec);
            double bits_per_us =
                32e6 / (wring_cost_at(&cpu->encode_us, 1e6) + wring_cost_at(&cpu->decode_us, 1e6));
            CHECK(i == 0 || fabs(bits_per_us - 20e3) < 1e-6, "%g Gbit/s", bits_per_us / 1e3);
        }
        good_profile_check_round_trip(profile);
        wring_profile_destroy(profile);
    }
}

static bool begins_with_name(const char *spec, const char *name)
{
    size_t n = strlen(name);
    return strncmp(spec, name, n) == 0 && strchr(":+/>", spec[n]) != NULL; /* or it ends there */
}

/** Do sums travel as other codes, or as wider ones of the same? */
static bool returns_otherwise(const struct wring_codec *codec)
{
    unsigned flags = wring_codec_info(codec)->flags;
    uint64_t n = 1 << 20;
    size_t sum = 0;

    if ((flags & WRING_CODEC_SUMMABLE) == 0)
        return (flags & WRING_CODEC_TWO_WAYS) != 0 ||
               wring_codec_way(codec, 1) != wring_codec_way(codec, 0);
    return wring_codec_adds_codes(codec) && wring_solo_sum_bytes(codec, n, &sum) == WRING_OK &&
           sum != wring_codec_bound(codec, n);
}

/** Residual, other state, and the way back. */
static void check_state_and_way_back(const struct wring_profile_codec *said,
                                     const struct wring_codec *codec)
{
    const struct wring_codec *in = wring_codec_way(codec, 0);
    bool keeps = wring_codec_info(in)->states > 0 ||
                 (wring_codec_info(in)->flags & WRING_CODEC_FEEDBACK) != 0;

    CHECK((said->traits.state_bytes > 0) == keeps, "%s: %g bytes of state", said->spec,
          said->traits.state_bytes);
    CHECK((said->traits.way_back.bytes.n > 0) == returns_otherwise(codec),
          "%s: a way back, or none", said->spec);
}

/** The artifact's own, of which the library has a codec. */
static void check_artifact_codec(const struct wring_profile_codec *said)
{
    struct wring_codec *codec;

    REQUIRE(wring_codec_create(said->spec, NULL, NULL, NULL, 0, &codec) == WRING_OK, "no codec %s",
            said->spec);
    CHECK(said->nmse > 0, "%s: no error", said->spec);
    check_state_and_way_back(said, codec);
    wring_codec_destroy(codec);
}

/** Is what the profile says of a codec what the codec says of itself? */
static void check_host_codec(const struct wring_profile_codec *said)
{
    const struct wring_profile_coding *cpu = &said->at[WRING_SITE_CPU];
    const struct wring_profile_coding *device = &said->at[WRING_SITE_DEVICE];
    struct wring_codec *codec;

    REQUIRE(wring_codec_create(said->spec, NULL, NULL, NULL, 0, &codec) == WRING_OK,
            "no codec %s: run planner/host_codecs.py", said->spec);
    unsigned flags = wring_codec_info(codec)->flags;
    unsigned all = flags | wring_codec_info(wring_codec_way(codec, 1))->flags;
    CHECK(said->summable == ((flags & WRING_CODEC_SUMMABLE) != 0) &&
              said->feedback == ((flags & WRING_CODEC_FEEDBACK) != 0) &&
              said->traits.alters == ((all & WRING_CODEC_ALTERS) != 0) &&
              said->traits.rounds == wring_codec_info(wring_codec_way(codec, 0))->rounds,
          "%s is another codec: run planner/host_codecs.py", said->spec);
    check_state_and_way_back(said, codec);
    CHECK(said->nmse >= 0, "%s: an error of %g", said->spec, said->nmse);
    double bytes = wring_cost_at(&said->wire_bytes, 1 << 20);
    CHECK(bytes > 0 && bytes < 1.05 * (double)wring_codec_bound(codec, 1 << 20), "%s: %g bytes",
          said->spec, bytes);
    CHECK(cpu->present && wring_cost_at(&cpu->encode_us, 1 << 20) > 0 && cpu->decode_add_us.n > 0 &&
              strncmp(cpu->source, "measured: one core of ", 22) == 0,
          "%s on the CPU: %s", said->spec, cpu->source);
    CHECK((cpu->sum_us.n > 0) == said->summable,
          "%s: adding its codes: run planner/host_codecs.py --sums", said->spec);
    CHECK(!device->present || strstr(device->source, "Espresso's artifact, of ") != NULL,
          "%s on a device: %s", said->spec, device->source);
    wring_codec_destroy(codec);
}

/** Each of the library's, and a few in further forms; the artifact's own keep its times. */
static void every_codec(void)
{
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    uint32_t on_devices = 0, grow = 0;

    REQUIRE(profile != NULL, "no profile");
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < profile->n_codecs; i++)
            n += begins_with_name(profile->codecs[i].spec, (*ops)->name);
        CHECK(n > 0 || strcmp((*ops)->name, "none") == 0,
              "built-in profiles know no %s: run planner/host_codecs.py", (*ops)->name);
    }
    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        for (uint32_t j = 0; j < i; j++)
            CHECK(strcmp(codec->spec, profile->codecs[j].spec) != 0, "%s twice", codec->spec);
        if (i >= 5)
            check_host_codec(codec);
        else if (strstr(codec->spec, "=R") == NULL)
            check_artifact_codec(codec);
        on_devices += i >= 5 && codec->at[WRING_SITE_DEVICE].present;
        grow += codec->traits.way_back.most_bytes.n > 0;
    }
    CHECK(on_devices >= 4 && grow > 0, "%u on devices, %u of growing sums", on_devices, grow);
    wring_profile_destroy(profile);
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

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_profile *profile = NULL;
    enum wring_status status = wring_profile_load(path, log, &profile);

    CHECK((status == WRING_OK) == (profile != NULL), "status %d, and a profile or none", status);
    wring_profile_destroy(profile);
    return status;
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

static void machines(void)
{
    struct wring_profile *mine = good_profile_load();
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
        {"builtin_codecs", builtin_codecs},
        {"every_codec", every_codec},
        {"builtin_links", builtin_links},
        {"builtin_formula", builtin_formula},
        {"machines", machines},
        {"unknown_name", unknown_name},
        {"other_machines", other_machines},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
