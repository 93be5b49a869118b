/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A stream of messages over one connection, as NCCL's proxy drives it: a window of them in flight,
 * out of one registered buffer that is cut into slots; posted when a slot is free, tested, checked.
 * One flow is one end. Both ends know from the seed what is sent: the sizes and bytes of a message
 * are functions of (seed, tag, number), and a receiver holds all of it against that.
 *
 * With several tags each receive is a group of one message of each, and the sender's tags go on
 * independently of each other.
 */
#ifndef WRING_TESTS_NCCL_FLOW_H
#define WRING_TESTS_NCCL_FLOW_H

#include "tests/nccl/rig.h"

#define FLOW_DEPTH_MAX PLUGIN_REQUESTS

enum flow_order { /* in which requests are tested */
    FLOW_OLDEST,
    FLOW_NEWEST,
    FLOW_RANDOM,
};

struct flow_plan {
    uint32_t seed;
    uint32_t tags;   /* 1 to PLUGIN_GROUP_MAX */
    uint32_t count;  /* messages of each tag */
    uint32_t depth;  /* in flight, of each tag; up to FLOW_DEPTH_MAX */
    size_t largest;  /* bytes of a message */
    bool same_sizes; /* all are the largest; else they are random, zero among them */
    bool same_tags;  /* of the group bear one number: slots fill in their order */
    bool no_sizes;   /* test is given NULL now and then */
    enum flow_order order;
};

struct flow;

/** One end. @param sends  comm is of connect, else of accept */
struct flow *flow_start(struct rig *rig, const struct flow_plan *plan, void *comm, bool sends);

/** Do what can be done now. @return whether anything moved */
bool flow_advance(struct flow *flow);

bool flow_is_done(const struct flow *flow);

/** Free it; deregisters. */
void flow_end(struct flow *flow);

/** Drive these until all are done, then end them. NULLs are none. */
void flow_run(struct flow **flows, uint32_t n);

/** Bytes of a message. */
size_t flow_bytes(const struct flow_plan *plan, uint32_t tag, uint32_t number);

#endif
