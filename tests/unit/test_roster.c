/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks find out from what all say of themselves, and how often they ask for it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "transport/roster.h"

#define ROOM 4000 /* ranks */

/** Ranks reach each other if their networks are alike; an address is 4 bytes, the network first. */
static unsigned asked, kinds_asked;

static enum wring_status reaches(struct wring_provider *provider, const void *one, size_t one_bytes,
                                 const void *other, size_t other_bytes, char *reason, size_t bytes)
{
    (void)provider, (void)one_bytes, (void)other_bytes;
    asked++;
    if (*(const uint8_t *)one == *(const uint8_t *)other)
        return WRING_OK;
    snprintf(reason, bytes, "another network");
    return WRING_ERR_UNSUPPORTED;
}

static size_t reach_kind(struct wring_provider *provider, const void *address, size_t bytes,
                         const void **kind)
{
    (void)provider, (void)bytes;
    kinds_asked++;
    *kind = address;
    return 1;
}

static void close_nothing(struct wring_provider *provider)
{
    (void)provider;
}

static const struct wring_provider_ops near_ops = {.name = "near",
                                                   .reaches = wring_reaches_always,
                                                   .reach_kind = wring_reach_kind_none,
                                                   .close = close_nothing};
static const struct wring_provider_ops fast_ops = {
    .name = "fast", .reaches = reaches, .reach_kind = reach_kind, .close = close_nothing};
static const struct wring_provider_ops slow_ops = {.name = "slow",
                                                   .reaches = wring_reaches_always,
                                                   .reach_kind = wring_reach_kind_none,
                                                   .close = close_nothing};
static struct wring_provider near_one = {&near_ops}, fast_one = {&fast_ops}, slow_one = {&slow_ops};

static char line[512];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(line, sizeof(line), "%s", text);
}

static const struct wring_log lines = {keep_line, NULL, WRING_LOG_WARN};

struct job {
    uint32_t size, per_host;
    uint32_t networks; /* hosts are of them in turn */
    uint32_t per_site; /* ranks that name a site; 0: none does */
    uint32_t sited;    /* so many of the first ranks do, and the others do not */
    bool slow;         /* each rank has the device "slow", too */
    struct wring_fabric fabric;
    struct wring_peer peers[ROOM];
};

static void describe(const struct job *job, uint32_t rank, struct wring_writer *out)
{
    char host[32];
    uint8_t address[4] = {(uint8_t)(rank / job->per_host % job->networks), 1, (uint8_t)rank,
                          (uint8_t)(rank >> 8)};
    char site[32] = "";
    snprintf(host, sizeof(host), "node:host %u", rank / job->per_host);
    if (rank < job->sited) /* one is named as another's host is */
        snprintf(site, sizeof(site), "node:host %u", rank / job->per_site);
    wring_write_sized(out, host, strlen(host));
    wring_write_sized(out, site, strlen(site));
    wring_write_sized(out, host, strlen(host));
    wring_write_sized(out, "\3", 1);
    wring_write_u32(out, job->slow ? 3 : 2);
    wring_write_sized(out, "near", 4);
    wring_write_sized(out, address, sizeof(address));
    wring_write_sized(out, "fast", 4);
    wring_write_sized(out, address, sizeof(address));
    if (job->slow) {
        wring_write_sized(out, "slow", 4);
        wring_write_sized(out, address, sizeof(address));
    }
    wring_write_sized(out, "", 0);
    wring_write_sized(out, address, sizeof(address));
}

/** @return how the roster of one of its ranks was made */
static enum wring_status make(struct job *job, uint32_t rank)
{
    struct wring_writer all = {0};
    size_t *offsets = calloc(job->size + 1, sizeof(*offsets));
    for (uint32_t i = 0; i < job->size; i++) {
        describe(job, i, &all);
        offsets[i + 1] = all.bytes;
    }
    job->fabric = (struct wring_fabric){
        .log = &lines,
        .rank = rank,
        .size = job->size,
        .peers = job->peers,
        .n_devices = job->slow ? 3 : 2,
        .devices = {{.provider = &near_one, .name = "near", .caps = {.same_host_only = true}},
                    {.provider = &fast_one, .name = "fast"},
                    {.provider = &slow_one, .name = "slow"}},
        .blobs = {.n = job->size, .offsets = offsets, .storage = all.data},
    };
    asked = kinds_asked = 0;
    line[0] = '\0';
    return wring_roster_make(&job->fabric);
}

static void drop(struct job *job)
{
    wring_roster_finish(&job->fabric.roster);
    wring_blobs_finish(&job->fabric.blobs);
}

static struct job job;

/** Devices are asked about kinds, and not about pairs of ranks. */
static void questions_do_not_grow_with_pairs(void)
{
    static const uint32_t sizes[] = {40, 400, ROOM};
    unsigned first = 0;
    for (int i = 0; i < 3; i++) {
        job = (struct job){.size = sizes[i], .per_host = 4, .networks = 3, .slow = true};
        REQUIRE(make(&job, 5) == WRING_OK, "%s", line);
        CHECK(job.fabric.roster.n_kinds == 3, "%u kinds", job.fabric.roster.n_kinds);
        first = i == 0 ? asked : first;
        CHECK(asked == first && asked <= 64, "%u ranks: %u questions, not %u", sizes[i], asked,
              first);
        CHECK(kinds_asked <= 4 * sizes[i] + 16, "%u ranks: %u times", sizes[i], kinds_asked);
        drop(&job);
    }
}

static void ranks_and_hosts_are_told_apart(void)
{
    job = (struct job){.size = 1000, .per_host = 4, .networks = 1};
    REQUIRE(make(&job, 6) == WRING_OK, "%s", line);
    for (uint32_t i = 0; i < job.size; i++) {
        CHECK(wring_roster_node(&job.fabric.roster, i) == i / 4 * 4, "rank %u is on %u", i,
              wring_roster_node(&job.fabric.roster, i));
        if (i != 6)
            CHECK(strcmp(wring_fabric_device(&job.fabric, i)->name, i / 4 == 1 ? "near" : "fast") ==
                      0,
                  "rank %u by %s", i, wring_fabric_device(&job.fabric, i)->name);
    }
    CHECK(job.fabric.roster.kinds == NULL && job.fabric.roster.nodes != NULL,
          "more is kept than differs");
    drop(&job);
    job = (struct job){.size = 1000, .per_host = 1000, .networks = 1};
    REQUIRE(make(&job, 6) == WRING_OK, "%s", line);
    CHECK(job.fabric.roster.nodes == NULL, "nodes of one host are kept");
    drop(&job);
}

/** Where no rank names a site, its host is it. */
static void ranks_and_sites_are_told_apart(void)
{
    job = (struct job){.size = 40, .per_host = 2, .networks = 1, .per_site = 10, .sited = 30};
    REQUIRE(make(&job, 6) == WRING_OK, "%s", line);
    for (uint32_t i = 0; i < job.size; i++) {
        uint32_t site = i < job.sited ? i / 10 * 10 : i / 2 * 2;
        CHECK(wring_roster_site(&job.fabric.roster, i) == site, "rank %u is at %u, not %u", i,
              wring_roster_site(&job.fabric.roster, i), site);
        CHECK(wring_roster_node(&job.fabric.roster, i) == i / 2 * 2, "rank %u is on another host",
              i);
    }
    drop(&job);
    job = (struct job){.size = 40, .per_host = 2, .networks = 1};
    REQUIRE(make(&job, 6) == WRING_OK, "%s", line);
    CHECK(job.fabric.roster.sites == NULL && wring_roster_site(&job.fabric.roster, 7) == 6,
          "sites that nobody named");
    drop(&job);
}

/** One device leads all to other hosts; where none does, the best that each two have. */
static void what_serves_all_leads(void)
{
    for (uint32_t rank = 0; rank < 16; rank++) {
        job = (struct job){.size = 16, .per_host = 2, .networks = 2, .slow = true};
        REQUIRE(make(&job, rank) == WRING_OK, "%s", line);
        for (uint32_t i = 0; i < 16; i++)
            if (i != rank)
                CHECK(strcmp(wring_fabric_device(&job.fabric, i)->name,
                             i / 2 == rank / 2 ? "near" : "slow") == 0,
                      "%u to %u by %s", rank, i, wring_fabric_device(&job.fabric, i)->name);
        drop(&job);
    }
    job = (struct job){.size = 16, .per_host = 2, .networks = 2};
    CHECK(make(&job, 3) == WRING_ERR_UNSUPPORTED, "ranks 0 and 3 have no way");
    CHECK(strcmp(line, "ranks 0 and 3 have no provider in common that reaches from one to the "
                       "other: another network; see WRING_PROVIDER") == 0,
          "said: %s", line);
    drop(&job);
}

static void malformed_words_are_refused(void)
{
    job = (struct job){.size = 16, .per_host = 2, .networks = 1};
    REQUIRE(make(&job, 3) == WRING_OK, "%s", line);
    wring_roster_finish(&job.fabric.roster);
    job.fabric.blobs.storage[job.fabric.blobs.offsets[7]] = 0xff;
    CHECK(wring_roster_make(&job.fabric) == WRING_ERR_FRAME, "taken");
    CHECK(strcmp(line, "rank 7 described itself in malformed bytes") == 0, "said: %s", line);
    drop(&job);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"questions_do_not_grow_with_pairs", questions_do_not_grow_with_pairs},
        {"ranks_and_hosts_are_told_apart", ranks_and_hosts_are_told_apart},
        {"ranks_and_sites_are_told_apart", ranks_and_sites_are_told_apart},
        {"what_serves_all_leads", what_serves_all_leads},
        {"malformed_words_are_refused", malformed_words_are_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
