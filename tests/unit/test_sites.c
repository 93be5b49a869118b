/* SPDX-License-Identifier: Apache-2.0 */
/* Sites by round trips: only clear gaps count. */
#include "transport/sites.h"

#include <stdlib.h>

#include "tests/lib/test.h"

#define HOSTS 6
#define US 1000ull

struct row {
    const char *name;
    uint64_t us[HOSTS][HOSTS]; /* from each host to each */
    bool found;
    uint32_t first[HOSTS]; /* if found */
};

static const struct row rows[] = {
    {"one site",
     {{0, 100, 100, 120, 90, 300},
      {100, 0, 100, 100, 100, 100},
      {100, 100, 0, 100, 100, 100},
      {100, 100, 100, 0, 100, 100},
      {100, 100, 100, 100, 0, 100},
      {100, 100, 100, 100, 100, 0}},
     true,
     {0, 0, 0, 0, 0, 0}},
    {"two sites, ranks in turn",
     {{0, 40000, 150, 40100, 700, 41000},
      {40000, 0, 40000, 150, 40000, 200},
      {150, 40000, 0, 40000, 150, 40000},
      {40000, 150, 40000, 0, 40000, 150},
      {150, 40000, 150, 40000, 0, 40000},
      {40000, 150, 40000, 150, 40000, 0}},
     true,
     {0, 1, 0, 1, 0, 1}},
    {"a city's hosts are nearer than the next city's",
     {{0, 2000, 2100, 40000, 40000, 41000},
      {2000, 0, 2000, 40000, 40000, 40000},
      {2000, 2000, 0, 40000, 40000, 40000},
      {40000, 40000, 40000, 0, 2000, 2000},
      {40000, 40000, 40000, 2000, 0, 2000},
      {40000, 40000, 40000, 2000, 2000, 0}},
     true,
     {0, 0, 0, 3, 3, 3}},
    {"each far from all others",
     {{0, 20000, 30000, 40000, 50000, 60000},
      {20000, 0, 30000, 40000, 50000, 60000},
      {30000, 20000, 0, 40000, 50000, 60000},
      {40000, 20000, 30000, 0, 50000, 60000},
      {50000, 20000, 30000, 40000, 0, 60000},
      {60000, 20000, 30000, 40000, 50000, 0}},
     true,
     {0, 1, 2, 3, 4, 5}},
    {"no clear gap", {{0, 900, 2000, 4000, 8000, 16000}}, false, {0}},
    {"a gap within a millisecond is none", {{0, 100, 100, 900, 1100, 1200}}, false, {0}},
    {"two hosts see a third one otherwise",
     {{0, 100, 100, 40000, 40000, 40000}, {0}, {0}, {100, 40000, 40000, 0, 100, 100}},
     false,
     {0}},
    {"one did not answer", {{0, 100, 100, UINT64_MAX / US, 100, 100}}, false, {0}},
};

static void gaps_make_sites(void)
{
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const struct row *row = &rows[r];
        struct wring_sites sites;
        uint32_t first[HOSTS], host;
        uint64_t ns[HOSTS], sorted[HOSTS];
        bool found = true;

        wring_sites_init(&sites, HOSTS, first);
        while (found && (host = wring_sites_next(&sites)) < HOSTS) {
            for (uint32_t i = 0; i < HOSTS; i++)
                ns[i] = row->us[host][i] == UINT64_MAX / US ? WRING_SITES_UNKNOWN
                                                            : row->us[host][i] * US;
            found = wring_sites_place(&sites, ns, sorted);
        }
        CHECK(found == row->found, "%s: found is %d", row->name, found);
        for (uint32_t i = 0; found && i < HOSTS; i++)
            CHECK(first[i] == row->first[i], "%s: host %u is at the site of %u", row->name, i,
                  first[i]);
    }
}

static void there_are_not_too_many(void)
{
    enum {
        MANY = WRING_SITES_MAX + 1
    };
    uint64_t ns[MANY], sorted[MANY];
    uint32_t first[MANY], asked = 0, host;
    struct wring_sites sites;

    wring_sites_init(&sites, MANY, first);
    while ((host = wring_sites_next(&sites)) < MANY) {
        for (uint32_t i = 0; i < MANY; i++)
            ns[i] = i == host ? 0 : 40000 * US;
        if (!wring_sites_place(&sites, ns, sorted))
            break;
        asked++;
    }
    CHECK(asked == WRING_SITES_MAX, "%u sites", asked);
}

/** Cities on a line, and on a circle, of which hosts are numbered in another order. */
static void rings_go_the_short_way(void)
{
    static const struct {
        const char *name;
        uint32_t n;
        int at_ms[6]; /* of each host: along a line */
        int around;   /* the line is a circle of so many; 0: it is none */
        uint32_t places[6];
    } rings[] = {
        {"in order", 4, {0, 10, 20, 30}, 0, {0, 1, 2, 3}},
        {"to and fro", 4, {0, 30, 10, 40}, 0, {0, 2, 1, 3}},
        {"hardly shorter", 4, {0, 20, 19, 60}, 0, {0, 1, 2, 3}},
        {"three have one way", 3, {0, 30, 10}, 0, {0, 1, 2}},
        {"two", 2, {0, 30}, 0, {0, 1}},
        {"a circle", 6, {0, 30, 10, 40, 20, 50}, 60, {0, 3, 1, 4, 2, 5}},
    };

    for (size_t r = 0; r < sizeof(rings) / sizeof(rings[0]); r++) {
        uint32_t n = rings[r].n, first[6], places[6], host;
        uint64_t ns[6], sorted[6];
        struct wring_sites sites;

        wring_sites_init(&sites, n, first);
        while ((host = wring_sites_next(&sites)) < n) {
            for (uint32_t i = 0; i < n; i++) {
                int ms = abs(rings[r].at_ms[i] - rings[r].at_ms[host]);
                if (rings[r].around > 0 && ms > rings[r].around / 2)
                    ms = rings[r].around - ms;
                ns[i] = (uint64_t)ms * 1000 * US;
            }
            REQUIRE(wring_sites_place(&sites, ns, sorted), "%s: host %u", rings[r].name, host);
        }
        wring_sites_around(&sites, places);
        for (uint32_t i = 0; i < n; i++)
            CHECK(places[i] == rings[r].places[i], "%s: site %u at place %u", rings[r].name, i,
                  places[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"rings_go_the_short_way", rings_go_the_short_way},
        {"gaps_make_sites", gaps_make_sites},
        {"there_are_not_too_many", there_are_not_too_many},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
