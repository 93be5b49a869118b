/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/scale.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/group.h"
#include "runtime/progress/progress.h"
#include "transport/bootstrap/rendezvous_tree.h"
#include "transport/channel.h"
#include "transport/collective/collective.h"
#include "transport/control_tree.h"
#include "transport/fabric.h"
#include "transport/message/match.h"
#include "transport/pairs.h"
#include "transport/pool_link.h"
#include "transport/slot_pool.h"

/* A thread with its stack, libcrypto, the session and what it reads at first: as measured by
 * tests/scale, 345 KiB. */
#define FIXED_BYTES (512u << 10)

static uint64_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t n = 0;
    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}

uint64_t wring_scale_bytes(const struct wring_scale_memory *memory)
{
    return memory->table + memory->state + memory->connections + memory->slots + memory->fixed;
}

/** What of a fabric there is to know while nobody else is there. */
struct sample {
    uint64_t description_bytes, descriptors, link_bytes;
    struct wring_provider_caps caps; /* of the device that leads to the others */
    char provider[WRING_SCALE_NAME];
};

static enum wring_status take_sample(const struct wring_config *config, const struct wring_log *log,
                                     const struct wring_scale_job *job, struct sample *out)
{
    struct wring_fabric_params params = {
        .config = config,
        .log = log,
        .size = job->ranks,
        .provider = job->provider,
        .bind = "",
    };
    struct wring_fabric *fabric;
    struct wring_writer description = {0};
    uint64_t before = count_descriptors();
    enum wring_status status = wring_fabric_create(&params, &fabric);
    if (status != WRING_OK)
        return status;
    wring_fabric_describe(fabric, &description);
    *out = (struct sample){
        .description_bytes = description.bytes,
        .descriptors = count_descriptors() - before,
        .link_bytes = wring_control_tree_link_bytes(fabric->tree),
        .caps = fabric->devices[0].caps,
    };
    snprintf(out->provider, sizeof(out->provider), "%s", fabric->devices[0].name);
    free(description.data);
    wring_fabric_destroy(fabric);
    return WRING_OK;
}

/** A sum of float32 as rank `me` of the job makes it, of which nothing is allocated. */
static struct wring_collective make_sum(const struct wring_config *config,
                                        const struct sample *sample,
                                        const struct wring_scale_job *job)
{
    size_t slot_bytes = (size_t)config->chunk_bytes;
    struct wring_collective sum = {.members = {.n = job->ranks}, .slot_bytes = slot_bytes};
    uint64_t elems = (job->bytes + sizeof(float) - 1) / sizeof(float);
    sum.work.dtype = WRING_F32;
    sum.work.op = WRING_SUM;
    sum.work.partition = wring_partition_make(elems, sizeof(float), job->ranks, NULL, slot_bytes);
    struct wring_operation operation = {
        .kind = WRING_CALL_ALLREDUCE,
        .dtype = WRING_F32,
        .op = WRING_SUM,
        .elems = elems,
        .elem_bytes = sizeof(float),
        .members = job->ranks,
        .scheme = WRING_SCHEME_AUTO,
    };
    bool maps = sample->caps.remote_map && job->ranks <= WRING_REDUCTION_RUNS;
    struct wring_reach reach = {
        .eager_bytes = config->flat_bytes,
        .chunk_bytes = config->chunk_bytes,
        .piece_elems = sum.work.partition.chunk_elems,
        .mappable = maps,
        .boards = maps,
        .copies = sample->caps.local_any,
    };
    wring_work_set_algorithm(&sum.work, wring_algorithm_select(&operation, &reach));
    return sum;
}

/** Streams by which ranks met. */
static uint64_t count_streams(uint32_t rank, uint32_t ranks)
{
    if (ranks <= WRING_RENDEZVOUS_DIRECT)
        return rank == 0 ? ranks - 1 : 1;
    return wring_rendezvous_children(rank, ranks).n + (rank > 0);
}

static uint64_t count_tree_links(uint32_t rank, uint32_t ranks)
{
    uint64_t first = (uint64_t)rank * WRING_CONTROL_TREE_FAN + 1;
    uint64_t below = first < ranks ? ranks - first : 0;
    return (below < WRING_CONTROL_TREE_FAN ? below : WRING_CONTROL_TREE_FAN) + (rank > 0);
}

/** What is kept for each of so many ranks; of most of it only what is used is touched. */
static uint64_t count_state(const struct wring_config *config, uint32_t ranks)
{
    uint32_t window = wring_channel_window(config->window, WRING_TAGGED_WINDOW_MAX);
    return (uint64_t)ranks * (sizeof(struct wring_peer) + sizeof(struct wring_pool_link *) +
                              sizeof(struct wring_match_source) +
                              2 * sizeof(void *) /* the messenger's */ + sizeof(uint32_t)) +
           wring_control_tree_state_bytes(ranks) + 2 * wring_channel_state_bytes(ranks, window) +
           wring_pairs_state_bytes(ranks) + wring_collective_state_bytes(ranks, WRING_GROUP_TASKS);
}

static void predict_rank(const struct wring_config *config, const struct sample *sample,
                         struct wring_collective *sum, uint32_t rank, struct wring_scale_rank *out)
{
    uint32_t ranks = sum->members.n;
    uint64_t bytes = sum->work.partition.elems * sizeof(float);
    uint64_t slot = bytes < sum->slot_bytes ? bytes : sum->slot_bytes;
    sum->members.me = rank;
    struct wring_collective_traffic traffic = wring_collective_traffic(sum);
    *out = (struct wring_scale_rank){
        .connections = traffic.partners,
        .messages = traffic.messages,
        .descriptors = sample->descriptors + WRING_PROGRESS_DESCRIPTORS +
                       count_streams(rank, ranks) + count_tree_links(rank, ranks) +
                       traffic.partners * sample->caps.conn_descriptors,
        .memory = {
            .table = ranks * (sample->description_bytes + sizeof(size_t)),
            .state = count_state(config, ranks),
            .connections = traffic.partners * (sample->caps.conn_bytes + WRING_POOL_RING_BYTES +
                                               sizeof(struct wring_pool_link)),
            .slots = bytes > WRING_POOL_SMALL ? (uint64_t)config->pool_slots * slot : 0,
            .fixed = FIXED_BYTES,
        }};
    out->memory.connections += count_tree_links(rank, ranks) * sample->link_bytes;
}

enum wring_status wring_scale_predict(const struct wring_config *config,
                                      const struct wring_log *log,
                                      const struct wring_scale_job *job, struct wring_scale *out)
{
    struct sample sample;
    enum wring_status status = take_sample(config, log, job, &sample);
    if (status != WRING_OK)
        return status;
    struct wring_collective sum = make_sum(config, &sample, job);
    struct wring_scale scale = {.algorithm = wring_algorithms[sum.work.algorithm].name,
                                .table_bytes_per_rank = sample.description_bytes + sizeof(size_t)};
    memcpy(scale.provider, sample.provider, sizeof(scale.provider));
    predict_rank(config, &sample, &sum, 0, &scale.root);
    scale.most = scale.root;
    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        struct wring_scale_rank one;
        predict_rank(config, &sample, &sum, rank, &one);
        if (one.descriptors <= scale.most.descriptors)
            continue;
        scale.most = one;
        scale.most_rank = rank;
    }
    *out = scale;
    return WRING_OK;
}
