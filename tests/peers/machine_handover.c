/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/peers/machine_handover.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/bench/bench.h"

#define TRIPS 5000

/** What both processes see. */
struct turns {
    atomic_int whose; /* 0 or 1 */
    int pipes[2][2];  /* of each: it is written to by the other */
};

struct method {
    const char *name;
    void (*give)(struct turns *turns, int to);
    void (*await)(struct turns *turns, int me);
};

static void yield_give(struct turns *turns, int to)
{
    atomic_store(&turns->whose, to);
}

static void yield_await(struct turns *turns, int me)
{
    while (atomic_load(&turns->whose) != me)
        sched_yield();
}

static void futex_give(struct turns *turns, int to)
{
    atomic_store(&turns->whose, to);
    syscall(SYS_futex, &turns->whose, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_await(struct turns *turns, int me)
{
    while (atomic_load(&turns->whose) != me)
        syscall(SYS_futex, &turns->whose, FUTEX_WAIT, 1 - me, NULL, NULL, 0);
}

static void pipe_give(struct turns *turns, int to)
{
    if (write(turns->pipes[to][1], "", 1) != 1)
        abort();
}

static void pipe_await(struct turns *turns, int me)
{
    char byte;
    if (read(turns->pipes[me][0], &byte, 1) != 1)
        _exit(1); /* the other is gone */
}

static const struct method methods[] = {
    {"yield", yield_give, yield_await},
    {"futex", futex_give, futex_await},
    {"pipe", pipe_give, pipe_await},
};

static void stay_here(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void answer(const struct method *method, struct turns *turns)
{
    for (int i = 0; i < TRIPS; i++) {
        method->await(turns, 1);
        method->give(turns, 0);
    }
    _exit(0);
}

static double measure(const struct method *method, struct turns *turns)
{
    static double us[TRIPS];
    stay_here();
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0)
        answer(method, turns);
    for (int i = 0; i < TRIPS; i++) {
        uint64_t begin = wring_now_ns();
        method->give(turns, 1);
        method->await(turns, 0);
        us[i] = (double)(wring_now_ns() - begin) / 2e3; /* there and back */
    }
    waitpid(child, NULL, 0);
    return wring_spread_of(us, TRIPS).median;
}

double handover_time(const char *how)
{
    const struct method *method = NULL;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].name, how) == 0)
            method = &methods[i];
    struct turns *turns =
        mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (method == NULL || turns == MAP_FAILED || pipe(turns->pipes[0]) != 0 ||
        pipe(turns->pipes[1]) != 0)
        return -1;
    double us = measure(method, turns);
    munmap(turns, sizeof(*turns));
    return us;
}
