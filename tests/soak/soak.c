/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs under random faults, round after round. tests/soak/README.md says more.
 *
 *     soak [--rounds N | --minutes M] [--seed S] [--provider LIST] [--fault NAME]
 *          [--deadline SECONDS] [--verbose]
 *     soak --sessions N [--provider NAME]
 *     soak --strangers N [--minutes M] [--provider NAME]
 */
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/random/generate.h"
#include "tests/random/program_job.h"
#include "tests/random/program_run.h"
#include "tests/random/reference.h"
#include "tests/soak/fault.h"
#include "tests/soak/sessions.h"
#include "tests/soak/siege.h"

#define ROUND_DEADLINE_S 150    /* longer than any wait in a rank, where it gets a processor */
#define WARM_ROUNDS 20          /* as threads, after which this process has all that it keeps */
#define GROWTH_MOST (256 << 10) /* of what malloc() has given out; programs differ in size */
#define SEED 1234               /* of sessions, as the reference has it */
#define LEAK 3                  /* a rank's exit code */
#define KEPT 1 /* descriptors that libibverbs keeps, once a process has loaded it */

struct options {
    const char *self, *providers;
    uint64_t seed, rounds, minutes, sessions, strangers;
    unsigned deadline_s;  /* of a round */
    enum fault_kind kind; /* FAULT_KINDS: all in turn */
    bool verbose;
};

/** What went wrong, by kind, and what was done. */
struct counts {
    uint64_t rounds, of[FAULT_KINDS], compared;
    uint64_t hangs, wrong, ends, leaks;
    uint64_t threaded;
    size_t rss_before, rss_after;   /* of this process, between rounds as threads */
    size_t heap_before, heap_after; /* what of it malloc() has given out */
};

__attribute__((noreturn)) static void usage(const char *self)
{
    fprintf(stderr,
            "usage: %s [--rounds N | --minutes M] [--seed S] [--provider tcp,shm,nodes,verbs]\n"
            "          [--fault NAME] [--deadline SECONDS] [--verbose]\n"
            "       %s --sessions N | --strangers N [--minutes M] [--provider NAME]\nfaults:",
            self, self);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        fprintf(stderr, " %s", fault_name((enum fault_kind)i));
    fprintf(stderr, "\n");
    exit(2);
}

static uint64_t parse_number(const char *self, const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (*end != '\0' || end == text)
        usage(self);
    return n;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.self = argv[0],
                        .providers = NULL,
                        .seed = 1,
                        .deadline_s = ROUND_DEADLINE_S,
                        .kind = FAULT_KINDS};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--verbose") == 0) {
            o.verbose = true;
            continue;
        }
        if (value == NULL)
            usage(o.self);
        i++;
        if (strcmp(argv[i - 1], "--provider") == 0)
            o.providers = value;
        else if (strcmp(argv[i - 1], "--fault") == 0 && fault_find(value) != FAULT_KINDS)
            o.kind = fault_find(value);
        else if (strcmp(argv[i - 1], "--seed") == 0)
            o.seed = parse_number(o.self, value);
        else if (strcmp(argv[i - 1], "--rounds") == 0)
            o.rounds = parse_number(o.self, value);
        else if (strcmp(argv[i - 1], "--minutes") == 0)
            o.minutes = parse_number(o.self, value);
        else if (strcmp(argv[i - 1], "--deadline") == 0)
            o.deadline_s = (unsigned)parse_number(o.self, value);
        else if (strcmp(argv[i - 1], "--sessions") == 0)
            o.sessions = parse_number(o.self, value);
        else if (strcmp(argv[i - 1], "--strangers") == 0)
            o.strangers = parse_number(o.self, value);
        else
            usage(o.self);
    }
    if (o.rounds == 0 && o.minutes == 0)
        o.rounds = 100;
    if (o.providers == NULL)
        o.providers = o.sessions > 0 || o.strangers > 0 ? "tcp" : "tcp,shm,nodes";
    return o;
}

/** The configuration of a round: one after the other of those that were asked for. */
static const char *choose_config(const struct options *o, uint64_t seed)
{
    static char list[128];
    const char *names[8];
    size_t n = 0;

    snprintf(list, sizeof(list), "%s", o->providers);
    for (char *at = strtok(list, ","); at != NULL && n < 8; at = strtok(NULL, ","))
        names[n++] = at;
    for (size_t i = 0; n > 0 && i < 8 && generate_configs[i] != NULL; i++)
        if (strcmp(generate_configs[i], names[seed % n]) == 0)
            return generate_configs[i];
    usage(o->self);
}

static enum fault_kind choose_kind(const struct options *o, uint64_t seed, const char *config)
{
    uint64_t z = (seed + 1) * 0x9E3779B97F4A7C15u;
    unsigned kind = (unsigned)((z ^ z >> 29) * 0xBF58476D1CE4E5B9u >> 40) % FAULT_KINDS;

    if (o->kind != FAULT_KINDS)
        return o->kind;
    while (!fault_suits((enum fault_kind)kind, config))
        kind = (kind + 1) % FAULT_KINDS;
    return (enum fault_kind)kind;
}

/* ---- what leaks ---- */

/** Were there so many before, but for what belongs to no session? */
static bool has_leaked(const struct program *p, unsigned before, unsigned after)
{
    return after > before + (strcmp(p->config, "verbs") == 0 ? KEPT : 0);
}

size_t soak_resident_bytes(void)
{
    char line[128];
    size_t kib = 0, all = 0;

    malloc_trim(0);
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "RssAnon: %zu", &kib) == 1 || sscanf(line, "RssShmem: %zu", &kib) == 1)
            all += kib * 1024;
    if (file != NULL)
        fclose(file);
    return all;
}

/* ---- a round ---- */

struct round {
    const struct fault *fault;
    const struct program *p;
    struct results results;
};

static const struct round *under_way; /* for procs_job.meddle, which has no argument */

static bool is_allowed(const struct fault *fault, enum wring_status status)
{
    return status == WRING_OK || fault_lies(fault->kind) ||
           (fault_breaks(fault->kind) && status != WRING_ERR_TIMEOUT);
}

static int rank_main(struct procs_rank *rank, void *arg)
{
    const struct round *round = arg;
    const char *settings[PROGRAM_SETTINGS + 2];
    char node[32], why[RUN_TEXT] = "open";
    struct wring_session *session = NULL;
    struct run_memory *kept = NULL;
    unsigned before;

    fault_begin_in_rank(round->fault, round->p, rank);
    run_settings(round->p, rank->rank, node, settings);
    rank->params.settings = settings;
    rank->params.seed = SEED;
    before = wring_test_descriptors();
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = run_program(session, &round->results, why, &kept);
    if (status != WRING_OK)
        procs_say(rank, "%s: %s", wring_status_text(status), why);
    wring_session_close(session);
    run_free(kept);
    fault_end_in_rank(round->fault);
    unsigned after = wring_test_descriptors();
    if (!is_allowed(round->fault, status))
        return 1;
    bool leaked = has_leaked(round->p, before, after);
    if (leaked)
        procs_say(rank, "%u descriptors before the session, %u after it", before, after);
    return leaked ? LEAK : 0;
}

static void meddle(const struct procs_job *job)
{
    fault_meddle(under_way->fault, job);
}

static void run_processes(struct round *round, struct counts *counts, const struct options *o)
{
    struct procs_job *job = calloc(1, sizeof(*job));

    job->ranks = round->p->ranks;
    job->arg = round;
    job->run = rank_main;
    job->meddle = meddle;
    under_way = round;
    bool in_time = procs_run(job, o->deadline_s);
    counts->hangs += !in_time;
    CHECK(in_time, "a rank is not through in time");
    for (uint32_t i = 0; i < round->p->ranks && in_time; i++) {
        bool died = job->codes[i] == -SIGKILL && fault_allows_death(round->fault, i);
        bool killed = round->fault->rank == i && died;
        counts->leaks += job->codes[i] == LEAK;
        counts->ends += job->codes[i] != 0 && job->codes[i] != LEAK && !died;
        CHECK(job->codes[i] == 0 || died, "rank %u ended with %d, and said:\n%s", i, job->codes[i],
              job->texts[i]);
        if (o->verbose)
            printf("rank %u %s %d, and said:\n%s", i, killed ? "was killed:" : "ended with",
                   job->codes[i], job->texts[i]);
    }
    free(job);
}

static void run_threads(struct round *round, struct counts *counts, bool verbose)
{
    unsigned descriptors = wring_test_descriptors(), failures = wring_test_failures();

    job_run(round->p, &round->results, verbose);
    counts->ends += wring_test_failures() > failures;
    unsigned after = wring_test_descriptors();
    bool leaked = has_leaked(round->p, descriptors, after);
    counts->leaks += leaked;
    CHECK(!leaked, "%u descriptors before, %u after", descriptors, after);
    if (++counts->threaded < WARM_ROUNDS)
        return;
    counts->rss_after = soak_resident_bytes();
    counts->heap_after = mallinfo2().uordblks;
    if (counts->threaded > WARM_ROUNDS)
        return;
    counts->rss_before = counts->rss_after;
    counts->heap_before = counts->heap_after;
}

static const struct options *running; /* for the alarm */
static uint64_t running_seed;

static void say_hang(int number)
{
    (void)number;
    fprintf(stderr,
            "\nsoak: this round hangs; repeat with: %s --provider %s --seed %" PRIu64
            " --rounds 1 --verbose\n",
            running->self, running->providers, running_seed);
    abort(); /* so that a debugger or a core shows where */
}

static void tell(const struct options *o, uint64_t seed, const struct round *round)
{
    fprintf(stderr,
            "\nround of seed %" PRIu64 " fails: %s befalls rank %u after %u us (%u)\nrepeat with: "
            "%s --provider %s --seed %" PRIu64 " --rounds 1%s%s --verbose\n",
            seed, fault_name(round->fault->kind), round->fault->rank, round->fault->after_us,
            round->fault->number, o->self, round->p->config, seed,
            o->kind != FAULT_KINDS ? " --fault " : "",
            o->kind != FAULT_KINDS ? fault_name(o->kind) : "");
    program_print(round->p, stderr);
}

static bool make_hosts(struct fault *fault, struct hosts *hosts)
{
    char reason[200];

    if (fault->kind != FAULT_BLACK_HOLE && fault->kind != FAULT_HALF_OPEN)
        return true;
    fault->hosts = hosts;
    if (hosts_make(hosts, 4, reason, sizeof(reason)))
        return true;
    fprintf(stderr, "soak: no %s: %s\n", fault_name(fault->kind), reason);
    return false;
}

static void run_round(const struct options *o, uint64_t seed, const char *folder,
                      struct counts *counts)
{
    const char *config = choose_config(o, seed);
    struct program *p = malloc(sizeof(*p));
    struct hosts hosts;
    struct fault fault;
    struct round round = {.fault = &fault, .p = p};
    unsigned failures = wring_test_failures();

    fault_draw(seed, config, choose_kind(o, seed, config), folder, &fault, p);
    if (!results_open(&round.results, p) || !make_hosts(&fault, &hosts)) {
        free(p);
        return;
    }
    if (o->verbose)
        program_print(p, stdout);
    running_seed = seed;
    alarm(2 * o->deadline_s);
    if (fault.threads)
        run_threads(&round, counts, o->verbose);
    else
        run_processes(&round, counts, o);
    alarm(0);
    unsigned before = wring_test_failures();
    if (!fault_lies(fault.kind))
        counts->compared += reference_check(p, &round.results);
    counts->wrong += wring_test_failures() > before;
    counts->rounds++;
    counts->of[fault.kind]++;
    if (wring_test_failures() > failures)
        tell(o, seed, &round);
    if (fault.hosts != NULL)
        hosts_unmake(&hosts);
    results_close(&round.results);
    free(p);
}

static void say_counts(const struct options *o, const struct counts *counts, double seconds)
{
    printf("soak: seed %" PRIu64 ", %s: %" PRIu64 " rounds (%" PRIu64 " as threads), %" PRIu64
           " results compared, %.0f s\n",
           o->seed, o->providers, counts->rounds, counts->threaded, counts->compared, seconds);
    printf("soak: %" PRIu64 " hangs, %" PRIu64 " wrong sums, %" PRIu64 " other ends, %" PRIu64
           " leaks of descriptors\nsoak:",
           counts->hangs, counts->wrong, counts->ends, counts->leaks);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        printf(" %s %" PRIu64, fault_name((enum fault_kind)i), counts->of[i]);
    printf("; %u strangers\n", fault_strangers);
    if (counts->rss_after > 0)
        printf("soak: after %d rounds as threads, and at the end: %zu and %zu KiB allocated, %zu "
               "and %zu KiB resident, without pages of files\n",
               WARM_ROUNDS, counts->heap_before / 1024, counts->heap_after / 1024,
               counts->rss_before / 1024, counts->rss_after / 1024);
}

static int run_rounds(const struct options *o)
{
    char folder[] = "/tmp/wring-soak-XXXXXX";
    struct counts counts = {0};
    uint64_t began = wring_now_ns(), limit = o->minutes * 60 * WRING_NS_PER_S;

    if (mkdtemp(folder) == NULL) {
        perror("soak: /tmp");
        return 1;
    }
    running = o;
    signal(SIGALRM, say_hang);
    for (uint64_t i = 0; o->rounds == 0 || i < o->rounds; i++) {
        if (limit > 0 && wring_now_ns() - began > limit)
            break;
        run_round(o, o->seed + i, folder, &counts);
    }
    rmdir(folder);
    say_counts(o, &counts, (double)(wring_now_ns() - began) / 1e9);
    CHECK(counts.heap_after <= counts.heap_before + GROWTH_MOST, "memory grows");
    return wring_test_failures() > 0;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);

    mallopt(M_ARENA_MAX, 1); /* what threads leave between their pieces would look like a leak */
    if (o.strangers > 0)
        return siege_run(o.providers, o.strangers, o.minutes);
    return o.sessions > 0 ? sessions_run(o.providers, o.sessions) : run_rounds(&o);
}
