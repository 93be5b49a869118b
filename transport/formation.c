/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/formation.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "transport/auth.h"

#define QUESTIONS 16 /* in the half of the time that is left for them */
#define RETRY_NS (1 * WRING_NS_PER_MS)

/** Kinds of FORM message; values are part of the wire format. */
enum wring_form {
    FORM_WORD = 1,  /* b: stage; tag, then the word */
    FORM_ASK = 2,   /* whom do you wait for? */
    FORM_TELL = 3,  /* b: rank that we wait for, or ABSENT: we do not make that group */
    FORM_TAKE_BACK, /* forget our last word */
};

#define ABSENT UINT32_MAX

/** A word of a group that we do not make yet. */
struct wring_early_word {
    struct wring_early_word *next;
    uint32_t from, stage;
    uint64_t tag;
    struct wring_group_key key;
    struct wring_formation_word word;
};

/* ---- words as bytes ---- */

static void write_bytes(struct wring_control *control, const void *data, size_t bytes)
{
    memcpy(control->body + control->bytes, data, bytes);
    control->bytes += (uint32_t)bytes;
}

static void write_u32(struct wring_control *control, uint32_t value)
{
    write_bytes(control, &value, sizeof(value));
}

static void write_u64(struct wring_control *control, uint64_t value)
{
    write_bytes(control, &value, sizeof(value));
}

static void write_terms(struct wring_control *control, const struct wring_terms *terms)
{
    write_u32(control, terms->rank);
    for (size_t i = 0; i < WRING_FORMATION_TERMS; i++)
        write_u64(control, terms->values[i]);
}

static struct wring_terms read_terms(struct wring_reader *in)
{
    struct wring_terms terms = {.rank = wring_read_u32(in)};
    for (size_t i = 0; i < WRING_FORMATION_TERMS; i++)
        terms.values[i] = wring_read_u64(in);
    return terms;
}

static void write_word(struct wring_control *control, const struct wring_formation_word *word)
{
    write_u64(control, word->generation);
    write_u32(control, word->can_map);
    write_u32(control, (uint32_t)word->status);
    write_u32(control, word->failed);
    write_terms(control, &word->first);
    write_terms(control, &word->last);
}

/** @return false: no honest rank says that */
static bool read_word(struct wring_reader *in, uint32_t ranks, struct wring_formation_word *out)
{
    out->generation = wring_read_u64(in);
    uint32_t can_map = wring_read_u32(in), status = wring_read_u32(in);
    out->failed = wring_read_u32(in);
    out->first = read_terms(in);
    out->last = read_terms(in);
    out->can_map = can_map != 0;
    out->status = (enum wring_status)status;
    return !in->failed && in->bytes == 0 && can_map <= 1 && status <= WRING_ERR_SYSTEM &&
           status != WRING_ERR_AGAIN && out->generation <= UINT64_MAX / 2 &&
           (status == WRING_OK || out->failed < ranks) && out->first.rank < ranks &&
           out->last.rank < ranks;
}

enum wring_status wring_group_key_make(const struct wring_members *members, uint64_t tag,
                                       struct wring_group_key *out)
{
    static const uint8_t use[] = "wring group";
    uint8_t hash[WRING_MAC_BYTES];
    struct wring_writer writer = {0};

    wring_write_u64(&writer, tag);
    for (uint32_t i = 0; i < members->n; i++)
        wring_write_u32(&writer, members->ranks[i]);
    bool hashed = !writer.failed && wring_hmac(use, sizeof(use), writer.data, writer.bytes, hash);
    enum wring_status status = writer.failed ? WRING_ERR_NO_MEMORY
                               : hashed      ? WRING_OK
                                             : WRING_ERR_SYSTEM;
    free(writer.data);
    if (status == WRING_OK)
        memcpy(out->bytes, hash, sizeof(out->bytes));
    return status;
}

/* ---- what is known of all ---- */

static int compare_terms(const struct wring_terms *a, const struct wring_terms *b)
{
    for (size_t i = 0; i < WRING_FORMATION_TERMS; i++)
        if (a->values[i] != b->values[i])
            return a->values[i] < b->values[i] ? -1 : 1;
    return 0;
}

/** Of equal ones that of the smallest rank stays, so that all have the same. */
static void keep_first_terms(struct wring_terms *kept, const struct wring_terms *other, int sign)
{
    int order = sign * compare_terms(other, kept);
    if (order < 0 || (order == 0 && other->rank < kept->rank))
        *kept = *other;
}

void wring_formation_merge(struct wring_formation_word *word,
                           const struct wring_formation_word *other)
{
    if (other->generation > word->generation)
        word->generation = other->generation;
    word->can_map &= other->can_map;
    if (other->status != WRING_OK && (word->status == WRING_OK || other->failed < word->failed)) {
        word->status = other->status;
        word->failed = other->failed;
    }
    keep_first_terms(&word->first, &other->first, 1);
    keep_first_terms(&word->last, &other->last, -1);
}

uint32_t wring_formation_differs(const struct wring_formation_word *word)
{
    uint32_t i = 0;
    while (i < WRING_FORMATION_TERMS && word->first.values[i] == word->last.values[i])
        i++;
    return i;
}

/* ---- stages ---- */

static uint32_t member_after(const struct wring_formation *formation, uint32_t stage)
{
    const struct wring_members *members = &formation->members;
    return (uint32_t)((members->me + (1ull << stage)) % members->n);
}

static uint32_t member_before(const struct wring_formation *formation, uint32_t stage)
{
    const struct wring_members *members = &formation->members;
    return (uint32_t)((members->me + members->n - (1ull << stage)) % members->n);
}

static struct wring_peer *peer_of(const struct wring_formations *formations,
                                  const struct wring_formation *formation, uint32_t member)
{
    return wring_fabric_peer(formations->fabric, formation->members.ranks[member]);
}

static struct wring_control make_message(enum wring_form form, uint32_t value,
                                         const struct wring_group_key *key)
{
    struct wring_control control = {.kind = WRING_CONTROL_FORM, .a = form, .b = value};
    write_bytes(&control, key->bytes, sizeof(key->bytes));
    return control;
}

/** The rank whose word we lack. */
static uint32_t rank_awaited(const struct wring_formation *formation)
{
    return formation->members.ranks[member_before(formation, formation->stage)];
}

static void fail_unreachable(struct wring_formations *formations, const struct wring_peer *peer,
                             enum wring_status status)
{
    wring_fabric_fail(formations->fabric, WRING_ERR_PEER, (int32_t)peer->rank,
                      "cannot make a group with rank %" PRIu32 ": %s", peer->rank,
                      peer->left ? "it has closed its session" : wring_status_text(status));
}

/** @return false: there is no room for it yet */
static bool say_word(struct wring_formations *formations, struct wring_formation *formation)
{
    struct wring_peer *peer =
        peer_of(formations, formation, member_after(formation, formation->stage));
    struct wring_control control = make_message(FORM_WORD, formation->stage, &formation->key);

    write_u64(&control, formation->tag);
    write_word(&control, &formation->word);
    enum wring_status status = wring_control_deliver(formations->fabric, peer, &control);
    /* one that was lost is yet to be heard of, with the reason */
    bool lost = status == WRING_ERR_CLOSED && !peer->left;
    formation->owes = status == WRING_ERR_AGAIN || lost;
    formation->said += status == WRING_OK;
    if (status != WRING_OK && !formation->owes)
        fail_unreachable(formations, peer, status);
    return status == WRING_OK;
}

/** Unlink the first kept word of that key and rank, or the last one. @return NULL: there is none */
static struct wring_early_word *take_early_word(struct wring_formations *formations, uint32_t from,
                                                const struct wring_group_key *key, bool last)
{
    struct wring_early_word **found = NULL;
    for (struct wring_early_word **at = &formations->early; *at != NULL; at = &(*at)->next)
        if ((*at)->from == from && wring_group_key_equal(&(*at)->key, key)) {
            found = at;
            if (!last)
                break;
        }
    if (found == NULL)
        return NULL;
    struct wring_early_word *word = *found;
    *found = word->next;
    formations->kept[from]--;
    return word;
}

static bool is_under_way(const struct wring_formation *formation)
{
    return atomic_load_explicit(&formation->status, memory_order_relaxed) == WRING_ERR_AGAIN;
}

/** It has ended: what is heard of that key from now on is of another one. */
static void end_formation(struct wring_formations *formations, struct wring_formation *formation,
                          enum wring_status status)
{
    struct wring_formation **at = &formations->first;
    while (*at != formation)
        at = &(*at)->next;
    *at = formation->next;
    atomic_store_explicit(&formation->status, (int)status, memory_order_release);
}

static void end_by_merged_word(struct wring_formations *formations,
                               struct wring_formation *formation)
{
    enum wring_status status = formation->word.status;

    if (status == WRING_OK && wring_formation_differs(&formation->word) < WRING_FORMATION_TERMS)
        status = WRING_ERR_MISMATCH;
    if (formation->word.status != WRING_OK)
        formation->blamed = formation->word.failed;
    if (formation->word.generation > formations->generation)
        formations->generation = formation->word.generation;
    end_formation(formations, formation, status);
}

/** Do what the words that are here allow. @return whether any was said or taken */
static bool advance_formation(struct wring_formations *formations,
                              struct wring_formation *formation)
{
    bool any = false;
    while (formation->stage < formation->stages) {
        if (formation->said == formation->stage) {
            if (!say_word(formations, formation))
                return any;
            any = true;
        }
        uint32_t from = rank_awaited(formation);
        struct wring_early_word *early = take_early_word(formations, from, &formation->key, false);
        if (early == NULL)
            return any;
        bool sound = early->stage == formation->stage;
        if (sound)
            wring_formation_merge(&formation->word, &early->word);
        free(early);
        if (!sound) {
            wring_fabric_fail(formations->fabric, WRING_ERR_FRAME, (int32_t)from,
                              "rank %" PRIu32 " sent a word of a group out of its turn", from);
            return true;
        }
        formation->stage++;
        formation->blamed = ABSENT;
        formation->asked = ABSENT;
        any = true;
    }
    end_by_merged_word(formations, formation);
    return true;
}

static struct wring_formation *find_formation(const struct wring_formations *formations,
                                              const struct wring_group_key *key)
{
    struct wring_formation *at = formations->first;
    while (at != NULL && !wring_group_key_equal(&at->key, key))
        at = at->next;
    return at;
}

enum wring_status wring_formation_begin(struct wring_formations *formations,
                                        struct wring_formation *formation,
                                        const struct wring_formation_word *own, uint64_t timeout_ns)
{
    uint32_t n = formation->members.n, rank = formations->fabric->rank;

    if (find_formation(formations, &formation->key) != NULL)
        return WRING_ERR_BUSY;
    formation->word = *own;
    formation->word.generation = ++formations->generation;
    formation->word.failed = rank;
    formation->word.first.rank = rank;
    formation->word.last = formation->word.first;
    formation->stage = formation->stages = formation->said = 0;
    while ((1ull << formation->stages) < n)
        formation->stages++;
    formation->owes = formation->other_members = false;
    formation->asked = formation->blamed = ABSENT;
    timeout_ns = timeout_ns < WRING_NEVER / 2 ? timeout_ns : WRING_NEVER / 2;
    formation->ask_ns = wring_deadline_in(timeout_ns / 2);
    formation->pause_ns = timeout_ns / 2 / QUESTIONS + 1;
    atomic_store_explicit(&formation->status, WRING_ERR_AGAIN, memory_order_relaxed);
    formation->next = formations->first;
    formations->first = formation;
    advance_formation(formations, formation);
    return WRING_OK;
}

/** To those that have heard of it from us. One that does not get it waits until its own time is
 *  up. */
static void take_back_words(struct wring_formations *formations, struct wring_formation *formation)
{
    struct wring_control control = make_message(FORM_TAKE_BACK, formation->blamed, &formation->key);
    for (uint32_t stage = 0; stage < formation->said; stage++)
        wring_control_send(peer_of(formations, formation, member_after(formation, stage)),
                           &control);
}

void wring_formation_give_up(struct wring_formations *formations, struct wring_formation *formation)
{
    if (!is_under_way(formation))
        return;
    if (formation->blamed == ABSENT) /* nobody has told: the nearest one that does not answer */
        formation->blamed = formation->asked != ABSENT ? formation->asked : rank_awaited(formation);
    take_back_words(formations, formation);
    end_formation(formations, formation, WRING_ERR_TIMEOUT);
}

/* ---- who is missing? ---- */

/** With the same tag, but other members or another order. */
static bool makes_other_group(const struct wring_formations *formations,
                              const struct wring_formation *formation, uint32_t rank)
{
    for (const struct wring_early_word *at = formations->early; at != NULL; at = at->next)
        if (at->from == rank && at->tag == formation->tag &&
            !wring_group_key_equal(&at->key, &formation->key))
            return true;
    return false;
}

static void blame_rank(const struct wring_formations *formations, struct wring_formation *formation,
                       uint32_t rank)
{
    formation->blamed = rank;
    formation->other_members = makes_other_group(formations, formation, rank);
}

/** The first stage's word is missing only where its member makes no such group. */
static void ask_who_is_missing(struct wring_formations *formations,
                               struct wring_formation *formation)
{
    uint32_t awaited = rank_awaited(formation);
    struct wring_control control = make_message(FORM_ASK, 0, &formation->key);

    formation->ask_ns = wring_deadline_in(formation->pause_ns);
    if (formation->stage == 0) {
        blame_rank(formations, formation, awaited);
        return;
    }
    if (formation->asked == ABSENT)
        formation->asked = awaited;
    wring_control_deliver(formations->fabric,
                          wring_fabric_peer(formations->fabric, formation->asked), &control);
}

/** Whom do we wait for in that group, as far as we know? */
static void tell_who_is_missing(const struct wring_formations *formations, struct wring_peer *peer,
                                const struct wring_group_key *key)
{
    const struct wring_formation *formation = find_formation(formations, key);
    uint32_t rank = ABSENT;

    if (formation != NULL)
        rank = formation->blamed != ABSENT ? formation->blamed : rank_awaited(formation);
    struct wring_control control = make_message(FORM_TELL, rank, key);
    wring_control_send(peer, &control);
}

static void hear_who_is_missing(const struct wring_formations *formations,
                                const struct wring_peer *peer, const struct wring_group_key *key,
                                uint32_t rank)
{
    struct wring_formation *formation = find_formation(formations, key);

    if (formation == NULL || peer->rank != formation->asked)
        return; /* of before its word came */
    if (rank == ABSENT)
        blame_rank(formations, formation, peer->rank);
    else if (wring_members_find(&formation->members, rank) == formation->members.n)
        return;
    else if (rank != formations->fabric->rank)
        formation->asked = rank;
}

/* ---- what is heard ---- */

static void hear_word(struct wring_formations *formations, struct wring_peer *peer,
                      const struct wring_group_key *key, uint32_t stage, struct wring_reader *in)
{
    struct wring_fabric *fabric = formations->fabric;
    struct wring_early_word *early = calloc(1, sizeof(*early)), **end = &formations->early;

    if (formations->kept == NULL)
        formations->kept = calloc(fabric->size, sizeof(*formations->kept));
    if (early == NULL || formations->kept == NULL) {
        free(early);
        wring_fabric_fail(fabric, WRING_ERR_NO_MEMORY, (int32_t)fabric->rank,
                          "rank %" PRIu32 " has no memory for a group that rank %" PRIu32 " makes",
                          fabric->rank, peer->rank);
        return;
    }
    early->tag = wring_read_u64(in);
    early->from = peer->rank;
    early->stage = stage;
    early->key = *key;
    if (!read_word(in, fabric->size, &early->word) ||
        formations->kept[peer->rank] == WRING_FORMATION_EARLY) {
        wring_fabric_fail(fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          in->failed || in->bytes > 0 ||
                                  formations->kept[peer->rank] < WRING_FORMATION_EARLY
                              ? "rank %" PRIu32 " sent a malformed word of a group"
                              : "rank %" PRIu32 " makes too many groups that this rank does not",
                          peer->rank);
        free(early);
        return;
    }
    if (early->word.generation > formations->generation)
        formations->generation = early->word.generation;
    while (*end != NULL)
        end = &(*end)->next;
    *end = early;
    formations->kept[peer->rank]++;
    struct wring_formation *formation = find_formation(formations, key);
    if (formation != NULL)
        advance_formation(formations, formation);
}

/** A word that we have not taken is as if it had not been said; else the group cannot come about.
 */
static void hear_take_back(struct wring_formations *formations, struct wring_peer *peer,
                           const struct wring_group_key *key, uint32_t blamed)
{
    struct wring_early_word *early = take_early_word(formations, peer->rank, key, true);
    struct wring_formation *formation = find_formation(formations, key);

    if (early != NULL) {
        free(early);
        return;
    }
    if (formation == NULL) {
        if (formations->given_up != NULL)
            formations->given_up(formations->arg, peer, key);
        return;
    }
    const struct wring_members *members = &formation->members;
    if (wring_members_find(members, peer->rank) == members->n)
        return;
    if (formation->blamed == ABSENT)
        blame_rank(formations, formation,
                   wring_members_find(members, blamed) < members->n ? blamed : peer->rank);
    take_back_words(formations, formation);
    end_formation(formations, formation, WRING_ERR_TIMEOUT);
}

void wring_formations_heard(struct wring_formations *formations, struct wring_peer *peer,
                            const struct wring_control *control)
{
    struct wring_reader in = {control->body, control->bytes, false};
    struct wring_group_key key;
    const void *bytes = wring_read(&in, sizeof(key.bytes));

    if (bytes != NULL) {
        memcpy(key.bytes, bytes, sizeof(key.bytes));
        if (control->a == FORM_WORD) {
            hear_word(formations, peer, &key, control->b, &in);
            return;
        }
    }
    if (bytes == NULL || in.bytes > 0 || control->a > FORM_TAKE_BACK || control->a < FORM_WORD) {
        wring_fabric_fail(formations->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " sent a malformed message about a group", peer->rank);
        return;
    }
    if (control->a == FORM_ASK)
        tell_who_is_missing(formations, peer, &key);
    else if (control->a == FORM_TELL)
        hear_who_is_missing(formations, peer, &key, control->b);
    else
        hear_take_back(formations, peer, &key, control->b);
}

bool wring_formations_poll(struct wring_formations *formations)
{
    bool any = false;
    struct wring_formation *next;
    for (struct wring_formation *at = formations->first; at != NULL; at = next) {
        next = at->next;
        if (formations->fabric->state != WRING_FABRIC_WORKING)
            return any;
        if (at->owes)
            any |= advance_formation(formations, at);
        if (is_under_way(at) && formations->fabric->tick_ns >= at->ask_ns)
            ask_who_is_missing(formations, at);
    }
    return any;
}

uint64_t wring_formations_deadline(const struct wring_formations *formations)
{
    uint64_t next = WRING_NEVER;
    for (const struct wring_formation *at = formations->first; at != NULL; at = at->next) {
        uint64_t due = at->owes ? formations->fabric->tick_ns + RETRY_NS : at->ask_ns;
        next = due < next ? due : next;
    }
    return next;
}

void wring_formations_finish(struct wring_formations *formations)
{
    while (formations->early != NULL) {
        struct wring_early_word *word = formations->early;
        formations->early = word->next;
        free(word);
    }
    free(formations->kept);
    *formations = (struct wring_formations){0};
}
