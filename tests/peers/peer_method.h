/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a peer's allreduce is timed: by the rules of `wring bench allreduce`. Every rank writes its
 * input anew before each call, into the memory that is reduced; a barrier follows; a call takes as
 * long as its slowest rank; the results of the first and the last call are compared with the exact
 * sum. Buffers are malloc'ed, as programs have them and MPI_Alloc_mem gives them.
 */
#ifndef WRING_TESTS_PEER_METHOD_H
#define WRING_TESTS_PEER_METHOD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A peer's library. Functions end the process when they fail. */
struct peer_ops {
    /** Make ready for calls of run with this memory. in == out: in place. @param elems  of f32 */
    void (*prepare)(void *arg, float *in, float *out, uint64_t elems);
    void (*run)(void *arg);
    void (*barrier)(void *arg);
    /** Take the greatest over all ranks of each of [n] values, in place. */
    void (*max)(void *arg, double *values, int n);
};

struct peer {
    const struct peer_ops *ops;
    void *arg; /* for all of them */
    int rank, ranks;
};

/**
 * Measure what the command line says: [-o] [-l] SECONDS BYTES...
 *
 * -o keeps input and output apart; -l puts them into large pages, as wring's buffers are. Each size
 * takes about SECONDS. Rank 0 prints for each a line "BYTES MIN_US MEDIAN_US P99_US WRONG"; WRONG
 * counts elements of the worst rank.
 *
 * @param argv  [argc], what is left of the command line
 * @return an exit status: 2 for a command line that is none of that
 */
int peer_measure(const struct peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
