/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define CALLS 16 /* threads of a rank whose calls are known */
#define LOG_BYTES (32 << 10)
#define GRACE_NS (2 * WRING_NS_PER_S) /* a rank that is in no call sees the deadline itself */
#define LAST_WORDS_US 300000          /* until all have seen it, before any of them goes */
#define EAGER_TURNS 300               /* before a rank sleeps: cores are few */
#define PATIENT_TURNS 2000            /* before it sleeps for longer */

enum {
    GAVE_UP = 3, /* exit code of a rank that ends because another one failed */
};

struct seat { /* of one rank, seen by all */
    pid_t pid;
    _Atomic(const char *) calls[CALLS];
    atomic_uint threads;
    pthread_mutex_t log_mutex; /* of the rank's own threads */
    size_t log_bytes, log_counted_from;
    char log[LOG_BYTES];
    _Alignas(64) unsigned char board[WORLD_BOARD];
};

struct world {
    atomic_uint failed, arrived, generation, killed;
    uint32_t size, doomed;
    uint64_t deadline_ns;
    struct seat seats[WORLD_MAX];
};

static unsigned deadline_s = WORLD_DEADLINE_S;
static struct world *world;
static struct seat *own;
static _Thread_local unsigned own_call; /* 1 more than its index */
static _Thread_local unsigned turns;    /* in vain */

void world_set_deadline(unsigned seconds)
{
    deadline_s = seconds;
}

static uint32_t count_bits(uint32_t bits)
{
    uint32_t n = 0;
    for (; bits != 0; bits &= bits - 1)
        n++;
    return n;
}

void world_enter(const char *call)
{
    if (own == NULL)
        return;
    if (own_call == 0)
        own_call = 1 + atomic_fetch_add(&own->threads, 1) % CALLS;
    atomic_store(&own->calls[own_call - 1], call);
}

__attribute__((noreturn)) static void give_up(void)
{
    fflush(NULL);
    _exit(GAVE_UP);
}

void world_stop(void)
{
    atomic_store(&world->failed, 1);
    give_up();
}

void world_moved(void)
{
    turns = 0;
}

void world_turn(const char *what, ...)
{
    char text[160];
    va_list args;

    if (wring_now_ns() > world->deadline_ns) { /* all that wait say for what */
        va_start(args, what);
        vsnprintf(text, sizeof(text), what, args);
        va_end(args);
        wring_test_fail(__FILE__, __LINE__, "before the deadline", "rank %d waits for %s",
                        (int)(own - world->seats), text);
        usleep(LAST_WORDS_US);
        world_stop();
    }
    if (atomic_load(&world->failed) != 0)
        give_up();
    if (++turns <= EAGER_TURNS)
        sched_yield();
    else
        usleep(turns <= PATIENT_TURNS ? 100 : 2000);
}

void world_meet(void)
{
    unsigned generation = atomic_load(&world->generation);
    uint32_t here = atomic_fetch_add(&world->arrived, 1) + 1;

    /* looked at after that, as who kills one comes here later: the last one sees all that were */
    if (here == world->size - count_bits(atomic_load(&world->killed))) {
        atomic_store(&world->arrived, 0);
        atomic_fetch_add(&world->generation, 1);
        return;
    }
    while (atomic_load(&world->generation) == generation)
        world_turn("the other ranks to meet it");
}

void *world_board(uint32_t rank)
{
    return world->seats[rank].board;
}

void world_kill(uint32_t rank)
{
    if ((world->doomed >> rank & 1) == 0)
        abort();
    atomic_fetch_or(&world->killed, 1u << rank);
    kill(world->seats[rank].pid, SIGKILL);
}

void world_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    char text[800];
    va_list args;

    (void)flags;
    (void)file;
    (void)line;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\n')
            *at = '|'; /* a line is a line, and who breaks it is seen */
    if (own == NULL)
        return;
    pthread_mutex_lock(&own->log_mutex);
    int n = snprintf(own->log + own->log_bytes, LOG_BYTES - own->log_bytes, "%d %s\n", level, text);
    if (n > 0 && own->log_bytes + (size_t)n < LOG_BYTES)
        own->log_bytes += (size_t)n;
    own->log[own->log_bytes] = '\0';
    pthread_mutex_unlock(&own->log_mutex);
}

unsigned world_logged(int level, const char *part)
{
    unsigned n = 0;

    pthread_mutex_lock(&own->log_mutex);
    for (char *line = own->log + own->log_counted_from; *line != '\0';) {
        char *end = strchr(line, '\n');
        *end = '\0';
        n += atoi(line) <= level && strstr(line, part) != NULL;
        *end = '\n';
        line = end + 1;
    }
    pthread_mutex_unlock(&own->log_mutex);
    return n;
}

void world_forget_log(void)
{
    pthread_mutex_lock(&own->log_mutex);
    own->log_counted_from = own->log_bytes;
    pthread_mutex_unlock(&own->log_mutex);
}

__attribute__((noreturn)) static void be_rank(const struct world_job *job, uint32_t rank)
{
    struct world_rank me = {rank, job->size};
    unsigned before = wring_test_failures();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own = &world->seats[rank];
    own->pid = getpid();
    own_call = 0;
    job->run(&me, job->arg);
    bool failed = wring_test_failures() != before;
    if (failed)
        atomic_store(&world->failed, 1);
    exit(failed ? 1 : 0); /* not _exit(): what is left behind is seen by sanitizers */
}

/** Of a rank that is still there: where it is. */
static void show_calls(uint32_t rank)
{
    for (unsigned i = 0; i < CALLS; i++) {
        const char *call = atomic_load(&world->seats[rank].calls[i]);
        if (call != NULL)
            wring_test_fail(__FILE__, __LINE__, "calls return", "rank %u is inside %s", rank, call);
    }
}

static void show_logs(void)
{
    for (uint32_t rank = 0; rank < world->size; rank++)
        if (world->seats[rank].log_bytes > 0)
            fprintf(stderr, "--- rank %u's plugins logged:\n%s", rank, world->seats[rank].log);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void check_end(uint32_t rank, int status)
{
    bool doomed = (world->doomed >> rank & 1) != 0;

    if (WIFSIGNALED(status) && doomed && WTERMSIG(status) == SIGKILL)
        return;
    if (WIFSIGNALED(status))
        wring_test_fail(__FILE__, __LINE__, "ends well", "rank %u ended by signal %d", rank,
                        WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != GAVE_UP)
        wring_test_fail(__FILE__, __LINE__, "ends well", "rank %u ended with %d", rank,
                        WEXITSTATUS(status));
}

/** Until all have ended, or one has failed, or the deadline is over. */
static void await_ranks(const pid_t *pids, uint32_t n)
{
    uint64_t until_ns = world->deadline_ns + GRACE_NS;

    for (;;) {
        uint32_t ended = 0;
        for (uint32_t i = 0; i < n; i++) {
            siginfo_t info = {.si_pid = 0};
            if (!has_ended(pids[i]))
                continue;
            ended++;
            waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT);
            if ((world->doomed >> i & 1) == 0 &&
                (info.si_code != CLD_EXITED || info.si_status != 0))
                atomic_store(&world->failed, 1);
        }
        if (ended == n)
            return;
        uint64_t now_ns = wring_now_ns();
        if (atomic_load(&world->failed) != 0 && until_ns > now_ns + GRACE_NS)
            until_ns = now_ns + GRACE_NS;
        if (now_ns > until_ns)
            return;
        usleep(2000);
    }
}

void world_run(const struct world_job *job)
{
    pid_t pids[WORLD_MAX];
    int statuses[WORLD_MAX];

    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED || job->size > WORLD_MAX)
        abort();
    world->size = job->size;
    world->doomed = job->doomed;
    world->deadline_ns = wring_now_ns() + deadline_s * WRING_NS_PER_S;
    for (uint32_t i = 0; i < job->size; i++)
        pthread_mutex_init(&world->seats[i].log_mutex, NULL);
    fflush(NULL);
    for (uint32_t i = 0; i < job->size; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            abort();
        if (pids[i] == 0)
            be_rank(job, i);
    }
    await_ranks(pids, job->size);
    for (uint32_t i = 0; i < job->size; i++) {
        if (!has_ended(pids[i])) {
            atomic_store(&world->failed, 1);
            show_calls(i);
            kill(pids[i], SIGKILL);
        }
        waitpid(pids[i], &statuses[i], 0);
    }
    for (uint32_t i = 0; i < job->size; i++)
        check_end(i, statuses[i]);
    if (atomic_load(&world->failed) != 0)
        show_logs();
    CHECK(atomic_load(&world->failed) == 0, "a rank has failed"); /* it has said how */
    munmap(world, sizeof(*world));
    world = NULL;
}
