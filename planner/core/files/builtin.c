/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that need no calibration: 8 nodes of 8 V100, as in Espresso (EuroSys 2023).
 *
 * espresso-pcie and espresso-nvlink have the constants with which the artifact of that paper
 * simulates: a network of 10 Gbit/s between nodes (0.8 us per 1000 bytes), 2.5 GB/s or 50 GB/s
 * inside (0.4 and 0.02 us per 1000 bytes), 150 us for each collective.
 *
 * testbed-pcie-25g and testbed-nvlink-100g are the two clusters that the paper's figures were
 * measured on. It gives their links by name only: PCIe 3.0 x16 and 25 Gbit/s, NVLink and
 * 100 Gbit/s. So
 *
 *     between nodes   the line rate: 8000 bits / 25 Gbit/s = 0.32 us per 1000 bytes, 0.08 at 100
 *     inside          what the artifact counts for the same links. Far less than x16 has (15.75
 *                     GB/s, 0.063 us per 1000 bytes), since 8 devices share it through the host
 *     the rest        the artifact's: the devices are the same
 *
 * Coding: the artifact's times are of encoding and decoding together, and of decoding, level up to
 * 2^20 elements of a device and in proportion beyond. A CPU takes 20 Gbit/s of float32 input for
 * encoding and decoding together: 32 / 20e3 = 0.0016 us per element of the node, of which each is
 * half, since nobody says more. An offload node, of which each node of the cluster has one beside
 * it, is taken to code at the same 20 Gbit/s: nobody published one for these codecs, and a node in
 * the path has such a CPU. It is no part of the artifact.
 *
 * Codecs that the artifact has not are those of this library. Their errors and their times on a CPU
 * were measured by planner/host_codecs.py, on one core: host_codecs.c says which. A device has
 * times of some by the artifact's time of the same method (`methods` below). It reads and writes
 * residuals at the speed of a V100's memory, 900 GB/s, where the artifact's method has none.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/host_codecs.h"
#include "planner/core/files/profile.h"

#define LATENCY_US 150
#define LEVEL_ELEMS 1048576.0
#define CPU_US (32 / 20e3 / 2)      /* per element, of encoding as of decoding */
#define DEVICE_STATE_US (1 / 900e3) /* per byte of residual and state */
#define ARTIFACT "constants of Espresso's artifact (EuroSys 2023): V100, "
#define TESTBED "as Espresso (EuroSys 2023) describes its cluster: V100, "

struct fabric {
    const char *name, *source;
    const char *providers[WRING_LEVELS];
    double us_per_kb[WRING_LEVELS];
};

static const struct fabric fabrics[] = {
    {"espresso-pcie", ARTIFACT "PCIe, 10 Gbit/s", {"pcie", "ethernet"}, {0.4, 0.8}},
    {"espresso-nvlink", ARTIFACT "NVLink, 10 Gbit/s", {"nvlink", "ethernet"}, {0.02, 0.8}},
    {"testbed-pcie-25g", TESTBED "PCIe 3.0, 25 Gbit/s", {"pcie", "ethernet"}, {0.4, 0.32}},
    {"testbed-nvlink-100g", TESTBED "NVLink, 100 Gbit/s", {"nvlink", "ethernet"}, {0.02, 0.08}},
};
#define FABRICS (sizeof(fabrics) / sizeof(fabrics[0]))

/** us of a device, up to LEVEL_ELEMS elements. */
struct device_us {
    double both, decode;
};

#define FROM_ARTIFACT "Espresso's artifact"

static const struct coder {
    const char *spec;
    bool summable, feedback;
    bool alters;       /* training: momentum */
    bool cpu;          /* coded on CPUs, those of offload nodes among them */
    double wire_bytes; /* per element; of R = 1 where the spec has an R */
    struct device_us at, two_level;
} coders[] = {
    /* 16-bit sums as the usual libraries form them: hop by hop, in the code */
    {"fp16", true, false, false, false, 2, {26, 22}, {0, 0}},
    /* value and index of each chosen element: 2 x R of the float32 bytes */
    {"randk:ratio=R", false, false, false, true, 8, {88, 34}, {1000, 100}},
    {"dgc:ratio=R", false, true, true, true, 8, {390, 34}, {1400, 100}},
    {"onebit", false, false, false, true, 0.125, {620, 170}, {2000, 520}},
    /* EF-SignSGD */
    {"onebit+ef", false, true, false, true, 0.125, {270, 140}, {810, 420}},
};
#define CODERS (sizeof(coders) / sizeof(coders[0]))

/** Codecs of this library that a device codes as long as one of the artifact's. */
static const struct method {
    const char *spec;
    const char *as; /* of coders */
    bool state;     /* which keeps no residual */
} methods[] = {
    {"bf16", "fp16", false},
    {"randk", "randk:ratio=R", false},
    {"randk+ef", "randk:ratio=R", true},
    {"dgc", "dgc:ratio=R", false},
    {"onebit:means=2", "onebit", false},
    {"onebit:means=2+ef", "onebit", false},
};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

static struct wring_cost device_cost(double us)
{
    struct wring_cost cost = wring_cost_line(us, us / LEVEL_ELEMS);

    cost.corners[0].x = LEVEL_ELEMS;
    return cost;
}

static struct wring_profile_coding device_coding(struct device_us us)
{
    return (struct wring_profile_coding){.present = us.both > 0,
                                         .encode_us = device_cost(us.both - us.decode),
                                         .decode_us = device_cost(us.decode),
                                         .source = FROM_ARTIFACT};
}

static void set_codec(const struct coder *coder, struct wring_profile_codec *out)
{
    snprintf(out->spec, sizeof(out->spec), "%s", coder->spec);
    out->summable = coder->summable;
    out->feedback = coder->feedback;
    out->traits.alters = coder->alters;
    out->nmse = NAN;
    out->wire_bytes = wring_cost_line(0, coder->wire_bytes);
    out->at[WRING_SITE_DEVICE] = device_coding(coder->at);
    if (coder->two_level.both > 0)
        out->two_level[WRING_SITE_DEVICE] = device_coding(coder->two_level);
    if (coder->cpu)
        out->at[WRING_SITE_CPU] = out->at[WRING_SITE_NODE] = (struct wring_profile_coding){
            .present = true,
            .encode_us = wring_cost_line(0, CPU_US),
            .decode_us = wring_cost_line(0, CPU_US),
            .source = FROM_ARTIFACT,
        };
}

static const struct coder *find_coder(const char *spec)
{
    for (size_t i = 0; i < CODERS; i++)
        if (strcmp(coders[i].spec, spec) == 0)
            return &coders[i];
    return NULL;
}

static struct wring_cost host_cost(const struct wring_host_cost *from)
{
    struct wring_cost cost = {.n = from->n, .slope = from->slope};

    for (uint32_t i = 0; i < from->n; i++) {
        cost.corners[i].x = from->corners[i][0];
        cost.corners[i].y = from->corners[i][1];
    }
    return cost;
}

static void set_traits(const struct wring_host_codec *host, struct wring_profile_traits *out)
{
    *out = (struct wring_profile_traits){
        .alters = host->alters,
        .rounds = host->rounds,
        .round_bytes = host_cost(&host->round_bytes),
        .state_bytes = host->state_bytes,
        .way_back = {.bytes = host_cost(&host->back_bytes),
                     .most_bytes = host_cost(&host->back_most_bytes),
                     .encode_us = host_cost(&host->back_encode_us),
                     .decode_us = host_cost(&host->back_decode_us),
                     .nmse = host->back_nmse},
    };
}

/** By the time of the method that it is; not there where nobody published one. */
static struct wring_profile_coding published_coding(const char *spec)
{
    struct wring_profile_coding coding = {.present = false};
    size_t i = 0;

    while (i < METHODS && strcmp(methods[i].spec, spec) != 0)
        i++;
    if (i == METHODS)
        return coding;
    coding = device_coding(find_coder(methods[i].as)->at);
    snprintf(coding.source, sizeof(coding.source), FROM_ARTIFACT ", of %s", methods[i].as);
    if (methods[i].state)
        coding.state_us = wring_cost_line(0, DEVICE_STATE_US);
    return coding;
}

static void set_host_codec(const struct wring_host_codec *host, struct wring_profile_codec *out)
{
    snprintf(out->spec, sizeof(out->spec), "%s", host->spec);
    out->summable = host->summable;
    out->feedback = host->feedback;
    out->nmse = host->nmse;
    out->wire_bytes = host_cost(&host->wire_bytes);
    set_traits(host, &out->traits);
    struct wring_profile_coding *cpu = &out->at[WRING_SITE_CPU];
    *cpu = (struct wring_profile_coding){.present = true,
                                         .encode_us = host_cost(&host->encode_us),
                                         .decode_us = host_cost(&host->decode_us),
                                         .decode_add_us = host_cost(&host->decode_add_us),
                                         .sum_us = host_cost(&host->sum_us)};
    snprintf(cpu->source, sizeof(cpu->source), "measured: %s", wring_host_codecs_machine);
    out->at[WRING_SITE_NODE] = *cpu;
    out->at[WRING_SITE_DEVICE] = published_coding(host->spec);
}

/** The artifact's codecs, of which hosts know all but the times, then those that hosts alone know.
 */
static void set_codecs(struct wring_profile *profile)
{
    for (size_t i = 0; i < CODERS; i++)
        set_codec(&coders[i], &profile->codecs[i]);
    profile->n_codecs = CODERS;
    for (size_t i = 0; i < wring_host_codecs_n; i++) {
        const struct wring_host_codec *host = &wring_host_codecs[i];
        const struct coder *known = find_coder(host->spec);
        if (known == NULL) {
            set_host_codec(host, &profile->codecs[profile->n_codecs++]);
            continue;
        }
        struct wring_profile_codec *codec = &profile->codecs[known - coders];
        codec->nmse = host->nmse;
        set_traits(host, &codec->traits);
    }
}

static void set_link(const struct fabric *fabric, enum wring_level level,
                     struct wring_profile_link *out)
{
    out->present = true;
    snprintf(out->provider, sizeof(out->provider), "%s", fabric->providers[level]);
    out->latency_us = LATENCY_US;
    out->us = wring_cost_line(0, fabric->us_per_kb[level] / 1000);
}

static const struct fabric *find_fabric(const char *name)
{
    for (size_t i = 0; i < FABRICS; i++)
        if (strcmp(fabrics[i].name, name) == 0)
            return &fabrics[i];
    return NULL;
}

struct wring_profile *wring_profile_builtin(const char *name)
{
    const struct fabric *fabric = find_fabric(name);
    struct wring_profile *profile = fabric != NULL ? calloc(1, sizeof(*profile)) : NULL;

    if (profile == NULL)
        return NULL;
    snprintf(profile->name, sizeof(profile->name), "%s", fabric->name);
    snprintf(profile->source, sizeof(profile->source), "%s", fabric->source);
    profile->nodes = profile->ranks_per_node = 8;
    for (int level = 0; level < WRING_LEVELS; level++)
        set_link(fabric, (enum wring_level)level, &profile->links[level]);
    profile->codecs = calloc(CODERS + wring_host_codecs_n, sizeof(*profile->codecs));
    if (profile->codecs == NULL)
        goto destroy_profile;
    set_codecs(profile);
    if (wring_profile_rehash(profile) == WRING_OK)
        return profile;
destroy_profile:
    wring_profile_destroy(profile);
    return NULL;
}

const char *const *wring_profile_builtin_names(void)
{
    static const char *const names[] = {"espresso-pcie", "espresso-nvlink", "testbed-pcie-25g",
                                        "testbed-nvlink-100g", NULL};
    _Static_assert(sizeof(names) / sizeof(names[0]) == FABRICS + 1, "names of all fabrics");
    return names;
}
