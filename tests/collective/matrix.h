/* SPDX-License-Identifier: Apache-2.0 */
/** One job over every dimension that must not change a bit, and what it should give. */
#ifndef WRING_TESTS_MATRIX_H
#define WRING_TESTS_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include <wring/wring.h>

enum wring_matrix_what {
    WRING_MATRIX_BUCKET,    /* allreduce of a registered bucket */
    WRING_MATRIX_ALLREDUCE, /* the rest are immediate calls */
    WRING_MATRIX_REDUCE_SCATTER,
    WRING_MATRIX_ALLGATHER,
    WRING_MATRIX_ALLTOALL,
    WRING_MATRIX_BROADCAST,
    WRING_MATRIX_WHATS,
};

/** Where the data lies. */
enum wring_matrix_memory {
    WRING_MATRIX_ALLOCATED, /* from wring_buffer_alloc */
    WRING_MATRIX_FOREIGN,
    WRING_MATRIX_REGISTERED, /* foreign, and made known */
    WRING_MATRIX_MEMORIES,
};

struct wring_matrix_case {
    enum wring_matrix_what what;
    uint32_t ranks, ranks_per_node; /* of the latter 0: all on this host */
    uint64_t elems; /* of a bucket, allreduce or broadcast; else of each member's run */
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec; /* spec */
    uint64_t rows;     /* of a bucket that is a matrix; 0: it is none */
    enum wring_scheme scheme;
    unsigned steps;
    const char *provider; /* "+fault" at its end wraps it */
    const char *chunk;    /* WRING_CHUNK_BYTES */
    const char *cpu;      /* WRING_CPU */
    const char *executor; /* WRING_EXECUTOR */
    const char *progress; /* WRING_PROGRESS */
    const char *slots;    /* WRING_POOL_SLOTS; NULL: as many as are usual */
    enum wring_matrix_memory memory;
    bool strict;      /* devices take a put only from regions of their own */
    bool in_place;    /* where the collective allows it */
    bool flush;       /* the application has set flush-to-zero */
    uint32_t special; /* float32, or with a codec: how many elements of rank 1's input are NaN or
                         infinite; other types: if not 0, any bits */
};

/** Run it on ranks that are threads, and check all results. @return false when a check failed */
bool wring_matrix_run(const struct wring_matrix_case *c);

/**
 * This rank's part: all steps on `in` and `out`; checks each call.
 * @param in, out  [in_elems], [out_elems]; equal, or out within in or in within out, as the
 *                 collective has it when in place
 */
enum wring_status wring_matrix_steps(struct wring_session *session,
                                     const struct wring_matrix_case *c, void *in, void *out);

/** Elements that a member contributes, and that it ends with. */
uint64_t wring_matrix_in_elems(const struct wring_matrix_case *c);
uint64_t wring_matrix_out_elems(const struct wring_matrix_case *c);

/** The input of one rank in one step, [in_elems]. */
void wring_matrix_input(const struct wring_matrix_case *c, uint32_t rank, unsigned step,
                        void *data);

/** What it multiplies that by, if that is the operation: of magnitude 1 at most. */
double wring_matrix_factor(uint32_t rank, unsigned step);

/** Who broadcasts in a step. */
uint32_t wring_matrix_root(const struct wring_matrix_case *c, unsigned step);

/** Do all ranks end with the same? */
bool wring_matrix_same(const struct wring_matrix_case *c);

/**
 * Check what a rank ended with after the last step, [out_elems]: each bit against the definition
 * of the scheme, and the distance from a double precision sum against the type's and codec's bound.
 */
void wring_matrix_check(const struct wring_matrix_case *c, uint32_t rank, const void *out);

/** For messages. */
const char *wring_matrix_text(const struct wring_matrix_case *c, char *text, int bytes);

#endif
