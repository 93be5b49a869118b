/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ranks that are processes of this one host, forked for one case: where they meet, what they show
 * each other, and what becomes of a case in which one of them waits for ever.
 *
 * A rank fails by a failed check, by a signal, or at the deadline. Then all others are ended too,
 * and the case has failed; what plugins logged is shown. A rank that is inside a call of a plugin
 * at the deadline is said to be: calls that block are found that way, without a measured time.
 */
#ifndef WRING_TESTS_NCCL_WORLD_H
#define WRING_TESTS_NCCL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/test.h"

#define WORLD_MAX 8
#define WORLD_BOARD (64u << 10)

struct world_rank {
    uint32_t rank, size;
};

struct world_job {
    uint32_t size;
    void (*run)(const struct world_rank *me, void *arg); /* in a process of its own */
    void *arg;
    uint32_t doomed; /* bit by rank: others kill it, by world_kill() */
};

/** How long the ranks of a case may take; WORLD_DEADLINE_S until something else is said. */
#define WORLD_DEADLINE_S 40
void world_set_deadline(unsigned seconds);

/** Run the ranks, and check that each ends well. */
void world_run(const struct world_job *job);

/* In a rank: */

/** One more turn in vain of a loop that polls; gives the core away, and after many of them sleeps a
 * little. Ends this process where the deadline is over, or another rank has failed.
 * @param what  it waits for, as "the receive of message 3" */
__attribute__((format(printf, 1, 2))) void world_turn(const char *what, ...);

/** What the calling thread polls has moved: turns are counted anew. */
void world_moved(void);

/** End this rank, after a failed check: the others end as well. */
__attribute__((noreturn)) void world_stop(void);

/** Check, and end this rank where it does not hold. */
#define MUST(condition, ...)                                              \
    do {                                                                  \
        if (!(condition)) {                                               \
            wring_test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
            world_stop();                                                 \
        }                                                                 \
    } while (0)

/** Wait until all ranks are here that have not been killed. */
void world_meet(void);

/** Memory that this rank writes and all may read, [WORLD_BOARD], zero at first; world_meet() is
 * what orders them. */
void *world_board(uint32_t rank);

/** Kill a rank that is doomed, as kill -9 does. */
void world_kill(uint32_t rank);

/** Take a log line, as NCCL's ncclDebugLogger_t does. Threads: safe. */
__attribute__((format(printf, 5, 6))) void world_log(int level, unsigned long flags,
                                                     const char *file, int line, const char *format,
                                                     ...);

/** How many lines this rank's plugins logged that are at least as grave and hold that text. */
unsigned world_logged(int level, const char *part);

/** The lines from then on are counted. */
void world_forget_log(void);

/** The calling thread enters a call of a plugin, whose name is a static string; NULL: it is out. */
void world_enter(const char *call);

#endif
