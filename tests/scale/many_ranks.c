/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank of a job of many real processes takes: private memory, descriptors, connections.
 *
 *     many_ranks WRING RANKS     starts the job by `wring run` and judges it
 *     many_ranks rank FILE       is one rank of it; its row goes into FILE
 *
 * Counts are judged, times are only told.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/scale.h"
#include "runtime/session/session.h"
#include "tests/lib/test.h"

#define PRIVATE_MOST (16u << 20) /* bytes a rank */
#define DESCRIPTORS_MOST 40
#define REPEATS 5

struct moment {
    uint64_t private_bytes, descriptors, connections, threads, cpu_us;
};

/** What one rank says of itself. */
struct row {
    uint64_t begun_ns, opened_ns, closed_ns;
    struct moment fresh, opened, small, large;
    uint64_t small_ns, large_ns; /* median of its steps */
    uint64_t small_puts;         /* of one */
    uint64_t wrong;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/** Bytes that this process alone has. */
static uint64_t private_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    uint64_t bytes = 0, kib;
    char line[256];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Private_Clean: %" SCNu64, &kib) == 1 ||
            sscanf(line, "Private_Dirty: %" SCNu64, &kib) == 1)
            bytes += kib << 10;
    if (file != NULL)
        fclose(file);
    return bytes;
}

static uint64_t count_entries(const char *path)
{
    DIR *folder = opendir(path);
    uint64_t n = 0;
    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}

static struct moment look(struct wring_session *session)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    struct moment moment = {
        .cpu_us = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                  (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec),
        .private_bytes = private_bytes(),
        .descriptors = count_entries("/proc/self/fd") - 3, /* ., .. and the folder itself */
        .threads = count_entries("/proc/self/task") - 2,
    };
    if (session == NULL)
        return moment;
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->size; i++)
        moment.connections +=
            i != session->rank && session->fabric->peers[i].state == WRING_PEER_READY;
    wring_progress_unlock(session->progress);
    return moment;
}

static int compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/** Sums of so many floats: the first one connects. @return median time of the others */
static uint64_t sum(struct wring_session *session, uint64_t elems, struct row *row)
{
    uint64_t took[REPEATS];
    float *in = malloc(elems * sizeof(*in)), *out = malloc(elems * sizeof(*out));
    uint32_t n = session->size;
    for (int i = -1; i < REPEATS && in != NULL && out != NULL; i++) {
        for (uint64_t e = 0; e < elems; e++)
            in[e] = (float)(session->rank + e % 7);
        uint64_t begun = now_ns();
        enum wring_status status = wring_allreduce(wring_session_world(session), in, out, elems,
                                                   WRING_F32, WRING_SUM, NULL, NULL);
        if (i >= 0)
            took[i] = now_ns() - begun;
        for (uint64_t e = 0; e < elems; e++)
            row->wrong +=
                status != WRING_OK || out[e] != (float)((uint64_t)n * (n - 1) / 2 + n * (e % 7));
    }
    row->wrong += in == NULL || out == NULL;
    free(in);
    free(out);
    qsort(took, REPEATS, sizeof(took[0]), compare);
    return took[REPEATS / 2];
}

static uint64_t puts_of(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    wring_session_stats(session, &stats);
    return stats.puts_sent;
}

static int be_rank(const char *path)
{
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session;
    struct row row = {.begun_ns = now_ns(), .fresh = look(NULL)};
    enum wring_status status = wring_session_open(&params, &session);
    if (status != WRING_OK)
        return 1;
    row.opened_ns = now_ns();
    row.opened = look(session);
    uint64_t puts = puts_of(session);
    row.small_ns = sum(session, 1024, &row);
    row.small_puts = (puts_of(session) - puts) / (REPEATS + 1);
    row.small = look(session);
    row.large_ns = sum(session, 1 << 18, &row);
    row.large = look(session);
    row.wrong += wring_barrier(wring_session_world(session), NULL, NULL) != WRING_OK;
    uint32_t rank = session->rank;
    wring_session_close(session);
    row.closed_ns = now_ns();
    FILE *file = fopen(path, "r+be");
    bool written = file != NULL && fseek(file, (long)(rank * sizeof(row)), SEEK_SET) == 0 &&
                   fwrite(&row, sizeof(row), 1, file) == 1;
    if (file != NULL)
        written &= fclose(file) == 0;
    return written && row.wrong == 0 ? 0 : 2;
}

/* ---- the job ---- */

static struct {
    const char *self, *wring;
    uint32_t ranks;
} job;

/** @return the rows of all ranks, [job.ranks], to be freed; NULL: the job has failed */
static struct row *run_job(void)
{
    char path[] = "/tmp/many_ranks.XXXXXX", ranks[16];
    int fd = mkstemp(path), status = -1;
    struct row *rows = calloc(job.ranks, sizeof(*rows));
    snprintf(ranks, sizeof(ranks), "%" PRIu32, job.ranks);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("WRING_PROVIDER", "tcp", 1);
        execl(job.wring, job.wring, "run", "-n", ranks, "--", job.self, "rank", path, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    bool read =
        fd >= 0 && rows != NULL &&
        pread(fd, rows, job.ranks * sizeof(*rows), 0) == (ssize_t)(job.ranks * sizeof(*rows));
    CHECK(status == 0 && read, "the job of %u ended with %d", job.ranks, status);
    close(fd);
    unlink(path);
    if (status == 0 && read)
        return rows;
    free(rows);
    return NULL;
}

/** What a rank takes beyond what its program took before is what was said beforehand. */
static void compare_with_prediction(const struct row *rows, uint64_t bytes, size_t at)
{
    struct wring_config config;
    const struct wring_log quiet = {.level = WRING_LOG_ERROR};
    const struct wring_scale_job asked = {.ranks = job.ranks, .provider = "tcp", .bytes = bytes};
    struct wring_scale scale;
    REQUIRE(wring_config_load(&config, &quiet) == WRING_OK &&
                wring_scale_predict(&config, &quiet, &asked, &scale) == WRING_OK,
            "no prediction");
    uint64_t descriptors = 0, private = 0;
    uint32_t most_rank = 0;
    for (uint32_t i = 0; i < job.ranks; i++) {
        const struct moment *moment = (const struct moment *)((const char *)&rows[i] + at);
        uint64_t own = moment->descriptors - rows[i].fresh.descriptors;
        uint64_t took = moment->private_bytes - rows[i].fresh.private_bytes;
        most_rank = own > descriptors ? i : most_rank;
        descriptors = own > descriptors ? own : descriptors;
        private = took > private ? took : private;
    }
    const struct moment *most = (const struct moment *)((const char *)&rows[most_rank] + at);
    const struct moment *root = (const struct moment *)((const char *)rows + at);
    CHECK(descriptors == scale.most.descriptors,
          "%" PRIu64 " bytes: rank %u has %" PRIu64 " descriptors, and %" PRIu64 " were said",
          bytes, most_rank, descriptors, scale.most.descriptors);
    CHECK(root->descriptors - rows[0].fresh.descriptors == scale.root.descriptors &&
              root->connections == scale.root.connections,
          "%" PRIu64 " bytes: rank 0 has %" PRIu64 " descriptors and %" PRIu64 " connections, and "
          "%" PRIu64 " and %" PRIu64 " were said",
          bytes, root->descriptors - rows[0].fresh.descriptors, root->connections,
          scale.root.descriptors, scale.root.connections);
    if (bytes == 4096)
        CHECK(rows[0].small_puts == scale.root.messages,
              "rank 0 sends %" PRIu64 " messages, not %" PRIu64, rows[0].small_puts,
              scale.root.messages);
    CHECK(most->connections == scale.most.connections,
          "%" PRIu64 " bytes: rank %u has %" PRIu64 " connections, and %" PRIu64 " were said",
          bytes, most_rank, most->connections, scale.most.connections);
    uint64_t said = wring_scale_bytes(&scale.most.memory);
    CHECK(private <= said && said <= 2 * private + scale.most.memory.slots + (1 << 20),
          "%" PRIu64 " bytes: a rank takes %" PRIu64 " KiB, and %" PRIu64 " were said", bytes,
          private >> 10, said >> 10);
    printf("%" PRIu64 " bytes: %" PRIu64 " KiB and %" PRIu64 " descriptors a rank, said %" PRIu64
           " KiB and %" PRIu64 "\n",
           bytes, private >> 10, descriptors, said >> 10, scale.most.descriptors);
}

static void judge(const char *when, uint32_t rank, const struct moment *moment,
                  const struct moment *fresh)
{
    CHECK(moment->private_bytes <= PRIVATE_MOST, "%s: rank %u has %" PRIu64 " private KiB", when,
          rank, moment->private_bytes >> 10);
    CHECK(moment->descriptors - fresh->descriptors <= DESCRIPTORS_MOST,
          "%s: rank %u has %" PRIu64 " descriptors", when, rank,
          moment->descriptors - fresh->descriptors);
}

static void tell(const char *when, const struct row *rows, size_t at)
{
    struct moment most = {0};
    uint64_t bytes = 0, fds = 0, cpu = 0;
    for (uint32_t i = 0; i < job.ranks; i++) {
        const struct moment *moment = (const struct moment *)((const char *)&rows[i] + at);
        bytes += moment->private_bytes;
        fds += moment->descriptors;
        cpu += moment->cpu_us;
        if (moment->private_bytes > most.private_bytes)
            most.private_bytes = moment->private_bytes;
        if (moment->descriptors > most.descriptors)
            most.descriptors = moment->descriptors;
        if (moment->connections > most.connections)
            most.connections = moment->connections;
        most.threads = moment->threads > most.threads ? moment->threads : most.threads;
    }
    printf("%-8s private KiB mean %5" PRIu64 " most %5" PRIu64 " | descriptors mean %3" PRIu64
           " most %3" PRIu64 ", rank 0 %3" PRIu64 " | connections most %3" PRIu64
           " | threads %" PRIu64 " | cpu ms mean %.2f, rank 0 %.2f\n",
           when, (bytes >> 10) / job.ranks, most.private_bytes >> 10, fds / job.ranks,
           most.descriptors, ((const struct moment *)((const char *)rows + at))->descriptors,
           most.connections, most.threads, (double)cpu / 1e3 / job.ranks,
           (double)((const struct moment *)((const char *)rows + at))->cpu_us / 1e3);
}

static void many_ranks_cost_little(void)
{
    uint64_t began = now_ns();
    struct row *rows = run_job();
    if (rows == NULL)
        return;
    uint64_t first = UINT64_MAX, last = 0, opened = 0, small = 0, large = 0, puts = 0;
    for (uint32_t i = 0; i < job.ranks; i++) {
        const struct row *row = &rows[i];
        first = row->begun_ns < first ? row->begun_ns : first;
        last = row->begun_ns > last ? row->begun_ns : last;
        opened = row->opened_ns > opened ? row->opened_ns : opened;
        small = row->small_ns > small ? row->small_ns : small;
        large = row->large_ns > large ? row->large_ns : large;
        puts = row->small_puts > puts ? row->small_puts : puts;
        judge("opened", i, &row->opened, &row->fresh);
        judge("4 KiB", i, &row->small, &row->fresh);
        judge("1 MiB", i, &row->large, &row->fresh);
    }
    printf("%u ranks: started in %.3f s, joined %.3f s after that; 4 KiB %.2f ms, %" PRIu64
           " puts; 1 MiB %.2f ms; all in %.2f s\n",
           job.ranks, (double)(last - first) / 1e9, (double)(opened - last) / 1e9,
           (double)small / 1e6, puts, (double)large / 1e6, (double)(now_ns() - began) / 1e9);
    tell("fresh", rows, offsetof(struct row, fresh));
    tell("opened", rows, offsetof(struct row, opened));
    tell("4 KiB", rows, offsetof(struct row, small));
    tell("1 MiB", rows, offsetof(struct row, large));
    compare_with_prediction(rows, 4096, offsetof(struct row, small));
    compare_with_prediction(rows, 1 << 20, offsetof(struct row, large));
    free(rows);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"many_ranks_cost_little", many_ranks_cost_little},
        {NULL, NULL},
    };
    if (argc == 3 && strcmp(argv[1], "rank") == 0)
        return be_rank(argv[2]);
    if (argc < 3) {
        fprintf(stderr, "usage: many_ranks WRING RANKS\n");
        return 2;
    }
    job.self = argv[0];
    job.wring = argv[1];
    job.ranks = (uint32_t)atoi(argv[2]);
    return wring_test_main(1, argv, cases);
}
