/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "planner/core/files/machine.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

#define HOST_BYTES WRING_CONFIG_TEXT

/** Where a rank runs. */
struct location {
    char host[HOST_BYTES];
    bool known;     /* nobody else has that host otherwise */
    cpu_set_t cpus; /* that it may use */
};

static enum wring_status read_locations(struct wring_session *session,
                                        const struct wring_blobs *blobs, struct location *locations)
{
    for (uint32_t i = 0; i < session->size; i++) {
        struct wring_reader in = wring_blobs_reader(blobs, i);
        const void *location = wring_read(&in, sizeof(*locations));
        if (location == NULL)
            return WRING_ERR_FRAME;
        memcpy(&locations[i], location, sizeof(*locations));
        locations[i].host[HOST_BYTES - 1] = '\0';
    }
    return WRING_OK;
}

static uint32_t count_on_same_host(const struct location *locations, uint32_t n, uint32_t rank)
{
    uint32_t alike = 0;

    for (uint32_t i = 0; i < n; i++)
        alike += strcmp(locations[i].host, locations[rank].host) == 0;
    return alike;
}

static void find_first_on_host(const struct location *locations, uint32_t n, uint32_t *first)
{
    for (uint32_t i = 0; i < n; i++) {
        first[i] = 0;
        while (strcmp(locations[first[i]].host, locations[i].host) != 0)
            first[i]++;
    }
}

/** Nodes of equal size, or each rank as if it were one. */
static void set_nodes(const struct location *locations, uint32_t n, struct wring_job_machine *out)
{
    uint32_t each = count_on_same_host(locations, n, 0);
    cpu_set_t cpus;

    out->even = true;
    for (uint32_t i = 0; i < n; i++)
        out->even = out->even && locations[i].known && count_on_same_host(locations, n, i) == each;
    each = out->even ? each : 1;
    out->ranks_per_node = each;
    out->nodes = n / each;
    CPU_ZERO(&cpus);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(locations[i].host, locations[0].host) == 0)
            CPU_OR(&cpus, &cpus, &locations[i].cpus);
    out->cores = (uint32_t)CPU_COUNT(&cpus);
    out->cores = out->cores > 0 ? out->cores : 1;
}

/** None where anybody else of its host may use one of them. */
static uint32_t count_own_cores(const struct location *locations, uint32_t n, uint32_t rank)
{
    cpu_set_t both;

    for (uint32_t i = 0; i < n; i++) {
        CPU_AND(&both, &locations[i].cpus, &locations[rank].cpus);
        if (i != rank && strcmp(locations[i].host, locations[rank].host) == 0 &&
            CPU_COUNT(&both) > 0)
            return 0;
    }
    return (uint32_t)CPU_COUNT(&locations[rank].cpus);
}

static void set_own_cores(const struct location *locations, uint32_t n,
                          struct wring_job_machine *out)
{
    out->own_cores = count_own_cores(locations, n, 0);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t own = count_own_cores(locations, n, i);
        out->own_cores = own < out->own_cores ? own : out->own_cores;
    }
}

static void describe_machine(const struct wring_session *session, struct wring_job_machine *out)
{
    char provider[48];
    const struct wring_machine_params params = {
        .version = WRING_VERSION,
        .provider = provider,
        .nodes = out->nodes,
        .ranks_per_node = out->ranks_per_node,
        .cores = out->cores,
    };

    wring_group_name_providers(session->world, provider, sizeof(provider));
    wring_machine_describe(&params, out->text, sizeof(out->text));
}

enum wring_status wring_job_machine_find(struct wring_session *session,
                                         struct wring_job_machine *out, uint32_t *first)
{
    struct location own = {.host = ""}, *locations = calloc(session->size, sizeof(*locations));
    struct wring_blobs blobs;

    enum wring_status status =
        wring_session_agree(session, locations != NULL ? WRING_OK : WRING_ERR_NO_MEMORY, "");
    if (status != WRING_OK)
        goto free_locations;
    own.known = wring_host_of_rank(session->config.node, session->rank, own.host, sizeof(own.host));
    if (sched_getaffinity(0, sizeof(own.cpus), &own.cpus) != 0)
        CPU_ZERO(&own.cpus);
    status = wring_session_exchange(session, &own, sizeof(own), &blobs);
    if (status != WRING_OK)
        goto free_locations;
    status = read_locations(session, &blobs, locations);
    wring_blobs_finish(&blobs);
    if (status == WRING_OK) {
        set_nodes(locations, session->size, out);
        set_own_cores(locations, session->size, out);
        if (first != NULL)
            find_first_on_host(locations, session->size, first);
        describe_machine(session, out);
    }
free_locations:
    free(locations);
    return status;
}
