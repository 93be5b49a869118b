/* SPDX-License-Identifier: Apache-2.0 */
/** A random program: what all ranks of a job do, one operation after the other. */
#ifndef WRING_TESTS_RANDOM_PROGRAM_H
#define WRING_TESTS_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/lib/elements.h"
#include <wring/wring.h>

#define PROGRAM_RANKS 7
#define PROGRAM_GROUPS 6 /* 0 is the world */
#define PROGRAM_BUCKETS 12
#define PROGRAM_OPS 76
#define PROGRAM_CALLS 5 /* of one phase */
#define PROGRAM_MESSAGES 10
#define PROGRAM_SETTINGS 24 /* with those that tests/soak adds */
#define PROGRAM_NONE UINT32_MAX

enum program_op_kind {
    PROGRAM_CREATE,   /* a group; collective over all ranks, as are its end and a commit */
    PROGRAM_DESTROY,  /* by its members */
    PROGRAM_REGISTER, /* a bucket, by the members of its group */
    PROGRAM_DROP,
    PROGRAM_COMMIT,
    PROGRAM_PHASE, /* buckets are posted, calls made, and all of them waited for */
    PROGRAM_SAVE,  /* state */
    PROGRAM_LOAD,
};

enum program_memory {
    PROGRAM_ALLOCATED, /* from wring_buffer_alloc */
    PROGRAM_FOREIGN,
    PROGRAM_REGISTERED,
    PROGRAM_MEMORIES,
};

enum program_call_kind {
    PROGRAM_ALLREDUCE,
    PROGRAM_REDUCE_SCATTER,
    PROGRAM_ALLGATHER,
    PROGRAM_ALLTOALL,
    PROGRAM_BROADCAST,
    PROGRAM_BARRIER,
    PROGRAM_REDUCE,
    PROGRAM_GATHER,
    PROGRAM_SCATTER,
    PROGRAM_REDUCE_SCATTERV, /* from here on runs have lengths of their own */
    PROGRAM_ALLGATHERV,
    PROGRAM_ALLTOALLV,
    PROGRAM_CALL_KINDS,
};

/** Where the results of one item lie in the job's shared memory: that of rank r at `at` + r *
 *  `stride`. */
struct program_result {
    uint32_t item; /* counted over the whole program */
    size_t at, stride;
};

struct program_bucket {
    char name[16];
    uint32_t group;
    uint64_t elems;
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec; /* spec */
    enum wring_scheme scheme;
    enum program_memory memory;
    int32_t priority;
};

struct program_call {
    enum program_call_kind kind;
    uint32_t group, root; /* the latter a seed of lengths where there is no root */
    uint64_t elems;       /* of each member's run, at most; of a broadcast all of it */
    enum wring_dtype dtype;
    enum wring_op op;
    const char *codec;
    enum program_memory memory;
    struct program_result result;
};

/** What receives of one member in one group name, all of them in a phase alike. */
enum program_receives {
    PROGRAM_NAMES_BOTH,   /* source and tag */
    PROGRAM_ANY_SOURCE,   /* the tag alone */
    PROGRAM_ANY_TAG,      /* the source alone */
    PROGRAM_NAMES_NEITHER /* in a group's last messages only: later ones would fit, too */
};

struct program_message {
    uint32_t group, from, to; /* members; may be the same */
    uint64_t tag, bytes;
    enum program_memory send_memory, receive_memory;
    struct program_result result; /* of the receiver */
};

struct program_phase {
    uint32_t n_buckets, buckets[PROGRAM_BUCKETS];
    struct program_result results[PROGRAM_BUCKETS];
    uint32_t n_calls;
    struct program_call calls[PROGRAM_CALLS];
    uint32_t n_messages;
    struct program_message messages[PROGRAM_MESSAGES];
    bool last;              /* no messages follow */
    uint32_t aborted_group; /* PROGRAM_NONE: none is; all ranks meet in the end otherwise */
    uint32_t aborter;       /* the rank that does it, at some time */
    bool cancels;           /* by a call that it gives up, if one of the group's is under way */
    struct program_result aborted; /* whether it was */
    bool blocking;                 /* calls wait, so all ranks make them in the same order */
    enum wring_test_kind values;
    uint32_t seed; /* of the values */
};

struct program_op {
    enum program_op_kind kind;
    uint32_t index; /* of the group or bucket */
    struct program_phase phase;
};

struct program {
    uint64_t seed;
    const char *config;
    uint32_t ranks, node[PROGRAM_RANKS];
    bool processes; /* ranks are processes, else threads */
    char settings[PROGRAM_SETTINGS][96];
    uint32_t n_settings;
    bool bypasses;                   /* codecs may be left out */
    enum wring_scheme scheme;        /* of buckets that leave it open */
    uint32_t groups[PROGRAM_GROUPS]; /* a bit for each member */
    struct program_bucket buckets[PROGRAM_BUCKETS];
    uint32_t n_groups, n_buckets, n_ops, n_items;
    struct program_op ops[PROGRAM_OPS];
    size_t result_bytes;
    bool faults;        /* something breaks: errors are right, wrong results are not */
    int32_t killed;     /* rank that dies; -1: none */
    uint32_t killed_at; /* before this operation */
    uint32_t wait_s;    /* a rank waits so long for anything; 0: as long as is right */
};

static inline bool program_is_member(const struct program *p, uint32_t group, uint32_t rank)
{
    return p->groups[group] >> rank & 1;
}

/** @param ranks out, [PROGRAM_RANKS], ascending @return how many */
uint32_t program_members(const struct program *p, uint32_t group, uint32_t *ranks);

/** Elements of a member's run in a call, or of what one sends another. */
uint64_t program_run_elems(const struct program_call *call, uint32_t member);
uint64_t program_pair_elems(const struct program_call *call, uint32_t from, uint32_t to);

/** Elements that a member contributes to a call, and that it ends with. */
uint64_t program_call_in(const struct program *p, const struct program_call *call, uint32_t member);
uint64_t program_call_out(const struct program *p, const struct program_call *call,
                          uint32_t member);

/** What the receives of a message's receiver name in that group. One that sends to itself names the
 *  source: once all others have left, nothing comes from any source. */
enum program_receives program_receives_of(const struct program_phase *phase,
                                          const struct program_message *message);

/** The factor of a member in a premultiplied sum. */
double program_factor(const struct program_result *result, uint32_t member);

/** Is the operation that of a premultiplied sum, of a call that reduces? */
bool program_premultiplies(const struct program_call *call);

/** Where a member's run begins among those of all, in elements. */
uint64_t program_run_begin(const struct program_call *call, uint32_t member);

static inline bool program_has_root(const struct program_call *call)
{
    return call->kind == PROGRAM_BROADCAST || call->kind == PROGRAM_REDUCE ||
           call->kind == PROGRAM_GATHER || call->kind == PROGRAM_SCATTER;
}

/** The values that a rank contributes to the item of a phase, [elems]. */
void program_fill(const struct program_phase *phase, const struct program_result *result,
                  uint32_t rank, enum wring_dtype dtype, uint64_t elems, void *data);

/** "bucket b3" or "allgather of 100 f32 in group 1" */
void program_name_item(const struct program *p, uint32_t item, char *text, size_t bytes);

void program_print(const struct program *p, FILE *to);

#endif
