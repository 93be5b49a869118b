/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which algorithm runs a collective: asked once for each bucket at commit, and for each immediate
 * call.
 *
 * Two things are told apart. An *operation* is what all members know alike and no link changes. It
 * alone decides the order in which contributions are reduced, and whether sums are encoded again:
 * so it decides the bits. A *reach* is how these members get at each other's memory and how much
 * one hop is worth there. It chooses among algorithms that give the same bits, as providers,
 * calibration and settings of sizes may.
 */
#ifndef WRING_TRANSPORT_ALGORITHM_SELECT_H
#define WRING_TRANSPORT_ALGORITHM_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/collective/op_check.h"
#include <wring/codec.h>
#include <wring/types.h>

struct wring_collective_ops;

/** The order in which contributions become one: compress/FORMAT.md, "Reductions". */
enum wring_reduction_order {
    WRING_ORDER_NONE,    /* nothing is reduced */
    WRING_ORDER_MEMBERS, /* compress/reduce.h, over the members' index */
    WRING_ORDER_NODES,   /* the same within each node, then over the nodes */
    WRING_ORDER_RING,    /* of each block from the left, from the member after its owner on */
};

enum wring_algorithm {
    WRING_ALLREDUCE_EAGER,           /* all of it in one piece to all; each reduces at once */
    WRING_ALLREDUCE_EAGER_BOARD,     /* the same, shown in memory that members map */
    WRING_ALLREDUCE_EAGER_IN_PLACE,  /* boards say that data is ready; a running member reduces
                                        shards of it into everyone's */
    WRING_ALLREDUCE_DOUBLING,        /* members exchange all that they have summed, two by two */
    WRING_ALLREDUCE_HALVING,         /* or halves of it, and then the sums */
    WRING_ALLREDUCE_ONE_SHOT,        /* all of it to all, each reduces; by the executor */
    WRING_ALLREDUCE_TWO_SHOT,        /* shards to their owners, sums back to all, in slots */
    WRING_ALLREDUCE_TWO_SHOT_PLACED, /* sums go straight into everyone's data */
    WRING_ALLREDUCE_TWO_SHOT_DIRECT, /* and owners read contributions where they lie: members send
                                        no more than the word that theirs is ready */
    WRING_ALLREDUCE_HIERARCHICAL,    /* by legs */
    WRING_REDUCE_SCATTER_OWNERS,     /* the first half of two shots: owners keep their sums */
    WRING_REDUCE_SCATTER_DIRECT,     /* the same; they read contributions where they lie */
    WRING_REDUCE_ONE_SHOT,           /* all of it to the root, which reduces */
    WRING_REDUCE_TWO_SHOT,           /* shards to their owners, sums to the root */
    WRING_ALLGATHER_ALLTOALL,        /* pieces as they are: allgather, alltoall, broadcast, gather,
                                    scatter */
    WRING_ALLGATHER_ALLTOALL_PLACED, /* straight into everyone's data */
    WRING_BROADCAST_TREE,            /* members pass on the data of the root */
    WRING_REDUCE_TREE,               /* and to it what they have summed */
    WRING_GATHER_TREE,               /* small pieces travel together, and through other members */
    WRING_SCATTER_TREE,
    WRING_ALLGATHER_BRUCK,
    WRING_ALLTOALL_BRUCK,
    WRING_ALLREDUCE_HALVING_PLACED, /* sums go straight into the partners' data */
    WRING_ALLREDUCE_BRUCK,          /* small codes of all to all, through other members */
    WRING_ALLREDUCE_RING,           /* partial sums, then sums, from each member to the next one */
    WRING_ALLREDUCE_RING_PLACED,    /* sums go straight into the next member's data */
};
#define WRING_ALGORITHMS 26

/** An operation, as all members know it. */
struct wring_operation {
    enum wring_call_kind kind;
    enum wring_dtype dtype;
    enum wring_op op;
    uint64_t elems; /* as the partition counts them */
    uint32_t elem_bytes;
    uint32_t members;
    uint32_t nodes;                      /* that the members are on */
    uint32_t node_members;               /* on each of them; 0: not equally many */
    enum wring_scheme scheme;            /* the bucket's own or WRING_SCHEME; of calls: auto */
    const struct wring_codec_info *code; /* that pieces are encoded by; NULL: raw */
};

/** How the members reach each other. The same on all of them, too, as all have to run the same. */
struct wring_reach {
    uint64_t eager_bytes; /* WRING_FLAT_BYTES */
    uint64_t chunk_bytes;
    uint64_t piece_elems; /* of the largest raw piece */
    uint64_t code_bytes;  /* of the largest code of all elements; 0: raw */
    bool placeable;       /* everyone's data can be put into */
    bool mappable;        /* members map each other's memory: a hop is no message */
    bool boards;          /* and each has a board for this */
    bool copies;          /* a put copies, as a kernel's socket does */
    bool scratch;         /* a step can have memory of its own, as calls can */
};

/** The parts of an algorithm. */
struct wring_algorithm_parts {
    const char *name; /* for stats and logs */
    const struct wring_collective_ops *ops;
    enum wring_reduction_order order;
    bool scatters; /* it has a channel to each member, another piece for each */
    bool gathers;  /* one to all */
};

/** By algorithm. */
extern const struct wring_algorithm_parts wring_algorithms[WRING_ALGORITHMS];

/** In which order the operation's contributions are reduced: by a constant table over scheme and
 *  nodes. */
enum wring_reduction_order wring_algorithm_order(const struct wring_operation *operation);

/** Are sums encoded once more for their way back? Raw ones never are. */
bool wring_algorithm_encodes_sums(const struct wring_operation *operation);

/** The most bytes of a raw allreduce that go in one hop. */
uint64_t wring_algorithm_eager_limit(const struct wring_operation *operation,
                                     const struct wring_reach *reach);

enum wring_algorithm wring_algorithm_select(const struct wring_operation *operation,
                                            const struct wring_reach *reach);

/** "members", "nodes", "ring" or "none"; a static string. */
const char *wring_reduction_order_name(enum wring_reduction_order order);

/** Does a scheme want legs? */
static inline bool wring_scheme_is_hierarchical(enum wring_scheme scheme)
{
    return scheme >= WRING_SCHEME_HIERARCHICAL && scheme <= WRING_SCHEME_HIERARCHICAL_INDIVISIBLE;
}

/** The scheme between nodes, or of all members where there are no legs and no ring. */
static inline enum wring_scheme wring_scheme_across(enum wring_scheme scheme)
{
    if (scheme == WRING_SCHEME_RING)
        return WRING_SCHEME_AUTO;
    if (!wring_scheme_is_hierarchical(scheme))
        return scheme;
    return (enum wring_scheme)(scheme - WRING_SCHEME_HIERARCHICAL);
}

/* Asked in each step. */

static inline bool wring_algorithm_is_in(enum wring_algorithm algorithm, uint32_t set)
{
    return set >> algorithm & 1;
}

/** The sum of each shard, of an alltoall what each contributes, goes straight into everyone's
 *  data. */
static inline bool wring_algorithm_is_placed(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(
        algorithm, 1u << WRING_ALLREDUCE_EAGER_IN_PLACE | 1u << WRING_ALLREDUCE_TWO_SHOT_PLACED |
                       1u << WRING_ALLREDUCE_TWO_SHOT_DIRECT | 1u << WRING_REDUCE_SCATTER_DIRECT |
                       1u << WRING_ALLGATHER_ALLTOALL_PLACED |
                       1u << WRING_ALLREDUCE_HALVING_PLACED | 1u << WRING_ALLREDUCE_RING_PLACED);
}

/** Contributions are read where they lie. */
static inline bool wring_algorithm_is_direct(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(algorithm, 1u << WRING_ALLREDUCE_EAGER_IN_PLACE |
                                                1u << WRING_ALLREDUCE_TWO_SHOT_DIRECT |
                                                1u << WRING_REDUCE_SCATTER_DIRECT);
}

/** Past the engine, for the most part: over boards. */
static inline bool wring_algorithm_has_board(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(algorithm, 1u << WRING_ALLREDUCE_EAGER_BOARD |
                                                1u << WRING_ALLREDUCE_EAGER_IN_PLACE);
}

/** One hop, and reduced where it arrives: a latency is all that it takes. */
static inline bool wring_algorithm_is_eager(enum wring_algorithm algorithm)
{
    return algorithm <= WRING_ALLREDUCE_EAGER_IN_PLACE;
}

/** Partial sums go around a ring. */
static inline bool wring_algorithm_is_ring(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(algorithm,
                                 1u << WRING_ALLREDUCE_RING | 1u << WRING_ALLREDUCE_RING_PLACED);
}

/** Members exchange partial sums two by two or around a ring, or codes after Bruck: with a few
 *  others alone. */
static inline bool wring_algorithm_has_partners(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_ring(algorithm) ||
           wring_algorithm_is_in(
               algorithm, 1u << WRING_ALLREDUCE_DOUBLING | 1u << WRING_ALLREDUCE_HALVING |
                              1u << WRING_ALLREDUCE_HALVING_PLACED | 1u << WRING_ALLREDUCE_BRUCK);
}

/** A member exchanges with a few others alone, be it in a tree or around a circle. */
static inline bool wring_algorithm_has_neighbours(enum wring_algorithm algorithm)
{
    return wring_algorithm_has_partners(algorithm) ||
           wring_algorithm_is_in(algorithm, 1u << WRING_BROADCAST_TREE | 1u << WRING_REDUCE_TREE |
                                                1u << WRING_GATHER_TREE | 1u << WRING_SCATTER_TREE |
                                                1u << WRING_ALLGATHER_BRUCK |
                                                1u << WRING_ALLTOALL_BRUCK);
}

/** Are partial sums of that type float32, as they travel and as they are made? */
static inline bool wring_algorithm_widens(enum wring_dtype dtype, enum wring_op op)
{
    return (dtype == WRING_F16 || dtype == WRING_BF16) && (op <= WRING_AVG || op == WRING_PROD);
}

/** Shards go to owners, who reduce them. */
static inline bool wring_algorithm_has_owners(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(
        algorithm, 1u << WRING_ALLREDUCE_TWO_SHOT | 1u << WRING_ALLREDUCE_TWO_SHOT_PLACED |
                       1u << WRING_ALLREDUCE_TWO_SHOT_DIRECT | 1u << WRING_REDUCE_SCATTER_OWNERS |
                       1u << WRING_REDUCE_SCATTER_DIRECT | 1u << WRING_REDUCE_TWO_SHOT);
}

/** And keep the sums. */
static inline bool wring_algorithm_keeps_sums(enum wring_algorithm algorithm)
{
    return wring_algorithm_is_in(algorithm, 1u << WRING_REDUCE_SCATTER_OWNERS |
                                                1u << WRING_REDUCE_SCATTER_DIRECT);
}

#endif
