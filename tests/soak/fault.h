/* SPDX-License-Identifier: Apache-2.0 */
/** What befalls a job of a random program in one round of the soak. */
#ifndef WRING_TESTS_SOAK_FAULT_H
#define WRING_TESTS_SOAK_FAULT_H

#include "tests/failure/namespaces.h"
#include "tests/lib/procs.h"
#include "tests/random/program.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_STOP,        /* a rank stands still for a while: no error */
    FAULT_SLOW,        /* the link is slow, and what comes is late */
    FAULT_SIGNALS,     /* each rank gets one every millisecond */
    FAULT_FORK,        /* ranks have children */
    FAULT_CLOCK,       /* the calendar's clock jumps by hours */
    FAULT_CROWD,       /* all ranks share one core */
    FAULT_DISK_FULL,   /* there is no room for what a rank writes to files */
    FAULT_STRANGERS,   /* garbage at every port that a rank listens on */
    FAULT_KILL,        /* from here on a rank may end with an error */
    FAULT_FROZEN,      /* a rank stands still for longer than the others wait */
    FAULT_CUT,         /* connections break */
    FAULT_CORRUPT,     /* bytes change on the wire */
    FAULT_LIES,        /* one rank says what is not so, in frames that are sound */
    FAULT_LIMITS,      /* on descriptors, files, locked memory */
    FAULT_ALLOCATIONS, /* one fails: in each round another one */
    FAULT_BLACK_HOLE,  /* two hosts whose cable is pulled */
    FAULT_HALF_OPEN,   /* and a rank that dies meanwhile, of which nobody hears */
    FAULT_KINDS,
};

struct fault {
    enum fault_kind kind;
    uint32_t rank;     /* that it befalls, in kinds that befall one */
    uint32_t after_us; /* the start of the job */
    uint32_t lasts_us;
    uint32_t number;     /* the allocation that fails; which limit, and how low */
    bool threads;        /* ranks are threads of this process */
    char folder[64];     /* disk full: where the disk is; exists */
    struct hosts *hosts; /* black hole, half open */
};

/** What this process counts of all rounds so far. */
extern unsigned fault_strangers;

const char *fault_name(enum fault_kind kind);

/** @return FAULT_KINDS: there is none of that name */
enum fault_kind fault_find(const char *name);

/** May a rank end with an error? */
bool fault_breaks(enum fault_kind kind);

/** May results be wrong that come with WRING_OK, and may a wait be in vain? A rank that knows the
 * key can bring that about. */
bool fault_lies(enum fault_kind kind);

/** Can it befall jobs of that configuration, here? */
bool fault_suits(enum fault_kind kind, const char *config);

/** Draw a round: the program, and what befalls it, all from the seed.
 *  @param folder  an empty one */
void fault_draw(uint64_t seed, const char *config, enum fault_kind kind, const char *folder,
                struct fault *fault, struct program *p);

/** In a rank's process before it opens its session. */
void fault_begin_in_rank(const struct fault *fault, const struct program *p,
                         struct procs_rank *rank);

/** In a rank's process, after its session has been closed. */
void fault_end_in_rank(const struct fault *fault);

/** Beside the ranks, once all are started. */
void fault_meddle(const struct fault *fault, const struct procs_job *job);

/** How that process may end: with 0, unless it was killed, or breaks. */
bool fault_allows_death(const struct fault *fault, uint32_t rank);

#endif
