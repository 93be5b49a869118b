/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The flat scheme among members that map each other's memory: nothing is sent. Each member shows
 * what it contributes on a board of its own, and all others read it there. The thread that posts
 * and waits does all of it: it takes no lock and makes no system call. Only a step that takes long,
 * and one that has to wake somebody, goes to the engine.
 *
 * A board lies in the slots of its member: 128 bytes that say whether the member sleeps and, where
 * ranks share cores, on which core it runs; 128 for steps in place, then two slots, for epochs (the
 * steps over this board, from 1) in turn. A slot is the number of an epoch and behind it the
 * contribution: one that fits comes with its number in one cache line, all others begin with a line
 * of their own. But for the state of a shard (below) no line has two writers.
 *
 * Two slots are enough, and nobody acknowledges anything: a member writes epoch k + 2 over epoch k
 * after its own epoch k + 1 has ended, so when all others have shown theirs of k + 1; and each does
 * that only after its epoch k has ended, which was the last time that it read a slot of epoch k.
 *
 * In place: where the members' data is mapped as well, nothing is behind the number of a step on
 * more than a few lines: it says that the member's data is ready. Once all have said so, any member
 * that runs sums a shard, out of everyone's data and into everyone's data, then the next one, until
 * none is left: first its own, then those of members that share its core, which cannot run
 * meanwhile, then any. The state of a shard, on its member's board, says whether it is open, which
 * member sums it, or that it is summed; one member alone sums it, as it claims it by compare and
 * swap. The step has ended where all are summed. A member that has posted is not needed again, and
 * no line goes to and fro but those of the sums, once for all members of a core.
 *
 * Data from others is hostile. Its place and length follow from the layout alone; a board that
 * tells nonsense makes nothing but a wrong sum, or a wait that ends as all do.
 *
 * Used by the thread that posts or waits, one at a time for a collective, until `by_engine`; from
 * then on to the end of the step by the thread that makes progress. Calls of a group are begun
 * under the lock of those who drive.
 */
#ifndef WRING_TRANSPORT_COLLECTIVE_SHM_FLAGS_H
#define WRING_TRANSPORT_COLLECTIVE_SHM_FLAGS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compress/reduce.h"
#include "transport/channel.h"

#define WRING_BOARD_ALIGN 128 /* processors fetch lines in pairs */

/** The part of a board that its member writes at commit, when it goes to sleep, and when it
 *  moves. */
struct wring_board {
    alignas(WRING_BOARD_ALIGN) _Atomic uint32_t asleep; /* others that show something wake it */
    _Atomic uint32_t fenced; /* heavy fences of others do not reach it, or it can make none */
    _Atomic uint32_t core;   /* + 1, from which it showed something last; 0: it does not say */

    /* in place: epoch << WRING_SHARD_BITS | what becomes of the member's shard in it. Its member
     * opens it, then the member that sums it writes it */
    alignas(WRING_BOARD_ALIGN) _Atomic uint64_t shard;
};

#define WRING_SHARD_BITS 8
#define WRING_SHARD_OPEN 0 /* more: that member sums it, counted from 1 */
#define WRING_SHARD_SUMMED 128

/** The part of our own board that even epochs use, or odd ones. */
struct wring_shm_flags_turn {
    struct wring_shm_flags_slot *slot;
    void *contribution; /* of the contribution, in it */
    const void **run;   /* [members] what is reduced */
};

struct wring_shm_flags {
    /* what a post needs before others see what it has: ready-made, in one line */
    struct {
        struct wring_shm_flags_slot *slot;
        void *contribution;
        uint64_t number; /* but for the tag */
    } ready;
    const void *in; /* what we contribute */
    size_t shown;   /* bytes of it that come with the number */

    /* and what comes after that */
    uint64_t epoch;
    uint64_t number; /* epoch, and below it the tag of the call; 0 where there are no calls */
    const struct wring_shm_flags_turn *turn; /* this epoch's */
    struct wring_shm_flags_turn turns[2];
    struct wring_shm_flags_other {
        const struct wring_shm_flags_slot *slots[2]; /* of even and of odd epochs; mapped */
        const struct wring_board *board;             /* mapped */
        uint32_t member;
    } * others; /* [n_others] */
    struct wring_shm_flags_shard {
        struct wring_board *board; /* its member's; mapped */
        size_t offset, bytes;      /* in everyone's data; none: there is nothing to sum */
        uint64_t elems;
    } * shards; /* [members] in place: our own, and those of the members after us */
    uint32_t n_others;
    unsigned looks;  /* that found this step not yet ended */
    bool by_engine;  /* the step under way is the engine's */
    bool watched;    /* so all steps are: for a trace, or to end without a test */
    bool fenced;     /* light fences are not enough for some member */
    bool crowded;    /* ranks share cores, and say which */
    bool spreads;    /* they are all here: so one can tell that cores have unlike many */
    unsigned yields; /* since cores were last compared */
    unsigned uneven; /* comparisons in a row that found so */
    bool in_place;   /* sums go straight into everyone's data */
    bool claimed;    /* and all shards are somebody's: only sums are waited for */
    uint64_t elems;  /* of our contribution; in place: of our shard */
    size_t bytes;    /* of them */
    /* that go to all others in this step, and come from them; in place: if each sums its own */
    uint64_t all_bytes, other_bytes;
    void *out;               /* where the sum goes */
    struct wring_board *own; /* in memory that the others map; borrowed */
    struct wring_reduction reduction;
    atomic_ullong puts, sent_bytes, taken_bytes; /* shown to one other member each; reduced */
    atomic_ullong ended;                         /* steps without the engine */

    struct wring_members members;
    size_t room;            /* for contributions of so many bytes */
    const void **runs;      /* [2][members] of even and of odd epochs */
    uint8_t **data;         /* [members] in place: where they have theirs; mapped */
    const void **parts;     /* [members] in place: of the shard that is being summed */
    enum wring_dtype dtype; /* what the reduction is for */
    enum wring_op op;
    bool *woken;                  /* [n_others] in this step, by the engine */
    uint32_t *cores;              /* [members] as the boards say */
    struct wring_shm_flags *next; /* in a list of its owner's */
};

/** Counts of shm_flags steps, for their session. */
struct wring_shm_flags_counts {
    uint64_t bytes_sent, bytes_received, puts_sent, steps;
};

struct wring_collective;

/** Bytes of a board, to be aligned to WRING_BOARD_ALIGN. */
size_t wring_shm_flags_memory(size_t room);

/**
 * @param room    bytes of the largest contribution, 1 or more
 * @param memory  of our board, zeroed, which is written
 * @param out     for wring_shm_flags_destroy(); not to be used before everybody's board is
 * connected Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_shm_flags_create(struct wring_members members, size_t room, uint8_t *memory,
                                         struct wring_shm_flags **out);

/** NULL is fine. */
void wring_shm_flags_destroy(struct wring_shm_flags *flags);

/**
 * Map a member's board, which has been written by now.
 * @param offset  in that memory; hostile
 * Errors: WRING_ERR_FRAME (there is no room for a board), those of the provider.
 */
enum wring_status wring_shm_flags_connect(struct wring_shm_flags *flags, uint32_t member,
                                          struct wring_remote *remote, uint64_t offset);

/** In place, after the member is connected: where it has its data, mapped, as much as ours. */
void wring_shm_flags_set_data(struct wring_shm_flags *flags, uint32_t member, uint8_t *data);

/** The collective's work is another one than before: look up what it needs. */
void wring_shm_flags_prepare(struct wring_collective *collective);

/** Of a list's, so far. NULL is an empty one. Threads: safe, while it is there. */
struct wring_shm_flags_counts wring_shm_flags_count(const struct wring_shm_flags *list);

/** Begin a step. @return false: it is to be given to the engine now, as another member sleeps */
bool wring_shm_flags_begin(struct wring_collective *collective);

/** End the step now, if it can end and is not the engine's. @return whether it has ended, well
 *  or not */
bool wring_shm_flags_end(struct wring_collective *collective);

/** Note that it has not ended. @return true, once: it has been found so often so, and is now to be
 *  given to the engine */
bool wring_shm_flags_give(struct wring_collective *collective, unsigned looks);

/** Look so often; then the engine has it. @return whether it has ended */
bool wring_shm_flags_wait(struct wring_collective *collective, unsigned looks);

/** That member shows data of another call in this epoch. */
bool wring_shm_flags_is_foreign(const struct wring_collective *collective, uint32_t member);

/** Before a sleep until the step ends: others are to wake us. By the thread that makes progress. */
void wring_shm_flags_sleep(struct wring_collective *collective);

#endif
