/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What cases are written with: a rank's plugin and communicator, connections between ranks, single
 * messages. All of it in the order in which NCCL's proxy does it. A call that fails, and a wait up
 * to the world's deadline, are failed checks that end the rank.
 */
#ifndef WRING_TESTS_NCCL_RIG_H
#define WRING_TESTS_NCCL_RIG_H

#include "tests/nccl/plugin.h"
#include "tests/nccl/world.h"

#define RIG_LINKS_MAX 256
#define RIG_EACH_MAX 4

/** Which plugin the cases drive; of the command line. */
struct rig_choice {
    const char *path;
    int version; /* 0: the newest that it has */
    uint32_t seed;
    size_t largest_mib;             /* of a message */
    size_t memory_mib;              /* that one may take beside the caller's; 0: not checked */
    const char *no_device;          /* NAME=VALUE that leaves it no device */
    const char *each[RIG_EACH_MAX]; /* NAME=VALUE|VALUE..., by rank in turn */
    unsigned n_each;
};
extern struct rig_choice rig_choice;

/** Read a command line: PLUGIN VERSION [NAME=VALUE | seed=N | deadline=S | largest=MIB | memory=MIB
 * | no-device=NAME=VALUE | each=NAME=VALUE|VALUE...]...
 *  @return how many arguments it took; 0 where it is wrong, said */
int rig_take_arguments(int argc, char **argv);

/** A communicator of this rank. */
struct rig {
    struct world_rank me;
    struct plugin *plugin;
    void *ctx;
    int device;
};

/** Load the plugin and initialise it. */
void rig_begin(struct rig *rig, const struct world_rank *me);
void rig_begin_version(struct rig *rig, const struct world_rank *me, int version, uint64_t comm_id);
void rig_end(struct rig *rig);

/** A connection from one rank to another; a rank has the comms that are its own. */
struct rig_link {
    uint32_t from, to;
    void *send, *receive;
};

/**
 * Connect: every receiver listens, the handles go to the senders, then all poll connect and accept.
 * All ranks call it, with the same links.
 */
void rig_connect(struct rig *rig, struct rig_link *links, uint32_t n);
void rig_disconnect(struct rig *rig, struct rig_link *links, uint32_t n);

/** What is left to do of that, by link. */
struct rig_meeting {
    void *listeners[RIG_LINKS_MAX];
    unsigned char handles[RIG_LINKS_MAX][PLUGIN_HANDLE];
};

/* The two halves of rig_connect(): the second may be of other threads, each for links of its own.
 */
void rig_listen(struct rig *rig, struct rig_link *links, uint32_t n, struct rig_meeting *meeting);
void rig_join(struct rig *rig, struct rig_link *links, uint32_t first, uint32_t end,
              struct rig_meeting *meeting);

/** Two ranks and one connection, from rank 0 to rank 1: all that most cases need. */
void rig_run_pair(void (*run)(struct rig *rig, void *comm));

void *rig_register(struct rig *rig, void *comm, void *data, size_t bytes);
void rig_deregister(struct rig *rig, void *comm, void *region);

/** Ask until the plugin takes it. @return the request */
void *rig_send(struct rig *rig, void *comm, void *data, size_t bytes, int tag, void *region);
void *rig_receive(struct rig *rig, void *comm, void *data, size_t bytes, int tag, void *region);
void *rig_receive_group(struct rig *rig, void *comm, int n, void **data, const size_t *bytes,
                        int *tags, void *region);

/** Test until it is done. @param sizes  may be NULL. @return what test said at last */
int rig_finish(struct rig *rig, void *request, int *sizes, const char *what);

/** The same, where all but success is a failed check. */
void rig_wait(struct rig *rig, void *request, int *sizes, const char *what);

/* Contents: a function of a seed, different in each word. */
void rig_fill(void *data, size_t bytes, uint64_t seed);

/** Where the first byte differs; `bytes` where none does. */
size_t rig_differs(const void *data, size_t bytes, uint64_t seed);

/** Threads of this process, but for the mock adapters' own. */
unsigned rig_count_threads(void);

#endif
