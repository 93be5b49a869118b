/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks: made by their members, and freed. */
#include "runtime/group/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/group/abort.h"
#include "runtime/group/immediate_select.h"
#include "runtime/request.h"
#include "runtime/session/executor.h"
#include "runtime/session/session.h"
#include "runtime/stats.h"
#include "runtime/versioned_struct.h"
#include "transport/message/message.h"
#include "transport/slot_pool.h"

#define WRING_MODULE "group"

/** Its host's, or its site's, by the rank that names it. */
static uint32_t node_of(const struct wring_group *group, uint32_t member)
{
    return wring_roster_site(&group->session->fabric->roster, group->ranks[member]);
}

/** Room for a number of each node, by the rank that names it. @return NULL: no memory */
static uint32_t *new_node_counts(const struct wring_group *group)
{
    return calloc(group->session->size, sizeof(uint32_t));
}

static void note_node(struct wring_group_nodes *nodes, uint32_t rank, uint32_t alike)
{
    nodes->n++;
    if (alike < nodes->least) {
        nodes->least = alike;
        nodes->least_rank = rank;
    }
    if (alike > nodes->most) {
        nodes->most = alike;
        nodes->most_rank = rank;
    }
}

/** Two looks at each member. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status count_nodes(struct wring_group *group)
{
    const struct wring_roster *roster = &group->session->fabric->roster;
    uint32_t n = group->members.n;
    struct wring_group_nodes nodes = {.least = UINT32_MAX};

    if (roster->nodes == NULL && roster->sites == NULL) { /* all ranks are on one */
        note_node(&nodes, group->ranks[0], n);
        group->nodes = nodes;
        return WRING_OK;
    }
    uint32_t *alike = new_node_counts(group);
    if (alike == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        alike[node_of(group, i)]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *here = &alike[node_of(group, i)];
        if (*here > 0) /* the first of its node */
            note_node(&nodes, group->ranks[i], *here);
        *here = 0;
    }
    free(alike);
    group->nodes = nodes;
    return WRING_OK;
}

static void group_drop(struct wring_group *group)
{
    free(group->index);
    free(group->ranks);
    pthread_mutex_destroy(&group->mutex);
    free(group);
}

/** One of those ranks, ours among them, which knows them and can do nothing. Errors: NO_MEMORY. */
static enum wring_status group_new(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out)
{
    struct wring_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return WRING_ERR_NO_MEMORY;
    group->session = session;
    pthread_mutex_init(&group->mutex, NULL);
    group->ranks = malloc(n * sizeof(*ranks));
    if (group->ranks == NULL) {
        group_drop(group);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(group->ranks, ranks, n * sizeof(*ranks));
    group->members = (struct wring_members){.n = n, .ranks = group->ranks};
    bool indexed;
    group->index = wring_members_index(&group->members, &indexed);
    group->members.me = wring_members_find(&group->members, session->rank);
    if (!indexed || count_nodes(group) != WRING_OK) {
        group_drop(group);
        return WRING_ERR_NO_MEMORY;
    }
    *out = group;
    return WRING_OK;
}

/** How many members before us are on our node. */
static uint32_t place_on_node(const struct wring_group *group)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < group->members.me; i++)
        before += node_of(group, i) == node_of(group, group->members.me);
    return before;
}

/** The subgroup that we are in: of our node, or of the members in our place on each node. */
static enum wring_status make_subgroup(struct wring_group *group, bool across,
                                       struct wring_group **out)
{
    uint32_t *ranks = malloc(group->members.n * sizeof(*ranks)), n = 0;
    uint32_t *before = new_node_counts(group), place = place_on_node(group);
    enum wring_status status = WRING_ERR_NO_MEMORY;

    for (uint32_t i = 0; ranks != NULL && before != NULL && i < group->members.n; i++) {
        uint32_t node = node_of(group, i);
        if (across ? before[node] == place : node == node_of(group, group->members.me))
            ranks[n++] = group->ranks[i];
        before[node]++;
    }
    if (ranks != NULL && before != NULL)
        status = group_new(group->session, ranks, n, out);
    free(before);
    free(ranks);
    return status;
}

enum wring_status wring_group_split(struct wring_group *group)
{
    enum wring_status status = WRING_OK;

    if (group->node == NULL)
        status = make_subgroup(group, false, &group->node);
    if (status == WRING_OK && group->across == NULL)
        status = make_subgroup(group, true, &group->across);
    return status;
}

/* ---- around a ring ---- */

/** Where a member stands: the first number that differs tells who comes first. */
struct stand {
    uint32_t place, site, host, member;
};

static int compare_stands(const void *a, const void *b)
{
    const struct stand *x = a, *y = b;
    const uint32_t of_x[] = {x->place, x->site, x->host, x->member};
    const uint32_t of_y[] = {y->place, y->site, y->host, y->member};
    size_t i = 0;

    while (i < 3 && of_x[i] == of_y[i])
        i++;
    return (of_x[i] > of_y[i]) - (of_x[i] < of_y[i]);
}

/** The first member that is found under the name, from now on. @param first  [ranks] + 1; 0: none
 */
static uint32_t note_first(uint32_t *first, uint32_t name, uint32_t member)
{
    if (first[name] == 0)
        first[name] = member + 1;
    return first[name];
}

/** @param sites, hosts  [ranks], zeroed @param ranks  out, [members] */
static void order_around(const struct wring_group *group, uint32_t *sites, uint32_t *hosts,
                         struct stand *stands, uint32_t *ranks)
{
    const struct wring_roster *roster = &group->session->fabric->roster;

    for (uint32_t i = 0; i < group->members.n; i++) {
        uint32_t rank = group->ranks[i];
        stands[i] = (struct stand){wring_roster_place(roster, rank),
                                   note_first(sites, wring_roster_site(roster, rank), i),
                                   note_first(hosts, wring_roster_node(roster, rank), i), i};
    }
    qsort(stands, group->members.n, sizeof(*stands), compare_stands);
    for (uint32_t i = 0; i < group->members.n; i++)
        ranks[i] = group->ranks[stands[i].member];
}

enum wring_status wring_group_make_ring(struct wring_group *group)
{
    if (group->ring != NULL)
        return WRING_OK;
    uint32_t *ranks = malloc(group->members.n * sizeof(*ranks));
    struct stand *stands = malloc(group->members.n * sizeof(*stands));
    uint32_t *sites = new_node_counts(group), *hosts = new_node_counts(group);
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (ranks != NULL && stands != NULL && sites != NULL && hosts != NULL) {
        order_around(group, sites, hosts, stands, ranks);
        status = group_new(group->session, ranks, group->members.n, &group->ring);
    }
    free(hosts);
    free(sites);
    free(stands);
    free(ranks);
    return status;
}

/* ---- groups ---- */

/* what immediate calls depend on besides their arguments */
static const char *const settings[] = {"WRING_CHUNK_BYTES", "WRING_FLAT_BYTES", "WRING_WINDOW",
                                       "the session's seed"};

/** Our settings that members need alike. */
static struct wring_terms group_terms(const struct wring_session *session)
{
    _Static_assert(sizeof(settings) / sizeof(settings[0]) == WRING_FORMATION_TERMS, "all of them");
    const struct wring_config *config = &session->config;
    return (struct wring_terms){
        .rank = session->rank,
        .values = {config->chunk_bytes, config->flat_bytes, config->window, session->seed}};
}

/** A line on settings that differ. @param text out, [WRING_TEXT_MAX] */
static void group_describe_mismatch(const struct wring_formation_word *word, char *text)
{
    const struct wring_terms *first = &word->first, *last = &word->last;
    uint32_t i = wring_formation_differs(word);

    snprintf(text, WRING_TEXT_MAX,
             "%s is %" PRIu64 " on rank %" PRIu32 " and %" PRIu64 " on rank %" PRIu32
             "; immediate calls need it alike",
             settings[i], first->values[i], first->rank, last->values[i], last->rank);
}

/* ---- channels ---- */

/* The channels that the immediate calls of a group share, and its board. */

#define SEND_TASKS 8
#define STAGE_TASKS 4
_Static_assert(2 * SEND_TASKS + STAGE_TASKS == WRING_GROUP_TASKS, "as others count them");

/** Largest flat call in bytes, 1 or more; 0: a group of this size has no board. */
static size_t board_room(const struct wring_group *group)
{
    bool fits = group->members.n > 1 && group->members.n <= WRING_REDUCTION_RUNS;
    uint64_t most = group->session->config.flat_bytes;
    return !fits ? 0 : most > 0 ? (size_t)most : 1;
}

/** Is it a group for boards, and could we map the memory of all other members? They may be able to
 *  map less. What it says is final once they are connected. */
static bool group_may_map(const struct wring_group *group)
{
    const struct wring_fabric *fabric = group->session->fabric;
    for (uint32_t i = 0; i < group->members.n; i++) {
        if (i != group->members.me &&
            !wring_fabric_device(fabric, group->ranks[i])->caps.remote_map)
            return false;
    }
    return board_room(group) > 0;
}

static void list_board_counts(struct wring_pairs *pairs)
{
    struct wring_group *group = pairs->owner;
    wring_stats_list(group->session, group->collective.shm_flags);
}

static void on_ceased(struct wring_pairs *pairs, uint32_t rank)
{
    wring_group_cease(pairs->owner, rank);
}

static enum wring_status make_channel(struct wring_group *group, struct wring_channel *channel,
                                      uint32_t window)
{
    struct wring_session *session = group->session;
    enum wring_status status = wring_channel_init(channel, session->fabric, group->members, window,
                                                  group->collective.slot_bytes, NULL);
    if (status != WRING_OK)
        return status;
    channel->owner = &group->collective;
    return wring_pool_add(session->engine->pool, channel);
}

/** Of a large piece: more if it may have a long way to go. The answer is the same on all members.
 */
static size_t piece_bytes(const struct wring_group *group)
{
    const struct wring_session *session = group->session;
    bool far = session->distance.round_trip_ns > 0 && group->nodes.n > 1;

    return far ? session->distance.piece_bytes : (size_t)session->config.chunk_bytes;
}

/**
 * Make its channels, the collective that runs over them, and what its pairs are made of. The engine
 * is locked. Errors: WRING_ERR_NO_MEMORY; what was made is left for wring_group_free().
 */
static enum wring_status group_make_channels(struct wring_group *group)
{
    struct wring_session *session = group->session;
    uint32_t n = group->members.n;
    uint32_t window = wring_channel_window(session->config.window, WRING_TAGGED_WINDOW_MAX);
    size_t slot_bytes = piece_bytes(group);

    group->collective = (struct wring_collective){
        .engine = session->engine,
        .cease = &group->cease,
        .label = wring_trace_label(session->trace, "immediate"),
        .members = group->members,
        .seed = session->seed,
        .scatter = &group->scatter,
        .gather = &group->gather,
        .calls = &group->calls,
        .send_tasks = SEND_TASKS,
        .reduce_tasks = STAGE_TASKS,
        .decode_tasks = SEND_TASKS,
        .slot_bytes = slot_bytes,
        .slots = &group->sources,
        .owner = group,
    };
    group->pairs.engine = session->engine;
    group->pairs.collective = &group->collective;
    group->pairs.board_room = board_room(group);
    group->pairs.made_board = list_board_counts;
    group->pairs.ceased = on_ceased;
    group->pairs.cease = &group->cease;
    group->pairs.owner = group;
    enum wring_status status = make_channel(group, &group->scatter, window);
    if (status == WRING_OK)
        status = make_channel(group, &group->gather, window);
    if (status == WRING_OK)
        status = wring_collective_prepare(&group->collective);
    if (status == WRING_OK)
        status = wring_pairs_add(&group->pairs);
    if (status == WRING_OK)
        status = wring_session_reserve(
            session, wring_job_reserve_elems(wring_partition_most(slot_bytes), n));
    return status;
}

/* ---- group ---- */

#define WORLD_GENERATION 1                  /* of the group of all ranks: the first */
#define MESSAGES_SPREAD 0x9E3779B97F4A7C15u /* odd: generations of a key have ids of their own */

/** Would buckets of WRING_SCHEME go hierarchically in it? One member says that calls do not. */
static bool is_flat_untold(const struct wring_group *group)
{
    enum wring_scheme scheme = wring_scheme_find(group->session->config.scheme);

    return group->members.me == 0 && wring_scheme_is_hierarchical(scheme) &&
           wring_group_nodes_fit(&group->nodes);
}

/* ---- forming ---- */

/** A caller that forms a group waits for this. */
struct forming {
    struct wring_session *session;
    struct wring_formation formation;
    uint64_t timeout_ns;
};

static bool has_forming_ended(const void *arg)
{
    const struct forming *forming = arg;
    return atomic_load_explicit(&forming->formation.status, memory_order_acquire) !=
               WRING_ERR_AGAIN ||
           wring_session_check(forming->session) != WRING_OK;
}

/** "ranks 3, 1, 7" */
static void write_rank_list(const struct wring_members *members, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "ranks");
    for (uint32_t i = 0; i < members->n && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s %" PRIu32, i > 0 ? "," : "",
                               members->ranks[i]);
    if (at >= bytes && bytes > 4)
        memcpy(text + bytes - 4, "...", 4);
}

static void log_absent(const struct forming *forming)
{
    const struct wring_formation *formation = &forming->formation;
    char ranks[64];

    write_rank_list(&formation->members, ranks, sizeof(ranks));
    wring_error(&forming->session->log,
                formation->other_members
                    ? "rank %" PRIu32 " makes another group with tag %" PRIu64 " than %s: pass the "
                      "same ranks in the same order on all of them"
                    : "rank %" PRIu32 " has not called wring_group_create() with tag %" PRIu64
                      " for %s in time: all of them call it, with the same ranks in the same order",
                formation->blamed, formation->tag, ranks);
}

static void log_ending(const struct forming *forming, enum wring_status status)
{
    const struct wring_log *log = &forming->session->log;
    char text[WRING_TEXT_MAX];

    if (status == WRING_ERR_TIMEOUT) {
        log_absent(forming);
    } else if (status == WRING_ERR_MISMATCH) {
        group_describe_mismatch(&forming->formation.word, text);
        wring_error(log, "%s", text);
    } else if (status == WRING_ERR_BUSY) {
        wring_error(log,
                    "another thread makes a group of the same ranks and tag %" PRIu64 ": give "
                    "each its own tag",
                    forming->formation.tag);
    } else if (status != WRING_OK && wring_session_check(forming->session) == WRING_OK) {
        wring_error(log, "rank %" PRIu32 " cannot make its part of a group: %s",
                    forming->formation.blamed, wring_status_text(status));
    }
}

static struct wring_formation_word own_formation_word(const struct wring_group *group)
{
    struct wring_formation_word word = {
        .can_map = group_may_map(group),
        .first = group_terms(group->session),
    };
    word.last = word.first;
    return word;
}

/** The engine is locked. */
static enum wring_status begin_forming(struct wring_group *group, struct forming *forming)
{
    struct wring_session *session = group->session;
    enum wring_status failed = wring_session_check(session);
    if (failed != WRING_OK)
        return failed;
    enum wring_status made = group_make_channels(group);
    struct wring_formation_word own = own_formation_word(group);
    own.status = made;
    return wring_formation_begin(&session->engine->formations, &forming->formation, &own,
                                 forming->timeout_ns);
}

/** The group is formed: name its messages and pairs by the word that its members agreed on. */
static enum wring_status adopt_formation_word(struct wring_group *group,
                                              const struct wring_formation_word *word)
{
    uint64_t id = wring_get_u64(group->pairs.key.bytes) ^ word->generation * MESSAGES_SPREAD;
    enum wring_status status =
        wring_message_context_create(group->session->messenger, id, group->ranks, group->members.n,
                                     group->members.me, &group->messages);
    if (status == WRING_OK)
        wring_pairs_formed(&group->pairs, word->generation, word->can_map);
    return status;
}

/** The engine is locked. */
static enum wring_status end_forming(struct wring_group *group, struct forming *forming)
{
    struct wring_session *session = group->session;
    struct wring_formation *formation = &forming->formation;

    wring_formation_give_up(&session->engine->formations, formation);
    enum wring_status status = (enum wring_status)atomic_load(&formation->status);
    if (status == WRING_OK || status == WRING_ERR_TIMEOUT) {
        enum wring_status failed = wring_session_check(session);
        bool closed = wring_callers_closing(&session->callers);
        status = failed != WRING_OK ? failed : closed ? WRING_ERR_CLOSED : status;
    }
    if (status == WRING_OK)
        status = adopt_formation_word(group, &formation->word);
    return status;
}

/** Whose devices could map all memory connects first: that may be by another device. */
static enum wring_status reach_if_may_map(struct wring_group *group, struct forming *forming,
                                          uint64_t deadline_ns)
{
    if (!group_may_map(group))
        return WRING_OK;
    return wring_session_reach_by(group->session, &group->members, deadline_ns,
                                  &forming->formation.blamed);
}

/** @param out  may be there though it failed */
static enum wring_status form_unlisted_group(struct wring_session *session, const uint32_t *ranks,
                                             uint32_t n, struct forming *forming,
                                             struct wring_group **out)
{
    uint64_t deadline_ns = wring_deadline_in(forming->timeout_ns);
    struct wring_group *group;
    enum wring_status status = group_new(session, ranks, n, &group);
    if (status != WRING_OK)
        return status;
    forming->session = session;
    forming->formation.members = group->members;
    status = wring_group_key_make(&group->members, forming->formation.tag, &group->pairs.key);
    forming->formation.key = group->pairs.key;
    if (status == WRING_OK)
        status = reach_if_may_map(group, forming, deadline_ns);
    if (status == WRING_OK) {
        wring_progress_lock(session->progress);
        status = begin_forming(group, forming);
        wring_progress_unlock(session->progress);
    }
    if (status == WRING_OK) {
        wring_progress_drive(session->progress, (struct wring_goal){has_forming_ended, forming},
                             deadline_ns);
        wring_progress_lock(session->progress);
        status = end_forming(group, forming);
        wring_progress_unlock(session->progress);
    }
    log_ending(forming, status);
    *out = group;
    return status;
}

static void free_group_locked(struct wring_group *group)
{
    struct wring_session *session = group->session;
    wring_progress_lock(session->progress);
    wring_group_free(group);
    wring_progress_unlock(session->progress);
}

/**
 * Make a group with its other members, and list it.
 *
 * @param ranks  [n] of the session, in the order of the members; ours among them, none twice
 * Threads: safe. Errors: WRING_ERR_TIMEOUT, WRING_ERR_MISMATCH, WRING_ERR_BUSY (one of the same
 * members and tag is being made), WRING_ERR_NO_MEMORY, WRING_ERR_PEER, WRING_ERR_CLOSED; logged.
 */
static enum wring_status group_form(struct wring_session *session, const uint32_t *ranks,
                                    uint32_t n, uint64_t tag, uint64_t timeout_ns,
                                    struct wring_group **out)
{
    struct forming forming = {.formation = {.tag = tag}, .timeout_ns = timeout_ns};
    struct wring_group *group = NULL;
    enum wring_status status = form_unlisted_group(session, ranks, n, &forming, &group);

    if (status != WRING_OK) {
        if (group != NULL)
            free_group_locked(group);
        return status;
    }
    group->flat_untold = is_flat_untold(group);
    wring_progress_lock(session->progress);
    group->next = session->groups;
    session->groups = group;
    wring_progress_unlock(session->progress);
    *out = group;
    return WRING_OK;
}

/* ---- the group of all ranks ---- */

static bool read_formation_word(const struct wring_blobs *blobs, uint32_t rank,
                                struct wring_formation_word *out)
{
    struct wring_reader in = wring_blobs_reader(blobs, rank);
    *out = (struct wring_formation_word){.can_map = wring_read_u32(&in) == 1, .first.rank = rank};
    for (size_t i = 0; i < WRING_FORMATION_TERMS; i++)
        out->first.values[i] = wring_read_u64(&in);
    out->last = out->first;
    return !in.failed && in.bytes == 0;
}

/** All ranks exchange anyway as the session opens. */
static enum wring_status exchange_formation_words(struct wring_session *session,
                                                  struct wring_formation_word *word)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    wring_write_u32(&writer, word->can_map);
    for (size_t i = 0; i < WRING_FORMATION_TERMS; i++)
        wring_write_u64(&writer, word->first.values[i]);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    for (uint32_t rank = 0; rank < session->size && status == WRING_OK; rank++) {
        struct wring_formation_word other;
        if (read_formation_word(&blobs, rank, &other))
            wring_formation_merge(word, &other);
        else
            status = WRING_ERR_FRAME;
    }
    wring_blobs_finish(&blobs);
    return status;
}

/** As for any other group, but that all ranks are asked. */
static enum wring_status reach_if_all_map(struct wring_group *group)
{
    uint8_t own = group_may_map(group);
    struct wring_blobs blobs;
    enum wring_status status = wring_session_exchange(group->session, &own, 1, &blobs);
    if (status != WRING_OK)
        return status;
    bool all = true;
    for (uint32_t i = 0; all && i < group->members.n; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, i);
        const uint8_t *said = wring_read(&in, 1);
        all = said != NULL && *said == 1;
    }
    wring_blobs_finish(&blobs);
    return all ? wring_session_reach(group->session, &group->members) : WRING_OK;
}

static enum wring_status make_world(struct wring_group *group)
{
    struct wring_session *session = group->session;
    enum wring_status status = wring_group_key_make(&group->members, 0, &group->pairs.key);

    if (status == WRING_OK)
        status = group_make_channels(group);
    status = wring_session_agree(session, status, "");
    if (status != WRING_OK)
        return status;
    struct wring_formation_word word = own_formation_word(group);
    status = exchange_formation_words(session, &word);
    if (status != WRING_OK)
        return status;
    if (wring_formation_differs(&word) < WRING_FORMATION_TERMS)
        group_describe_mismatch(&word, group->unfit);
    session->engine->formations.generation = WORLD_GENERATION;
    word.generation = WORLD_GENERATION;
    group->flat_untold = is_flat_untold(group);
    return adopt_formation_word(group, &word);
}

enum wring_status wring_group_make_world(struct wring_session *session, struct wring_group **out)
{
    struct wring_group *group;
    uint32_t *ranks = malloc(session->size * sizeof(*ranks));
    if (ranks == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < session->size; i++)
        ranks[i] = i;
    enum wring_status status = group_new(session, ranks, session->size, &group);
    free(ranks);
    if (status != WRING_OK)
        return status;
    status = reach_if_all_map(group);
    if (status == WRING_OK)
        status = make_world(group);
    if (status != WRING_OK)
        wring_group_free(group);
    else
        *out = group;
    return status;
}

/** Requests of it are yet to be waited for, or buckets travel in it. */
static bool is_group_used(struct wring_group *group)
{
    struct wring_session *session = group->session;
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};

    pthread_mutex_lock(&group->mutex);
    bool used = group->held != NULL;
    pthread_mutex_unlock(&group->mutex);
    if (atomic_load(&group->aborted_by) != 0) /* late pieces still come into its slots */
        used |= !wring_pairs_have_ceased(&group->pairs);
    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            used |= at->group == group || (at->whole != NULL && at->whole->group == group);
    return used;
}

/** Those that were destroyed while they were in use, and are no more. */
static void free_destroyed_groups(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    for (struct wring_group *at = session->groups, *next; at != NULL; at = next) {
        next = at->next;
        if (at->unwanted && !is_group_used(at))
            wring_group_free(at);
    }
    wring_progress_unlock(session->progress);
}

/** As ranks of the session. @return false: they make no group with us in it */
static bool translate_ranks(const struct wring_group *parent, const uint32_t *ranks, uint32_t n,
                            uint32_t *named)
{
    bool has_me = false;
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] >= parent->members.n)
            return false;
        named[i] = parent->ranks[ranks[i]];
        has_me |= ranks[i] == parent->members.me;
        for (uint32_t k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return false;
    }
    return has_me;
}

static enum wring_status create_from_parent(struct wring_group *parent, const uint32_t *ranks,
                                            uint32_t n, uint64_t tag, uint64_t timeout_ns,
                                            struct wring_group **out)
{
    struct wring_session *session = parent->session;
    if (wring_session_refuses_to_wait(session, "wring_group_create"))
        return WRING_ERR_INVALID;
    uint32_t *named = malloc((n > 0 ? n : 1) * sizeof(*named));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (named == NULL)
        return status;
    if (n <= parent->members.n && translate_ranks(parent, ranks, n, named)) {
        status = group_form(session, named, n, tag, timeout_ns, out);
    } else {
        wring_error(&session->log, "a group needs members of its parent, each once, and the caller "
                                   "among them");
        status = WRING_ERR_INVALID;
    }
    free(named);
    return status;
}

enum wring_status wring_group_create(struct wring_group *parent, const uint32_t *ranks, uint32_t n,
                                     uint64_t tag, uint64_t timeout_ns, struct wring_group **out)
{
    struct wring_session *session = parent->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, create_from_parent(parent, ranks, n, tag, timeout_ns, out));
}

void wring_group_free(struct wring_group *group)
{
    if (group == NULL)
        return;
    struct wring_session *session = group->session;
    wring_group_free(group->node);
    wring_group_free(group->across);
    wring_group_free(group->ring);
    for (struct wring_group **at = &session->groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    if (session->engine != NULL) {
        wring_engine_remove_channel(session->engine, &group->scatter);
        wring_engine_remove_channel(session->engine, &group->gather);
    }
    wring_channel_finish(&group->scatter);
    wring_channel_finish(&group->gather);
    wring_stats_unlist(session, group->collective.shm_flags);
    wring_pairs_finish(&group->pairs);
    wring_collective_finish(&group->collective);
    wring_message_context_destroy(session->messenger, group->messages);
    wring_block_finish(&group->sources);
    for (size_t i = 0; i < sizeof(group->codecs) / sizeof(group->codecs[0]); i++)
        wring_codec_destroy(group->codecs[i]);
    wring_immediate_free_kept(group);
    wring_requests_free(group);
    pthread_mutex_destroy(&group->mutex);
    free(group->index);
    free(group->ranks);
    free(group);
}

void wring_group_destroy(struct wring_group *group)
{
    if (group == NULL || group == group->session->world)
        return;
    struct wring_session *session = group->session;
    if (wring_session_enter(session) != WRING_OK)
        return; /* who closes it frees the group */
    wring_progress_lock(session->progress);
    group->unwanted = true;
    wring_progress_unlock(session->progress);
    free_destroyed_groups(session);
    wring_session_leave(session, WRING_OK);
}
