/* SPDX-License-Identifier: Apache-2.0 */
/** A pool of slots with one peer, whose part the test plays: rank 0 is ours. No thread, no net. */
#ifndef WRING_TESTS_POOL_RIG_H
#define WRING_TESTS_POOL_RIG_H

#include "transport/collective/collective.h"
#include "transport/control.h"
#include "transport/slot_pool.h"

#define POOL_RIG_SLOTS 4
#define POOL_RIG_CHUNK (16u << 10)
#define POOL_RIG_WINDOW 4
#define POOL_RIG_SAID 64

struct pool_rig {
    struct wring_config config;
    struct wring_log log;
    struct wring_fabric fabric;
    struct wring_peer peers[2];
    struct wring_conn conn;
    struct wring_engine engine;
    struct wring_op_history calls;
    struct wring_cease cease;
    struct wring_collective owner;            /* of the channel */
    struct wring_channel channel;             /* of a group of both ranks */
    char line[512];                           /* the latest that was logged as an error */
    struct wring_control said[POOL_RIG_SAID]; /* the latest controls that we sent, in a ring */
    uint32_t n_said;
    uint32_t puts; /* of ours, and of the latest: */
    uint32_t imm;
    uint64_t offset;
    size_t bytes;
    bool busy; /* nothing can be sent */
};

/** @return NULL: no memory */
struct pool_rig *pool_rig_open(void);
void pool_rig_close(struct pool_rig *rig);

/** Make the channel anew: another group. Nothing is known of the peer's end. */
bool pool_rig_make_channel(struct pool_rig *rig);
void pool_rig_drop_channel(struct pool_rig *rig);

/** The group is aborted: its calls have ended, no matter by whom. */
void pool_rig_abort(struct pool_rig *rig);
bool pool_rig_is_aborted(const struct pool_rig *rig);

/** What an honest peer says first: where pieces go to it; and its end of the channel. */
struct wring_control pool_rig_link(void);
void pool_rig_connect(struct pool_rig *rig);

/** The peer says that. */
void pool_rig_hear(struct pool_rig *rig, const struct wring_control *control);
void pool_rig_say(struct pool_rig *rig, enum wring_control_kind kind, uint32_t a, uint32_t b,
                  uint32_t c);

/** A put of the peer's came. @return whether there is a piece now */
bool pool_rig_put(struct pool_rig *rig, uint32_t imm, size_t bytes);

/** The immediate of its piece with that sequence, of the channel and the call that we are in. */
uint32_t pool_rig_imm(const struct pool_rig *rig, uint32_t sequence);

/** We send a piece of so many bytes, if it may begin. @return what the pool said */
enum wring_status pool_rig_send(struct pool_rig *rig, uint32_t sequence, size_t bytes);

/** We take and release the next piece. @return whether there was one */
bool pool_rig_take(struct pool_rig *rig);

#endif
