/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a group comes about by its members alone, without a master: each says to a few others what
 * it knows of all.
 *
 * In stage k a member says to the one 2^k members after it what it has heard so far, and hears as
 * much from the one 2^k members before it; after ceil(log2 n) stages it has heard of all (the
 * dissemination barrier of Hensgen, Finkel and Manber, 1988). Words hold largest and smallest
 * values, so it does no harm that some are counted twice: the settings that are first and last in
 * order, each with its rank, whether all can map each other's memory, the largest generation that
 * any has in use, and the first member that cannot go on. So all end with the same answer.
 *
 * A key tells whether members make the same group: a hash of the members in their order and a tag.
 * Words of a member that come before we make that group are kept, first come, first taken:
 * connections keep their order, and a member says one word to us for each time that it makes the
 * group.
 *
 * A member that waits long asks the one whose word is missing which member that one waits for, and
 * so on, until it finds a member that does not make the group. A member that gives up takes its
 * words back.
 *
 * Used by the thread that makes progress; the status of a formation may be read by any.
 */
#ifndef WRING_TRANSPORT_FORMATION_H
#define WRING_TRANSPORT_FORMATION_H

#include <stdatomic.h>

#include "transport/channel.h"
#include "transport/control.h"

#define WRING_FORMATION_TERMS 4    /* settings that members need alike */
#define WRING_FORMATION_EARLY 1024 /* words of one rank that are kept */

/** The key that a group is known by. */
struct wring_group_key {
    uint8_t bytes[16];
};

/** Settings of one member. */
struct wring_terms {
    uint32_t rank;
    uint64_t values[WRING_FORMATION_TERMS];
};

/** A member's knowledge of those that it has heard of, itself among them. */
struct wring_formation_word {
    uint64_t generation;      /* larger than all that they have in use */
    bool can_map;             /* each can map the memory of all */
    enum wring_status status; /* WRING_OK: all can go on */
    uint32_t failed;          /* the first rank that cannot, if one cannot */
    struct wring_terms first, last;
};

struct wring_formation {
    struct wring_members members; /* borrowed */
    uint64_t tag;
    struct wring_group_key key;
    struct wring_formation_word word;
    uint32_t stage, stages; /* under way; of so many */
    uint32_t said;          /* stages in which our word went out */
    bool owes;              /* one could not be sent yet */
    uint32_t asked;         /* the rank that is asked next or was asked last */
    uint32_t blamed;        /* the rank that all wait for, as far as we know; else UINT32_MAX */
    bool other_members;     /* that one makes another group with the same tag */
    uint64_t ask_ns;        /* when to ask next */
    uint64_t pause_ns;      /* between two questions */
    atomic_int status; /* enum wring_status; WRING_ERR_AGAIN while under way; or TIMEOUT, MISMATCH
                          (see wring_formation_differs()), or that of the member `blamed` */
    struct wring_formation *next;
};

/** All formations of a rank that are under way, and words for later ones. Zeroed at first. */
struct wring_formations {
    struct wring_fabric *fabric;
    struct wring_formation *first;
    struct wring_early_word *early; /* oldest first */
    uint32_t *kept;                 /* [ranks] of them; NULL: none ever came */
    uint64_t generation;            /* the largest one that we have heard of */
    void (*given_up)(void *arg, struct wring_peer *peer, const struct wring_group_key *key);
    void *arg; /* of given_up(): a member took back words of a group that is no longer forming */
};

/** Nothing is under way. */
void wring_formations_finish(struct wring_formations *formations);

/**
 * The key of a group. Errors: WRING_ERR_SYSTEM (this process has no hash), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_group_key_make(const struct wring_members *members, uint64_t tag,
                                       struct wring_group_key *out);

static inline bool wring_group_key_equal(const struct wring_group_key *a,
                                         const struct wring_group_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/**
 * Begin to form a group; its members, tag and key are set.
 *
 * @param own         what we bring: status, can_map, and `first`, our settings; the rest is set
 * here
 * @param timeout_ns  how long the caller means to wait: questions are asked in its second half
 * Errors: WRING_ERR_BUSY: one of the same key is under way.
 */
enum wring_status wring_formation_begin(struct wring_formations *formations,
                                        struct wring_formation *formation,
                                        const struct wring_formation_word *own,
                                        uint64_t timeout_ns);

/**
 * Our time is up: one that is under way ends with WRING_ERR_TIMEOUT, `blamed` is the rank that does
 * not make it, and members that have heard of it from us are told. One that has ended stays as it
 * is.
 */
void wring_formation_give_up(struct wring_formations *formations,
                             struct wring_formation *formation);

/** A control message of kind FORM. It may fail the job. */
void wring_formations_heard(struct wring_formations *formations, struct wring_peer *peer,
                            const struct wring_control *control);

/** Say what could not be said, ask who is due. @return true if something was said */
bool wring_formations_poll(struct wring_formations *formations);

/** When wring_formations_poll() has something to do next, though nothing comes. */
uint64_t wring_formations_deadline(const struct wring_formations *formations);

/** Add the knowledge of another member's word. */
void wring_formation_merge(struct wring_formation_word *word,
                           const struct wring_formation_word *other);

/** The first of the settings that differ; WRING_FORMATION_TERMS: none does. */
uint32_t wring_formation_differs(const struct wring_formation_word *word);

#endif
