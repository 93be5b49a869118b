/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rendezvous of many ranks, each a thread of this process: what each one gets, what it costs in
 * messages and bytes, and who is named where one goes.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/rendezvous_tree.h"

#define WAIT_NS (120ull * WRING_NS_PER_S)
#define STACK_BYTES (256u << 10)
#define BLOB_BYTES 100
#define NOBODY UINT32_MAX

static struct {
    uint32_t size;
    int listen_fd;
    char root[32];
    uint32_t leaver;      /* closes after the first exchange; NOBODY: none does */
    uint32_t absent;      /* never joins */
    uint64_t deadline_ns; /* of joining */
    atomic_uint wrong, logged;
    char line[512]; /* rank 0's */
} job;

static struct rank {
    pthread_t thread;
    uint32_t rank;
    enum wring_status status;
    int32_t at_fault;
    struct wring_rendezvous_traffic joined, exchanged;
} * ranks;

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    if (level == WRING_LOG_ERROR && ((struct rank *)arg)->rank == 0)
        snprintf(job.line, sizeof(job.line), "%s", text);
    job.logged += level == WRING_LOG_ERROR;
}

static void check_blobs(const struct wring_blobs *blobs)
{
    job.wrong += blobs->n != job.size;
    for (uint32_t i = 0; i < blobs->n; i++) {
        uint32_t first;
        memcpy(&first, blobs->storage + blobs->offsets[i], sizeof(first));
        job.wrong += blobs->offsets[i + 1] - blobs->offsets[i] != BLOB_BYTES || first != i;
    }
}

static enum wring_status exchange_once(struct wring_bootstrap *bootstrap, uint32_t rank)
{
    uint8_t blob[BLOB_BYTES] = {0};
    struct wring_blobs blobs;
    memcpy(blob, &rank, sizeof(rank));
    enum wring_status status = bootstrap->ops->exchange(bootstrap, blob, sizeof(blob),
                                                        wring_deadline_in(WAIT_NS), NULL, &blobs);
    if (status != WRING_OK)
        return status;
    check_blobs(&blobs);
    wring_blobs_finish(&blobs);
    return WRING_OK;
}

static struct wring_rendezvous_traffic traffic_of(const struct wring_bootstrap *bootstrap)
{
    const struct wring_rendezvous *rendezvous = (const struct wring_rendezvous *)bootstrap;
    return rendezvous->tree != NULL ? wring_rendezvous_tree_traffic(rendezvous->tree)
                                    : (struct wring_rendezvous_traffic){0};
}

static void *be_rank(void *arg)
{
    struct rank *rank = arg;
    struct wring_log log = {keep_line, rank, WRING_LOG_ERROR};
    struct wring_rendezvous_params params = {
        .log = &log,
        .rank = rank->rank,
        .size = job.size,
        .root = job.root,
        .root_fd = rank->rank == 0 ? job.listen_fd : -1,
        .key = "a key",
        .deadline_ns = job.deadline_ns,
    };
    struct wring_bootstrap *bootstrap;
    rank->at_fault = -1;
    if (rank->rank == job.absent)
        return NULL;
    rank->status = wring_rendezvous_create(&params, &bootstrap);
    if (rank->status != WRING_OK)
        return NULL;
    rank->joined = traffic_of(bootstrap);
    rank->status = exchange_once(bootstrap, rank->rank);
    rank->exchanged = traffic_of(bootstrap);
    if (rank->status == WRING_OK && job.leaver != NOBODY && rank->rank != job.leaver) {
        rank->status = exchange_once(bootstrap, rank->rank);
        rank->at_fault = bootstrap->at_fault;
    }
    bootstrap->ops->close(bootstrap);
    return NULL;
}

static void run(uint32_t size, uint32_t leaver, uint32_t absent, uint64_t join_ns)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    pthread_attr_t attributes;

    memset(&job, 0, sizeof(job));
    job.size = size;
    job.leaver = leaver;
    job.absent = absent;
    job.deadline_ns = wring_deadline_in(join_ns);
    job.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    REQUIRE(job.listen_fd >= 0 && bind(job.listen_fd, (struct sockaddr *)&address, bytes) == 0 &&
                listen(job.listen_fd, SOMAXCONN) == 0 &&
                getsockname(job.listen_fd, (struct sockaddr *)&address, &bytes) == 0,
            "no socket");
    snprintf(job.root, sizeof(job.root), "127.0.0.1:%u", ntohs(address.sin_port));
    ranks = calloc(size, sizeof(*ranks));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (uint32_t i = 0; i < size; i++) {
        ranks[i].rank = i;
        REQUIRE(pthread_create(&ranks[i].thread, &attributes, be_rank, &ranks[i]) == 0, "thread");
    }
    for (uint32_t i = 0; i < size; i++)
        pthread_join(ranks[i].thread, NULL);
    pthread_attr_destroy(&attributes);
    close(job.listen_fd);
}

/** Both ends of a stream are here, and those to rank 0 and those of the tree are at once. */
static void need_descriptors(uint32_t size)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 5 * (rlim_t)size + 100)
        wring_test_skip("needs %u descriptors, and may have %" PRIu64 " (ulimit -n)",
                        5 * size + 100, (uint64_t)limit.rlim_cur);
}

static void each_gets_all(uint32_t size)
{
    run(size, NOBODY, NOBODY, WAIT_NS);
    for (uint32_t i = 0; i < size; i++)
        CHECK(ranks[i].status == WRING_OK, "%u: rank %u: %s", size, i,
              wring_status_text(ranks[i].status));
    CHECK(job.wrong == 0, "%u ranks: %u wrong blobs", size, job.wrong);
    free(ranks);
}

static void sizes_around_the_tree(void)
{
    static const uint32_t sizes[] = {2, 16, 17, 18, 21, 22, 40, 85, 86};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        each_gets_all(sizes[i]);
}

/** Rank 0 sends and hears a few small frames per rank while ranks join, and a result four times. */
static void a_thousand_cost_what_they_should(void)
{
    const uint32_t size = 1000;
    uint64_t result = (uint64_t)size * (BLOB_BYTES + sizeof(uint64_t)), most = 0;
    need_descriptors(size);
    uint64_t began = wring_now_ns();
    run(size, NOBODY, NOBODY, WAIT_NS);
    uint64_t took = wring_now_ns() - began;
    CHECK(job.wrong == 0 && job.logged == 0, "%u wrong, %u lines", job.wrong, job.logged);
    for (uint32_t i = 0; i < size; i++) {
        const struct wring_rendezvous_traffic *joined = &ranks[i].joined;
        const struct wring_rendezvous_traffic *all = &ranks[i].exchanged;
        uint64_t sent = all->bytes_sent - joined->bytes_sent;
        most = sent > most ? sent : most;
        CHECK(ranks[i].status == WRING_OK, "rank %u: %s", i, wring_status_text(ranks[i].status));
        CHECK(i == 0 || (joined->frames_sent <= 2 && joined->frames_received <= 2),
              "rank %u joined by %" PRIu64 " and %" PRIu64 " frames", i, joined->frames_sent,
              joined->frames_received);
        CHECK(sent <= WRING_RENDEZVOUS_FAN * (result + 28) + size * (BLOB_BYTES + 28),
              "rank %u sent %" PRIu64 " bytes", i, sent);
    }
    const struct wring_rendezvous_traffic *root = &ranks[0].joined;
    CHECK(root->frames_sent == size - 1 && root->frames_received == 2 * (size - 1),
          "rank 0 let all in by %" PRIu64 " and %" PRIu64 " frames", root->frames_sent,
          root->frames_received);
    CHECK(root->bytes_sent + root->bytes_received <= 160 * (size - 1), "by %" PRIu64 " bytes",
          root->bytes_sent + root->bytes_received);
    CHECK(ranks[0].exchanged.frames_sent - root->frames_sent == WRING_RENDEZVOUS_FAN,
          "rank 0 sent the result %" PRIu64 " times",
          ranks[0].exchanged.frames_sent - root->frames_sent);
    printf("1000 ranks joined and exchanged %u bytes each in %.0f ms; rank 0: %" PRIu64
           " bytes to let them in; a rank sends at most %" PRIu64 " in an exchange\n",
           BLOB_BYTES, (double)took / 1e6, root->bytes_sent + root->bytes_received, most);
    free(ranks);
}

/** The rank that has left is named by all that are left, whichever it is. */
static void all_name_who_has_left(void)
{
    static const uint32_t leavers[] = {0, 1, 3, 5, 20, 39};
    const uint32_t size = 40;
    for (size_t l = 0; l < sizeof(leavers) / sizeof(leavers[0]); l++) {
        run(size, leavers[l], NOBODY, WAIT_NS);
        for (uint32_t i = 0; i < size; i++)
            CHECK(i == leavers[l] ||
                      (ranks[i].status == WRING_ERR_PEER && ranks[i].at_fault == (int)leavers[l]),
                  "%u left: rank %u: %s, by %d", leavers[l], i, wring_status_text(ranks[i].status),
                  ranks[i].at_fault);
        free(ranks);
    }
}

/** Alone, once the others have enough time on a machine that may be busy. */
static void who_never_joins_is_named(void)
{
    bool named = false;
    for (uint64_t s = 2; !named && s <= 16; s *= 2) {
        run(30, NOBODY, 17, s * WRING_NS_PER_S);
        named = strstr(job.line, "rank 17 did not join in time") != NULL;
        for (uint32_t i = 0; named && i < 30; i++)
            CHECK(i == 17 || ranks[i].status == WRING_ERR_PEER, "rank %u: %s", i,
                  wring_status_text(ranks[i].status));
        free(ranks);
    }
    CHECK(named, "rank 0 says: %s", job.line);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sizes_around_the_tree", sizes_around_the_tree},
        {"all_name_who_has_left", all_name_who_has_left},
        {"who_never_joins_is_named", who_never_joins_is_named},
        {"a_thousand_cost_what_they_should", a_thousand_cost_what_they_should},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
