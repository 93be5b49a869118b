/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks: made by all ranks at once, and freed. */
#include "runtime/group/group_inside.h"

#include <stdlib.h>

#include "runtime/commit/legs.h"
#include "runtime/group/group_nodes.h"
#include "runtime/request.h"
#include "runtime/result.h"
#include "runtime/stats.h"
#include "transport/message/message.h"

#define WRING_MODULE "group"

static void lock(struct wring_session *session)
{
    if (session->progress != NULL) /* not yet while the session opens */
        wring_progress_lock(session->progress);
}

static void unlock(struct wring_session *session)
{
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

enum wring_status wring_group_new(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                  struct wring_group **out)
{
    struct wring_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return WRING_ERR_NO_MEMORY;
    group->session = session;
    pthread_mutex_init(&group->mutex, NULL);
    group->ranks = malloc(n * sizeof(*ranks));
    if (group->ranks == NULL) {
        wring_group_free(group);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(group->ranks, ranks, n * sizeof(*ranks));
    group->members = (struct wring_members){n, 0, group->ranks};
    group->members.me = wring_members_find(&group->members, session->rank);
    *out = group;
    return WRING_OK;
}

/** Would buckets of WRING_SCHEME go hierarchically in it? One member says that calls do not. */
static bool is_flat_untold(const struct wring_group *group)
{
    enum wring_scheme scheme = wring_scheme_find(group->session->config.scheme);
    struct wring_group_nodes nodes = wring_group_count_nodes(group);

    return group->members.me == 0 && wring_scheme_is_hierarchical(scheme) &&
           wring_group_nodes_fit(&nodes);
}

/** Whose devices could map all memory connects first: that may be by another device.
 *  @param group  NULL: we are in none */
static enum wring_status settle_maps(struct wring_session *session, const struct wring_group *group)
{
    uint8_t own = group != NULL && wring_group_may_map(group);
    struct wring_blobs blobs;
    enum wring_status status = wring_session_exchange(session, &own, 1, &blobs);
    if (status != WRING_OK)
        return status;
    bool all = group != NULL;
    for (uint32_t i = 0; all && i < group->members.n; i++) {
        struct wring_reader in = wring_blobs_reader(&blobs, group->ranks[i]);
        const uint8_t *said = wring_read(&in, 1);
        all = said != NULL && *said == 1;
    }
    wring_blobs_finish(&blobs);
    return all ? wring_session_reach(session, &group->members) : WRING_OK;
}

enum wring_status wring_group_make(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out)
{
    struct wring_group *group = NULL;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    char why[WRING_TEXT_MAX] = "";
    enum wring_status status = WRING_OK;

    if (n > 0)
        status = wring_group_new(session, ranks, n, &group);
    enum wring_status reached = settle_maps(session, group);
    if (reached != WRING_OK) { /* the job has failed: nobody is left to agree with */
        lock(session);
        wring_group_free(group);
        unlock(session);
        return reached;
    }
    lock(session);
    if (status == WRING_OK && group != NULL)
        status = wring_group_make_channels(group);
    if (status == WRING_OK && group != NULL)
        status = wring_message_context_create(session->messenger, session->group_ids, group->ranks,
                                              n, group->members.me, &group->messages);
    if (status == WRING_OK && group != NULL)
        wring_group_write(group, &writer);
    session->group_ids++;
    unlock(session);

    status = wring_session_agree(session, status, "");
    if (status == WRING_OK)
        status = wring_session_exchange_writer(session, &writer, &blobs);
    else
        free(writer.data);
    if (status == WRING_OK) {
        lock(session);
        status = wring_session_check(session);
        if (status == WRING_OK && group != NULL)
            status = wring_group_read(group, &blobs, why);
        if (group != NULL)
            group->told = blobs;
        else
            wring_blobs_finish(&blobs);
        unlock(session);
        status = wring_session_agree(session, status, why);
    }
    if (status != WRING_OK) {
        lock(session);
        wring_group_free(group);
        unlock(session);
        return status;
    }
    if (group != NULL)
        group->flat_untold = is_flat_untold(group);
    *out = group;
    return WRING_OK;
}

static bool ascending(const struct wring_session *session, const uint32_t *ranks, uint32_t n)
{
    bool has_me = false;
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] >= session->size || (i > 0 && ranks[i] <= ranks[i - 1]))
            return false;
        has_me |= ranks[i] == session->rank;
    }
    return has_me || n == 0;
}

/** Requests of it are yet to be waited for, or buckets travel in it. */
static bool is_used(struct wring_group *group)
{
    struct wring_session *session = group->session;
    const struct wring_bucket *const lists[] = {session->joined, session->buckets};

    pthread_mutex_lock(&group->mutex);
    bool used = group->held != NULL;
    pthread_mutex_unlock(&group->mutex);
    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            used |= at->group == group || (at->whole != NULL && at->whole->group == group);
    return used;
}

/** Those that were destroyed while they were in use, and are no more. */
static void free_unwanted(struct wring_session *session)
{
    wring_progress_lock(session->progress);
    for (struct wring_group *at = session->groups, *next; at != NULL; at = next) {
        next = at->next;
        if (at->unwanted && !is_used(at))
            wring_group_free(at);
    }
    wring_progress_unlock(session->progress);
}

static enum wring_status create(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                struct wring_group **out)
{
    if (wring_session_refuses_to_wait(session, "wring_group_create"))
        return WRING_ERR_INVALID;
    free_unwanted(session);
    if (!ascending(session, ranks, n)) {
        wring_error(&session->log, "a group needs ascending ranks of the session, the caller's "
                                   "among them");
        n = 0; /* the others must learn of it */
        enum wring_status agreed =
            wring_session_agree(session, WRING_ERR_INVALID, "a rank asked for an impossible group");
        return agreed;
    }
    struct wring_group *group = NULL;
    enum wring_status status = wring_group_make(session, ranks, n, &group);
    if (status != WRING_OK)
        return status;
    if (group != NULL) {
        group->next = session->groups;
        session->groups = group;
    }
    if (out != NULL)
        *out = group;
    return WRING_OK;
}

enum wring_status wring_group_create(struct wring_session *session, const uint32_t *ranks,
                                     uint32_t n, struct wring_group **out)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, create(session, ranks, n, out));
}

void wring_group_free(struct wring_group *group)
{
    if (group == NULL)
        return;
    struct wring_session *session = group->session;
    wring_group_free(group->node);
    wring_group_free(group->across);
    for (struct wring_group **at = &session->groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    wring_engine_remove_channel(session->engine, &group->scatter);
    wring_engine_remove_channel(session->engine, &group->gather);
    wring_channel_finish(&group->scatter);
    wring_channel_finish(&group->gather);
    wring_stats_unlist(session, group->collective.mapped);
    wring_collective_finish(&group->collective);
    wring_message_context_destroy(session->messenger, group->messages);
    wring_imports_finish(&group->imports);
    wring_blobs_finish(&group->told);
    wring_block_finish(&group->slots);
    wring_block_finish(&group->sources);
    for (size_t i = 0; i < sizeof(group->codecs) / sizeof(group->codecs[0]); i++)
        wring_codec_destroy(group->codecs[i]);
    wring_requests_free(group);
    pthread_mutex_destroy(&group->mutex);
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
    group->unwanted = true;
    free_unwanted(session);
    wring_session_leave(session, WRING_OK);
}
