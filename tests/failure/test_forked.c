/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that fork: data loaders, checkpoints, children that outlive their rank. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define RANKS 3
#define FLOATS 50000 /* of a bucket; more than goes flat */
#define SMALL 100    /* of another, which over shm is exchanged without the engine */
#define CHILD_S 60   /* a child that hangs is killed then */
#define SOON_S 20    /* less than WRING_PEER_TIMEOUT */

/* The race detector cannot follow threads that a forked child makes. */
#ifdef __SANITIZE_THREAD__
#define PROGRESS_OF_CHILD "WRING_PROGRESS=caller"
#define EXECUTOR_OF_CHILD "WRING_EXECUTOR=inline"
#else
#define PROGRESS_OF_CHILD "WRING_PROGRESS=thread"
#define EXECUTOR_OF_CHILD "WRING_EXECUTOR=pool:1"
#endif

/* Silence must not be what tells of a death. */
static const char *const over_tcp[] = {"WRING_PROVIDER=tcp", "WRING_PEER_TIMEOUT=60s", NULL};
static const char *const over_shm[] = {"WRING_PROVIDER=shm", "WRING_PEER_TIMEOUT=60s", NULL};
static const char *const mixed[] = {"WRING_PROVIDER=shm,tcp", "WRING_PEER_TIMEOUT=60s", NULL};
static const char *const pooled[] = {"WRING_PROVIDER=shm", "WRING_PEER_TIMEOUT=60s",
                                     "WRING_EXECUTOR=pool:1", "WRING_HUGEPAGES=thp", NULL};
static const char *const *const variants[] = {over_tcp, over_shm, mixed, pooled};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

/** What a rank works with. The child has a copy, and its exit handler finds it here. */
static struct work {
    struct procs_rank *rank;
    struct wring_session *session;
    struct wring_group *group;
    struct wring_bucket *large, *small;
    float *large_data, *small_data;
    float *kept; /* wring_buffer_alloc() memory that no bucket has */
    unsigned steps;
} work;

static int life[2]; /* of all jobs: children that outlive their rank wait for its end */

static enum wring_status add_bucket(const char *name, uint64_t elems, float **data,
                                    struct wring_bucket **out)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    enum wring_status status =
        wring_buffer_alloc(work.session, elems * sizeof(float), (void **)data);
    params.name = name;
    params.data = *data;
    params.elems = elems;
    return status == WRING_OK ? wring_bucket_register(work.session, &params, out) : status;
}

static void add_setting(struct procs_rank *rank, const char *setting)
{
    size_t n = 0;
    while (rank->settings[n] != NULL)
        n++;
    rank->settings[n] = setting;
}

static enum wring_status begin(struct procs_rank *rank)
{
    static const uint32_t all[] = {0, 1, 2};
    work.rank = rank;
    if (strcmp(rank->settings[1], mixed[0]) == 0)
        add_setting(rank, rank->rank == 2 ? "WRING_NODE=b" : "WRING_NODE=a");
    enum wring_status status = wring_session_open(&rank->params, &work.session);
    if (status == WRING_OK)
        status = add_bucket("large", FLOATS, &work.large_data, &work.large);
    if (status == WRING_OK)
        status = add_bucket("small", SMALL, &work.small_data, &work.small);
    if (status == WRING_OK)
        status = wring_buffer_alloc(work.session, FLOATS * sizeof(float), (void **)&work.kept);
    if (status == WRING_OK)
        status = wring_session_commit(work.session);
    if (status == WRING_OK)
        status = wring_group_create(wring_session_world(work.session), all, rank->size, 0,
                                    WRING_FOREVER, &work.group);
    return status;
}

/** What a rank contributes; a sum of all ranks' is exact. */
static float value(uint32_t rank, unsigned step, size_t i)
{
    return (float)((rank + 1) * 1000 + (step * 31 + i) % 997);
}

static void fill(float *data, size_t n, unsigned step)
{
    for (size_t i = 0; i < n; i++)
        data[i] = value(work.rank->rank, step, i);
}

static bool is_sum(const float *data, size_t n, unsigned step)
{
    for (size_t i = 0; i < n; i++) {
        float want = 0;
        for (uint32_t r = 0; r < work.rank->size; r++)
            want += value(r, step, i);
        if (data[i] != want)
            return false;
    }
    return true;
}

static enum wring_status post_both(void)
{
    fill(work.large_data, FLOATS, work.steps);
    fill(work.small_data, SMALL, work.steps);
    enum wring_status status = wring_bucket_post(work.large);
    return status == WRING_OK ? wring_bucket_post(work.small) : status;
}

/** @return WRING_ERR_FRAME for sums that are wrong */
static enum wring_status end_both(void)
{
    enum wring_status status = wring_bucket_wait(work.small, WRING_FOREVER, NULL);
    if (status == WRING_OK)
        status = wring_bucket_wait(work.large, WRING_FOREVER, NULL);
    if (status == WRING_OK && (!is_sum(work.large_data, FLOATS, work.steps) ||
                               !is_sum(work.small_data, SMALL, work.steps)))
        status = WRING_ERR_FRAME;
    work.steps++;
    return status;
}

static enum wring_status take_steps(unsigned n)
{
    enum wring_status status = WRING_OK;
    for (unsigned i = 0; i < n && status == WRING_OK; i++) {
        status = post_both();
        if (status == WRING_OK)
            status = end_both();
    }
    return status;
}

static bool is_child;

/** The leak detector asks this at exit. In a child it would look for threads that its parent has.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

/** A child of a rank, which ends in any case. */
static pid_t fork_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        is_child = true;
        alarm(CHILD_S);
    }
    return child;
}

static bool child_ended_well(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- every call of a child is refused, and harms nobody ---- */

static void leave_like_a_program(void)
{
    wring_group_destroy(work.group);
    wring_buffer_free(work.session, work.kept);
    wring_session_close(work.session);
}

/** @return how many calls were answered otherwise than WRING_ERR_INVALID */
static int call_everything(struct wring_request *request)
{
    static char state[64];
    size_t bytes = sizeof(state), index;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    struct wring_bucket_stats one = WRING_BUCKET_STATS_INIT;
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    const struct wring_waitable both[] = {{.bucket = work.large}, {.bucket = work.small}};
    struct wring_bucket *bucket = NULL;
    struct wring_group *group = NULL;
    uint32_t ranks[] = {0, 1, 2};
    float own[3] = {0};
    float all[9] = {0};
    void *memory = NULL;
    params.name = "another";
    params.data = own;
    params.elems = 3;
    const enum wring_status answers[] = {
        wring_bucket_post(work.large),
        wring_bucket_test(work.large, NULL),
        wring_bucket_wait(work.large, 0, NULL),
        wring_bucket_post(work.small),
        wring_bucket_test(work.small, NULL),
        wring_bucket_wait(work.small, WRING_FOREVER, NULL),
        wring_wait_any(both, 2, WRING_FOREVER, &index, NULL),
        wring_bucket_drop(work.small),
        wring_bucket_register(work.session, &params, &bucket),
        wring_session_commit(work.session),
        wring_group_create(work.group, ranks, RANKS, 0, WRING_FOREVER, &group),
        wring_buffer_alloc(work.session, 100, &memory),
        wring_buffer_register(work.session, own, sizeof(own)),
        wring_request_test(request, NULL),
        wring_request_wait(request, WRING_FOREVER, NULL),
        wring_allreduce(work.group, own, own, 3, WRING_F32, WRING_SUM, NULL, NULL),
        wring_allreduce(work.group, own, own, 3, WRING_F32, WRING_SUM,
                        &(struct wring_call){.codec = "int8"}, NULL),
        wring_reduce_scatter(work.group, all, own, 3, WRING_F32, WRING_SUM, NULL, NULL),
        wring_allgather(work.group, own, all, 3, WRING_F32, NULL, NULL),
        wring_alltoall(work.group, all, all, 3, WRING_F32, NULL, NULL),
        wring_broadcast(work.group, own, 12, 0, NULL, NULL),
        wring_barrier(work.group, NULL, NULL),
        wring_session_stats(work.session, &stats),
        wring_bucket_stats(work.large, &one),
        wring_session_save_state(work.session, state, &bytes),
        wring_session_load_state(work.session, state, sizeof(state)),
        wring_session_error(work.session, &detail),
    };
    int otherwise = strstr(detail.text, "fork") == NULL || detail.rank != -1;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (answers[i] != WRING_ERR_INVALID) {
            procs_say(work.rank, "call %zu: %s", i, wring_status_text(answers[i]));
            otherwise++;
        }
    if (wring_session_rank(work.session) != work.rank->rank ||
        wring_session_size(work.session) != work.rank->size)
        otherwise++;
    return otherwise;
}

/** A data loader: it ends by exit(), which runs the program's clean-up. */
static void be_loader(struct wring_request *request)
{
    int otherwise = call_everything(request);
    memset(work.large_data, 0x7f, FLOATS * sizeof(float));
    memset(work.small_data, 0x7f, SMALL * sizeof(float));
    atexit(leave_like_a_program);
    exit(otherwise == 0 ? 0 : 1);
}

/** Forks with a step and a request under way, so with locks held and the thread at work. */
static int run_loaders(struct procs_rank *rank, void *arg)
{
    static float summed[FLOATS];
    (void)arg;
    enum wring_status status = begin(rank);
    for (unsigned turn = 0; turn < 5 && status == WRING_OK; turn++) {
        struct wring_request *request = NULL;
        status = post_both();
        fill(summed, FLOATS, turn);
        if (status == WRING_OK)
            status = wring_allreduce(work.group, summed, summed, FLOATS, WRING_F32, WRING_SUM, NULL,
                                     &request);
        if (status != WRING_OK)
            break;
        pid_t child = fork_child();
        if (child == 0)
            be_loader(request);
        status = end_both();
        if (status == WRING_OK)
            status = wring_request_wait(request, WRING_FOREVER, NULL);
        if (status == WRING_OK && !is_sum(summed, FLOATS, turn))
            status = WRING_ERR_FRAME;
        if (!child_ended_well(child)) {
            procs_say(rank, "a child did not end well");
            return 4;
        }
    }
    if (status == WRING_OK)
        status = take_steps(20);
    procs_say(rank, "end %s", wring_status_text(status));
    wring_session_close(work.session);
    return status == WRING_OK ? 0 : 3;
}

static void check_all_well(const char *what)
{
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK(job.codes[r] == 0, "%s: rank %u (code %d) said:\n%s", what, r, job.codes[r],
              job.texts[r]);
}

static void children_are_refused_and_harm_nobody(void)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        start(RANKS, variants[i], run_loaders);
        CHECK(procs_run(&job, 2 * DEADLINE_S), "hangs: %s", variants[i][0]);
        check_all_well(variants[i][0]);
        for (uint32_t r = 0; r < RANKS; r++)
            CHECK(strstr(job.texts[r], "log session: this process was made by fork()") != NULL,
                  "%s: rank %u said:\n%s", variants[i][0], r, job.texts[r]);
    }
}

/* ---- what a child has of its parent ---- */

/** The open descriptors, as a set of numbers below 256; that of the look itself is left out. */
static void list_descriptors(bool open[256])
{
    memset(open, 0, 256);
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *at;
    while (dir != NULL && (at = readdir(dir)) != NULL)
        if (at->d_name[0] != '.' && atoi(at->d_name) < 256 && atoi(at->d_name) != dirfd(dir))
            open[atoi(at->d_name)] = true;
    if (dir != NULL)
        closedir(dir);
}

/** Mappings of files of ours that others share. */
static int count_shared_mappings(void)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char access[8] = "";
        sscanf(line, "%*s %7s", access);
        n += strstr(line, "memfd:wring") != NULL && access[3] == 's';
    }
    if (maps != NULL)
        fclose(maps);
    return n;
}

static int look_at_child(const bool before[256])
{
    bool now[256];
    int wrong = 0;
    list_descriptors(now);
    for (int fd = 0; fd < 256; fd++)
        if (now[fd] && !before[fd]) {
            procs_say(work.rank, "descriptor %d is open in the child", fd);
            wrong++;
        }
    if (count_shared_mappings() > 0) {
        procs_say(work.rank, "the child shares %d mappings", count_shared_mappings());
        wrong++;
    }
    return wrong;
}

static int run_looking(struct procs_rank *rank, void *arg)
{
    bool before[256], within[256];
    int more = 0;
    (void)arg;
    list_descriptors(before);
    enum wring_status status = begin(rank);
    if (status == WRING_OK)
        status = take_steps(3);
    list_descriptors(within);
    for (int fd = 0; fd < 256; fd++)
        more += within[fd] && !before[fd];
    if (status != WRING_OK || more < 3) {
        procs_say(rank, "%s, %d descriptors", wring_status_text(status), more);
        return 3;
    }
    pid_t child = fork_child();
    if (child == 0)
        _exit(look_at_child(before));
    bool well = child_ended_well(child);
    status = take_steps(3);
    wring_session_close(work.session);
    list_descriptors(within);
    for (int fd = 0; fd < 256; fd++)
        if (within[fd] && !before[fd]) {
            procs_say(rank, "descriptor %d is still open after close", fd);
            well = false;
        }
    return well && status == WRING_OK ? 0 : 4;
}

static void a_child_has_no_descriptor_and_shares_no_memory(void)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        start(RANKS, variants[i], run_looking);
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", variants[i][0]);
        check_all_well(variants[i][0]);
    }
}

/* ---- a child outlives its rank ---- */

/** Live until the test is over, in nobody's way. */
static void live_on(int report)
{
    char byte;
    close(life[1]);
    close(report);
    ssize_t ignored = read(life[0], &byte, 1);
    (void)ignored;
    _exit(0);
}

static void leave_child(struct procs_rank *rank)
{
    int ready[2];
    char byte = 0;
    if (pipe2(ready, O_CLOEXEC) != 0)
        _exit(90);
    if (fork_child() == 0) {
        ssize_t said = write(ready[1], &byte, 1);
        (void)said;
        close(ready[0]);
        close(ready[1]);
        live_on(rank->report);
    }
    if (read(ready[0], &byte, 1) != 1)
        _exit(91);
    close(ready[0]);
    close(ready[1]);
}

static int run_outlived(struct procs_rank *rank, void *arg)
{
    (void)arg;
    enum wring_status status = begin(rank);
    if (status != WRING_OK)
        return 2;
    if (rank->rank == 1) {
        take_steps(3);
        leave_child(rank);
        kill(getpid(), SIGKILL);
    }
    uint64_t began_ns = wring_now_ns();
    while (status == WRING_OK && wring_now_ns() - began_ns < CHILD_S * WRING_NS_PER_S)
        status = take_steps(1);
    double took_s = (double)(wring_now_ns() - began_ns) / 1e9;
    procs_say_end(rank, work.session, status);
    procs_say(rank, "%s after %.1f s", took_s < SOON_S ? "soon" : "late", took_s);
    wring_session_close(work.session);
    return 3;
}

static void a_death_is_seen_though_a_child_lives(void)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        REQUIRE(pipe2(life, O_CLOEXEC) == 0, "pipe");
        start(RANKS, variants[i], run_outlived);
        CHECK(procs_run(&job, 2 * DEADLINE_S), "hangs: %s", variants[i][0]);
        CHECK(job.codes[1] == -SIGKILL, "code %d:\n%s", job.codes[1], job.texts[1]);
        for (uint32_t r = 0; r < RANKS; r += 2)
            CHECK(strstr(job.texts[r], "end peer lost, rank 1, rank 1 is lost") != NULL &&
                      strstr(job.texts[r], "soon after") != NULL &&
                      strstr(job.texts[r], "sign of life") == NULL,
                  "%s: rank %u said:\n%s", variants[i][0], r, job.texts[r]);
        close(life[0]);
        close(life[1]);
    }
}

/* ---- ports ---- */

/** @param arg  not NULL: leave a child behind */
static int run_on_ports(struct procs_rank *rank, void *arg)
{
    enum wring_status status = begin(rank);
    if (status == WRING_OK)
        status = take_steps(2);
    if (status == WRING_OK && arg != NULL)
        leave_child(rank);
    if (status == WRING_OK)
        status = wring_barrier(work.group, NULL, NULL);
    procs_say(rank, "end %s", wring_status_text(status));
    if (work.session != NULL)
        wring_session_close(work.session);
    return status == WRING_OK ? 0 : 3;
}

static void ports_are_free_though_children_live(void)
{
    char ports[64];
    const char *settings[] = {"WRING_PROVIDER=tcp", ports, NULL};
    unsigned first = find_ports(2 * RANKS); /* for tcp, and for control */
    REQUIRE(first != 0 && pipe2(life, O_CLOEXEC) == 0, "ports and a pipe");
    snprintf(ports, sizeof(ports), "WRING_PORTS=%u-%u", first, first + 2 * RANKS - 1);
    for (int i = 0; i < 3; i++) {
        start(RANKS, settings, run_on_ports);
        job.arg = i < 2 ? &ports : NULL;
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        check_all_well(ports);
    }
    close(life[0]);
    close(life[1]);
}

/* ---- checkpoints ---- */

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/** Write what the parent kept, in slow pieces, and scribble over its own copy of all the rest. */
static void write_checkpoint(int fd)
{
    size_t bytes = FLOATS * sizeof(float), piece = bytes / 10;
    memset(work.large_data, 0x7f, bytes);
    memset(work.small_data, 0x7f, SMALL * sizeof(float));
    for (size_t at = 0; at < bytes; at += piece) {
        usleep(5000);
        if (!write_all(fd, (const char *)work.kept + at, piece < bytes - at ? piece : bytes - at))
            _exit(1);
    }
    memset(work.kept, 0x7f, bytes);
    _exit(0);
}

static bool holds_checkpoint(const char *path, unsigned epoch)
{
    static float got[FLOATS];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool right = fd >= 0 && read(fd, got, sizeof(got)) == (ssize_t)sizeof(got);
    for (size_t i = 0; i < FLOATS && right; i++)
        right = got[i] == value(work.rank->rank, epoch, i);
    if (fd >= 0)
        close(fd);
    unlink(path);
    return right;
}

/** The rank goes on exchanging while its child writes; it leaves alone what the child writes. */
static int run_checkpoints(struct procs_rank *rank, void *arg)
{
    char path[64];
    (void)arg;
    enum wring_status status = begin(rank);
    for (unsigned epoch = 0; epoch < 3 && status == WRING_OK; epoch++) {
        snprintf(path, sizeof(path), "/tmp/wring-forked-XXXXXX");
        int fd = mkstemp(path);
        fill(work.kept, FLOATS, epoch);
        status = post_both();
        pid_t child = fork_child();
        if (child == 0)
            write_checkpoint(fd);
        close(fd);
        if (status == WRING_OK)
            status = end_both();
        if (status == WRING_OK)
            status = take_steps(30);
        bool well = child_ended_well(child);
        if (!well || !holds_checkpoint(path, epoch)) {
            procs_say(rank, "checkpoint %u: %s", epoch, well ? "wrong" : "not written");
            return 4;
        }
        for (size_t i = 0; i < FLOATS; i++)
            if (work.kept[i] != value(rank->rank, epoch, i))
                return 5; /* the child's writing shows */
    }
    procs_say(rank, "end %s", wring_status_text(status));
    wring_session_close(work.session);
    return status == WRING_OK ? 0 : 3;
}

static void checkpoints_are_written_by_children(void)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        start(RANKS, variants[i], run_checkpoints);
        CHECK(procs_run(&job, 2 * DEADLINE_S), "hangs: %s", variants[i][0]);
        check_all_well(variants[i][0]);
    }
}

/* ---- a child's own session ---- */

/** The children of all ranks make a job of their own, while their parents go on with theirs. */
static int be_child_rank(struct procs_rank *rank, const char *root)
{
    struct wring_session_params params = rank->params;
    struct wring_session *parents = work.session;
    params.root = root;
    params.root_fd = 0;
    work = (struct work){.rank = rank};
    rank->params = params;
    add_setting(rank, PROGRESS_OF_CHILD);
    add_setting(rank, EXECUTOR_OF_CHILD);
    enum wring_status status = begin(rank);
    if (status == WRING_OK)
        status = take_steps(5);
    procs_say(rank, "child: %s", wring_status_text(status));
    if (work.session != NULL)
        wring_session_close(work.session);
    wring_session_close(parents);
    return status == WRING_OK ? 0 : 1;
}

static int run_with_own(struct procs_rank *rank, void *arg)
{
    enum wring_status status = begin(rank);
    if (status == WRING_OK)
        status = take_steps(2);
    if (status != WRING_OK)
        return 2;
    pid_t child = fork_child();
    if (child == 0)
        exit(be_child_rank(rank, arg));
    status = take_steps(10);
    bool well = child_ended_well(child);
    if (status == WRING_OK)
        status = take_steps(2);
    procs_say(rank, "end %s", wring_status_text(status));
    wring_session_close(work.session);
    return status == WRING_OK && well ? 0 : 3;
}

static void children_open_sessions_of_their_own(void)
{
    char root[64];
    for (size_t i = 0; i < VARIANTS; i++) {
        unsigned port = find_ports(1);
        REQUIRE(port != 0, "no port");
        snprintf(root, sizeof(root), "127.0.0.1:%u", port);
        start(RANKS, variants[i], run_with_own);
        job.arg = root;
        CHECK(procs_run(&job, 2 * DEADLINE_S), "hangs: %s", variants[i][0]);
        check_all_well(variants[i][0]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"children_are_refused_and_harm_nobody", children_are_refused_and_harm_nobody},
        {"a_child_has_no_descriptor_and_shares_no_memory",
         a_child_has_no_descriptor_and_shares_no_memory},
        {"a_death_is_seen_though_a_child_lives", a_death_is_seen_though_a_child_lives},
        {"ports_are_free_though_children_live", ports_are_free_though_children_live},
        {"checkpoints_are_written_by_children", checkpoints_are_written_by_children},
        {"children_open_sessions_of_their_own", children_open_sessions_of_their_own},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
