/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/fault.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/random/generate.h"
#include "tests/soak/strangers.h"
#include "tests/soak/wrapped.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define CROWDED_RANKS 5 /* or more, on one core */
#define ROOT_PORT 7777  /* in namespaces of our own, where nobody else is */
#define FORKS 12

unsigned fault_strangers;

static const struct {
    const char *name;
    bool breaks;
    const char *configs; /* it suits; NULL: all */
} kinds[FAULT_KINDS] = {
    [FAULT_NONE] = {"none", false, NULL},
    [FAULT_STOP] = {"stop", false, NULL},
    [FAULT_SLOW] = {"slow", false, NULL},
    [FAULT_SIGNALS] = {"signals", false, NULL},
    [FAULT_FORK] = {"fork", false, NULL},
    [FAULT_CLOCK] = {"clock", false, NULL},
    [FAULT_CROWD] = {"crowd", false, NULL},
    [FAULT_DISK_FULL] = {"disk-full", false, NULL},
    [FAULT_STRANGERS] = {"strangers", false, NULL},
    [FAULT_KILL] = {"kill", true, NULL},
    [FAULT_FROZEN] = {"frozen", true, NULL},
    [FAULT_CUT] = {"cut", true, NULL},
    [FAULT_CORRUPT] = {"corrupt", true, "tcp"}, /* shared memory has no frames to check */
    [FAULT_LIES] = {"lies", true, NULL},
    [FAULT_LIMITS] = {"limits", true, NULL},
    [FAULT_ALLOCATIONS] = {"allocations", true, NULL},
    [FAULT_BLACK_HOLE] = {"black-hole", true, "tcp nodes"},
    [FAULT_HALF_OPEN] = {"half-open", true, "tcp nodes"},
};

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

enum fault_kind fault_find(const char *name)
{
    unsigned kind = 0;
    while (kind < FAULT_KINDS && strcmp(kinds[kind].name, name) != 0)
        kind++;
    return (enum fault_kind)kind;
}

bool fault_breaks(enum fault_kind kind)
{
    return kinds[kind].breaks;
}

bool fault_lies(enum fault_kind kind)
{
    return kind == FAULT_LIES;
}

static bool needs_hosts(enum fault_kind kind)
{
    return kind == FAULT_BLACK_HOLE || kind == FAULT_HALF_OPEN;
}

bool fault_suits(enum fault_kind kind, const char *config)
{
    const char *configs = kinds[kind].configs;
    return (configs == NULL || strstr(configs, config) != NULL) &&
           (!needs_hosts(kind) || geteuid() == 0);
}

/* ---- what is drawn ---- */

static uint32_t below(uint64_t *state, uint32_t n)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/** Instead of the program's own, if it has one. */
__attribute__((format(printf, 3, 4))) static void set(struct program *p, const char *name,
                                                      const char *format, ...)
{
    size_t length = strlen(name);
    uint32_t at = 0;
    va_list args;

    while (at < p->n_settings && strncmp(p->settings[at], name, length) != 0)
        at++;
    if (at == p->n_settings)
        p->n_settings++;
    snprintf(p->settings[at], sizeof(p->settings[at]), "%s=", name);
    va_start(args, format);
    vsnprintf(p->settings[at] + length + 1, sizeof(p->settings[at]) - length - 1, format, args);
    va_end(args);
}

static void draw_settings(const struct fault *fault, uint64_t *state, struct program *p)
{
    static const char *const slow[] = {"rate=200mbit", "delay=3ms,jitter=5ms",
                                       "rate=100mbit,delay=1ms", "jitter=20ms"};
    static const char *const cuts[] = {"disconnect=3e-3", "disconnect=after:5",
                                       "disconnect=after:40", "disconnect=3e-2,rank=0",
                                       "disconnect=after:64kb"};
    static const char *const spoils[] = {"corrupt=1e-2", "corrupt=1e-3", "corrupt=0.2,rank=1"};
    static const char *const lies[] = {"corrupt=0.02", "corrupt=0.1", "corrupt=0.5"};
    uint32_t seed = below(state, 1000);

    set(p, "WRING_JOIN_TIMEOUT", "%s", fault_breaks(fault->kind) ? "10s" : "60s");
    if (fault_breaks(fault->kind)) /* no other fault beside ours */
        set(p, "WRING_FAULT", "%s", "");
    if (fault->kind == FAULT_SLOW)
        set(p, "WRING_FAULT", "%s,seed=%u", slow[below(state, COUNT(slow))], seed);
    if (fault->kind == FAULT_CUT)
        set(p, "WRING_FAULT", "%s,seed=%u", cuts[below(state, COUNT(cuts))], seed);
    if (fault->kind == FAULT_CORRUPT) {
        set(p, "WRING_FAULT", "%s,seed=%u", spoils[below(state, COUNT(spoils))], seed);
        set(p, "WRING_TCP_CHECKSUM", "on");
    }
    if (fault->kind == FAULT_LIES) { /* unchecked, a changed byte is the sender's own word */
        set(p, "WRING_FAULT", "%s,rank=%u,seed=%u", lies[below(state, COUNT(lies))], fault->rank,
            seed);
        set(p, "WRING_TCP_CHECKSUM", "off");
        set(p, "WRING_TIMEOUT", "5s");
        p->wait_s = 8;
    }
    if (fault->kind == FAULT_FROZEN || needs_hosts(fault->kind)) {
        set(p, "WRING_HEARTBEAT", "100ms");
        set(p, "WRING_PEER_TIMEOUT", "%s", fault->kind == FAULT_FROZEN ? "500ms" : "2s");
    }
    if (fault->kind == FAULT_DISK_FULL) {
        set(p, "WRING_TRACE", "%s/trace", fault->folder);
        set(p, "WRING_RECORD", "%s/record", fault->folder);
    }
}

/** Who runs as threads gives leaks a process in which they show. */
static bool may_be_threads(enum fault_kind kind)
{
    return kind == FAULT_NONE || kind == FAULT_SLOW || kind == FAULT_CUT || kind == FAULT_CORRUPT;
}

static void draw_program(uint64_t seed, const char *config, const struct fault *fault,
                         struct program *p)
{
    uint32_t least = fault->kind == FAULT_CROWD ? CROWDED_RANKS : 2;
    for (uint64_t at = seed * 64; at < seed * 64 + 64; at++) {
        generate_program(p, at, config, fault_breaks(fault->kind));
        if (p->ranks >= least)
            break;
    }
    p->killed = -1;
}

void fault_draw(uint64_t seed, const char *config, enum fault_kind kind, const char *folder,
                struct fault *fault, struct program *p)
{
    uint64_t state = seed * 0xD1342543DE82EF95u;

    *fault = (struct fault){.kind = kind};
    snprintf(fault->folder, sizeof(fault->folder), "%s", folder);
    draw_program(seed, config, fault, p);
    fault->rank = below(&state, p->ranks);
    fault->after_us = 1000 * (1u << below(&state, 10)) + below(&state, 1000);
    fault->lasts_us = 1000 * (10 + below(&state, 600));
    fault->number = 1 + below(&state, 1u << (4 + below(&state, 10)));
    fault->threads = may_be_threads(kind) && below(&state, 2) == 0;
    p->processes = !fault->threads;
    draw_settings(fault, &state, p);
}

/* ---- in a rank ---- */

static void ignore_signal(int number)
{
    (void)number;
}

/** Calls are interrupted, and begun again by nobody but the one who made them. */
static void begin_signals(void)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    struct itimerval every = {{0, 1000}, {0, 1000}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static pthread_t forker;
static atomic_bool forker_stops;

/** One child after the other: they end at once or later, or become another program. None calls
 * exit(), which waits for a lock that another thread may have held in the moment of the fork. */
static void *fork_again_and_again(void *arg)
{
    uint32_t seed = *(const uint32_t *)arg | 1;
    pid_t children[FORKS];
    unsigned n = 0;

    while (n < FORKS && !atomic_load(&forker_stops)) {
        uint32_t how = wring_test_random(&seed) % 3;
        usleep(wring_test_random(&seed) % 20000);
        children[n] = fork();
        if (children[n] == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (children[n] == 0 && how == 0)
            _exit(0);
        if (children[n] == 0 && how == 1)
            execl("/bin/true", "true", (char *)NULL);
        if (children[n] == 0) {
            usleep(30000);
            _exit(0);
        }
        n += children[n] > 0;
    }
    for (unsigned i = 0; i < n; i++)
        waitpid(children[i], NULL, 0);
    return NULL;
}

static void pin_to_one_core(void)
{
    cpu_set_t all, one;
    int core = 0;

    sched_getaffinity(0, sizeof(all), &all);
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

/** A disk of one page; where none may be mounted, files of one. */
static void fill_disk(const char *folder)
{
    struct rlimit page = {4096, 4096};

    signal(SIGXFSZ, SIG_IGN);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=4k") != 0)
        setrlimit(RLIMIT_FSIZE, &page);
}

static void set_limit(const struct fault *fault)
{
    static const struct {
        int resource;
        rlim_t least;
    } limits[] = {{RLIMIT_NOFILE, 8}, {RLIMIT_NOFILE, 20}, {RLIMIT_FSIZE, 0}, {RLIMIT_MEMLOCK, 0}};
    size_t which = fault->number % COUNT(limits);
    rlim_t most = limits[which].least + fault->number / COUNT(limits) % 48;
    struct rlimit limit = {most, most};

    setrlimit((__rlimit_resource_t)limits[which].resource, &limit);
}

static void enter_host(const struct fault *fault, const struct program *p, struct procs_rank *rank)
{
    static char root[64];

    if (!hosts_enter(fault->hosts, (int)p->node[rank->rank] % 2)) {
        procs_say(rank, "setns: %s", strerror(errno));
        _exit(99);
    }
    snprintf(root, sizeof(root), "%s:%u", HOST_V4((int)p->node[0] % 2), ROOT_PORT);
    rank->params.root = root;
    rank->params.root_fd = 0;
}

void fault_begin_in_rank(const struct fault *fault, const struct program *p,
                         struct procs_rank *rank)
{
    bool mine = fault->rank == rank->rank;
    static uint32_t seed;

    seed = fault->number + rank->rank;
    if (fault->kind == FAULT_SIGNALS)
        begin_signals();
    if (fault->kind == FAULT_CLOCK)
        wrapped_let_clock_jump(seed);
    if (fault->kind == FAULT_CROWD)
        pin_to_one_core();
    if (fault->kind == FAULT_DISK_FULL)
        fill_disk(fault->folder);
    if (needs_hosts(fault->kind))
        enter_host(fault, p, rank);
    if (fault->kind == FAULT_LIMITS && mine)
        set_limit(fault);
    if (fault->kind == FAULT_FORK)
        pthread_create(&forker, NULL, fork_again_and_again, &seed);
    if (fault->kind == FAULT_ALLOCATIONS && mine)
        wrapped_fail_allocation(fault->number);
}

void fault_end_in_rank(const struct fault *fault)
{
    wrapped_fail_allocation(0);
    if (fault->kind != FAULT_FORK)
        return;
    atomic_store(&forker_stops, true);
    pthread_join(forker, NULL);
}

/* ---- beside ranks ---- */

static void stop(const struct fault *fault, const struct procs_job *job, uint32_t us)
{
    kill(job->pids[fault->rank], SIGSTOP);
    usleep(us);
    kill(job->pids[fault->rank], SIGCONT);
}

/** The ranks are children that nobody has waited for yet: their numbers are nobody else's. */
void fault_meddle(const struct fault *fault, const struct procs_job *job)
{
    usleep(fault->after_us);
    switch (fault->kind) {
    case FAULT_STOP:
        stop(fault, job, fault->lasts_us);
        break;
    case FAULT_FROZEN:
        stop(fault, job, 2000000);
        break;
    case FAULT_KILL:
        kill(job->pids[fault->rank], SIGKILL);
        if (fault->number % 3 == 0) /* two at once */
            kill(job->pids[(fault->rank + 1) % job->ranks], SIGKILL);
        break;
    case FAULT_BLACK_HOLE:
        hosts_plug(fault->hosts, false);
        break;
    case FAULT_HALF_OPEN:
        hosts_plug(fault->hosts, false);
        kill(job->pids[fault->rank], SIGKILL);
        hosts_plug(fault->hosts, true);
        break;
    case FAULT_STRANGERS:
        fault_strangers += strangers_pester(job->pids, job->ranks, 40, fault->number);
        break;
    default:
        break;
    }
}

bool fault_allows_death(const struct fault *fault, uint32_t rank)
{
    bool killed = fault->kind == FAULT_KILL || fault->kind == FAULT_HALF_OPEN;
    bool second = fault->kind == FAULT_KILL && fault->number % 3 == 0;
    return killed && (rank == fault->rank || second);
}
