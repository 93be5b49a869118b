/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs, each against a reference. tests/random/README.md says how to repeat one.
 *
 *     random --config NAME --seed N [--verbose]
 *     random --config NAME --seeds A..B [--seconds S] [--faults]
 *     random --config NAME --seed N --list
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/random/generate.h"
#include "tests/random/program_job.h"
#include "tests/random/reference.h"

#define PROGRAM_DEADLINE_S 240 /* nothing in a program waits for longer */

struct options {
    const char *self, *config;
    uint64_t first, last;
    unsigned seconds; /* begin no program after so many; 0: all */
    bool faults, verbose, list;
};

__attribute__((noreturn)) static void usage(const char *self)
{
    fprintf(stderr,
            "usage: %s --config NAME --seed N | --seeds A..B [--programs N] [--seconds S]\n"
            "          [--faults] [--verbose] [--list]\nconfigurations:",
            self);
    for (const char *const *at = generate_configs; *at != NULL; at++)
        fprintf(stderr, " %s", *at);
    fprintf(stderr, "\n");
    exit(2);
}

static const char *find_config(const char *name)
{
    for (const char *const *at = generate_configs; *at != NULL; at++)
        if (strcmp(*at, name) == 0)
            return *at;
    return NULL;
}

static void parse_range(struct options *o, const char *text)
{
    char *end;
    o->first = o->last = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) == 0)
        o->last = strtoull(end + 2, &end, 10);
    if (*end != '\0' || o->last < o->first)
        usage(o->self);
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.self = argv[0], .config = generate_configs[0], .first = 1, .last = 100};
    uint64_t programs = 0;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--faults") == 0) {
            o.faults = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            o.verbose = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            o.list = true;
        } else if (value == NULL) {
            usage(o.self);
        } else if (strcmp(argv[i], "--config") == 0 && find_config(value) != NULL) {
            o.config = find_config(argv[++i]);
        } else if (strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--seeds") == 0) {
            parse_range(&o, argv[++i]);
        } else if (strcmp(argv[i], "--programs") == 0) {
            programs = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o.seconds = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            usage(o.self);
        }
    }
    if (programs > 0)
        o.last = o.first + programs - 1;
    return o;
}

/* ---- a program that hangs ---- */

struct watchdog {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    const struct options *options;
    const struct program *program;
    bool done;
};

static void tell(const struct options *o, const struct program *p, const char *how)
{
    fprintf(stderr, "\n%s\nrepeat with: %s --config %s --seed %" PRIu64 "%s --verbose\n", how,
            o->self, p->config, p->seed, p->faults ? " --faults" : "");
    program_print(p, stderr);
}

static void *watch(void *arg)
{
    struct watchdog *w = arg;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PROGRAM_DEADLINE_S;
    pthread_mutex_lock(&w->mutex);
    while (!w->done)
        if (pthread_cond_timedwait(&w->changed, &w->mutex, &until) != 0 && !w->done) {
            tell(w->options, w->program, "this program hangs");
            abort(); /* so that a debugger or a core shows where */
        }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* ---- programs ---- */

/** @return how many results were compared */
static uint32_t run_one(const struct options *o, uint64_t seed)
{
    struct program *p = malloc(sizeof(*p));
    struct results results;
    uint32_t compared = 0;

    generate_program(p, seed, o->config, o->faults);
    if (o->verbose || o->list)
        program_print(p, stdout);
    if (!o->list && results_open(&results, p)) {
        struct watchdog w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, o, p, false};
        unsigned before = wring_test_failures();
        bool watched = !p->processes; /* forks are not made beside threads, and have a deadline */
        if (watched)
            pthread_create(&w.thread, NULL, watch, &w);
        job_run(p, &results, o->verbose);
        pthread_mutex_lock(&w.mutex);
        w.done = true;
        pthread_cond_signal(&w.changed);
        pthread_mutex_unlock(&w.mutex);
        if (watched)
            pthread_join(w.thread, NULL);
        if (wring_test_failures() == before)
            compared = reference_check(p, &results);
        if (wring_test_failures() > before)
            tell(o, p, "this program fails");
        results_close(&results);
    }
    free(p);
    return compared;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    uint64_t began = wring_now_ns(), programs = 0, results = 0, failed = 0;

    for (uint64_t seed = o.first; seed <= o.last; seed++) {
        unsigned before = wring_test_failures();
        if (o.seconds > 0 && wring_now_ns() - began > o.seconds * WRING_NS_PER_S)
            break;
        results += run_one(&o, seed);
        programs++;
        failed += wring_test_failures() > before;
    }
    printf("%s%s: %" PRIu64 " programs, %" PRIu64 " results compared, %" PRIu64 " failed, %.1f s\n",
           o.config, o.faults ? ", faults" : "", programs, results, failed,
           (double)(wring_now_ns() - began) / 1e9);
    return failed > 0;
}
