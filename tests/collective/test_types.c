/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Calls of every kind, with every type and operation, on every provider and number of ranks: each
 * bit against the definition, so that it is the same on all of them. One session makes many calls.
 *
 * Each kind, type and operation is run with a few of the numbers of ranks, which all of them share
 * out. The argument "all" takes all of them, "provider=verbs" another provider.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/collective/matrix.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS_MAX 9
#define SAMPLE 5 /* of so many calls one is made */

static const char *const both[] = {"shm", "tcp", NULL}, *one[] = {NULL, NULL};
static const char *const *providers = both;
static bool all;

struct job {
    const char *provider, *cpu;
    uint32_t ranks;
};

static bool reduces(enum wring_matrix_what what)
{
    return what == WRING_MATRIX_ALLREDUCE || what == WRING_MATRIX_REDUCE_SCATTER;
}

/** The call of that number; numbers of all kinds, types and operations follow each other. */
static struct wring_matrix_case call_of(const struct job *job, uint32_t number)
{
    static const uint32_t counts[] = {700, 1, 64, 3001, 0, 129};
    const uint32_t pairs = WRING_DTYPES * WRING_OPS;
    struct wring_matrix_case c = {
        .what = (enum wring_matrix_what)(WRING_MATRIX_ALLREDUCE + number / pairs),
        .dtype = (enum wring_dtype)(number % pairs / WRING_OPS),
        .op = (enum wring_op)(number % WRING_OPS),
        .elems = counts[(number + job->ranks) % (sizeof(counts) / sizeof(counts[0]))],
        .codec = "none",
        .provider = job->provider,
        .ranks = job->ranks,
        .chunk = "4k",
        .cpu = job->cpu,
        .executor = "inline",
        .progress = "thread",
        .memory = WRING_MATRIX_FOREIGN,
        .special = number % 4 == 0,
        .steps = 2,
    };
    c.in_place = (number + job->ranks) % 2 == 0 && c.what != WRING_MATRIX_ALLTOALL;
    return c;
}

static bool is_made(const struct wring_matrix_case *c, uint32_t number)
{
    bool there = reduces(c->what) ? wring_op_takes(c->op, c->dtype) : c->op == 0;
    return there && (all || (number + c->ranks) % SAMPLE == 0);
}

/** In memory that is either apart, or one run in the other. */
static void make_call(struct wring_session *session, const struct wring_matrix_case *c,
                      uint32_t rank)
{
    size_t bytes = wring_dtype_bytes(c->dtype), run = c->elems * bytes;
    uint64_t in_elems = wring_matrix_in_elems(c), out_elems = wring_matrix_out_elems(c);
    uint8_t *in = malloc(in_elems * bytes + 1), *out = malloc(out_elems * bytes + 1);
    uint8_t *used_in = in, *used_out = out;

    if (c->what == WRING_MATRIX_BROADCAST || (c->in_place && in_elems == out_elems))
        used_in = out;
    else if (c->in_place && in_elems > out_elems)
        used_out = in + rank * run;
    else if (c->in_place)
        used_in = out + rank * run;
    if (wring_matrix_steps(session, c, used_in, used_out) == WRING_OK)
        wring_matrix_check(c, rank, used_out);
    free(in);
    free(out);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct job *job = arg;
    uint32_t n = (WRING_MATRIX_WHATS - WRING_MATRIX_ALLREDUCE) * (uint32_t)WRING_DTYPES * WRING_OPS;

    for (uint32_t number = 0; number < n && wring_test_failures() == 0; number++) {
        const struct wring_matrix_case c = call_of(job, number);
        if (is_made(&c, number))
            make_call(session, &c, rank);
    }
}

static void every_kind_type_and_operation(void)
{
    for (const char *const *provider = providers; *provider != NULL; provider++)
        for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
            struct job one_job = {*provider, ranks % 2 ? "best" : "scalar", ranks};
            char name[64], cpu[64];
            const char *settings[] = {name, cpu, "WRING_CHUNK_BYTES=4k", NULL};
            struct wring_test_job job = {
                .ranks = ranks, .settings = settings, .arg = &one_job, .run = run_rank};
            snprintf(name, sizeof(name), "WRING_PROVIDER=%s", *provider);
            snprintf(cpu, sizeof(cpu), "WRING_CPU=%s", one_job.cpu);
            wring_test_run_ranks(&job);
        }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_kind_type_and_operation", every_kind_type_and_operation},
        {NULL, NULL},
    };
    for (; argc > 1; argc--, argv++) {
        if (strcmp(argv[1], "all") == 0)
            all = true;
        else if (strncmp(argv[1], "provider=", 9) == 0) {
            one[0] = argv[1] + 9;
            providers = one;
        } else
            break;
    }
    return wring_test_main(argc, argv, cases);
}
