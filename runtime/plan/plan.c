/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/codec.h"
#include "offload/cores.h"
#include "planner/core/files/plan.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/plan/machine.h"

#define WRING_MODULE "plan"

/** Does this build have the group's codec? @param why out, [bytes] */
static bool has_codec(const struct wring_session *session, const struct wring_plan_group *group,
                      char *why, size_t bytes)
{
    struct wring_codec *codec = NULL;

    if (strcmp(group->codec, "none") == 0)
        return true;
    bool has =
        wring_codec_create(group->codec, NULL, session->codecs, why, bytes, &codec) == WRING_OK;
    wring_codec_destroy(codec);
    return has;
}

/** What a group asks for that the runtime has not. */
static const char *name_lacking_feature(const struct wring_plan_group *group)
{
    const char *within = group->scheme;

    if (strcmp(group->where, "device") == 0)
        return "no device codes";
    if (strcmp(group->where, "node") == 0)
        return "there are no offload nodes";
    while ((within = strstr(within, "intra ")) != NULL) {
        within += strcspn(within, ",*");
        if (*within == '*')
            return "no codes travel within nodes";
    }
    return "it has no such codec or steps";
}

static enum wring_status check_runnable(const struct wring_session *session,
                                        const struct wring_plan *plan)
{
    char why[256] = "";

    for (uint32_t g = 0; g < plan->n_groups; g++) {
        const struct wring_plan_group *group = &plan->groups[g];
        if (group->run_as[0] == '\0') {
            wring_error(&session->log,
                        "WRING_PLAN=%s: group %" PRIu32
                        " ('%s') cannot be run here, as %s: %s by '%s', %s; plan with --runnable",
                        session->config.plan, g, group->tensors[0], name_lacking_feature(group),
                        group->codec, group->where, group->scheme);
            return WRING_ERR_UNSUPPORTED;
        }
        if (!has_codec(session, group, why, sizeof(why))) {
            wring_error(&session->log, "WRING_PLAN=%s: groups[%" PRIu32 "].codec: %s",
                        session->config.plan, g, why);
            return WRING_ERR_UNSUPPORTED;
        }
    }
    return WRING_OK;
}

/** Somebody who asks for one thing and has a plan for another has to choose. */
static enum wring_status refuse_tuning(const struct wring_session *session, const char *name,
                                       const char *asked, const char *planned)
{
    wring_error(&session->log, "%s=%s, and WRING_PLAN=%s is for %s: leave %s out, or plan for it",
                name, asked, session->config.plan, planned, name);
    return WRING_ERR_MISMATCH;
}

/** As the plan says, or as many pinned cores as one of its groups wants. "": as configured */
static void name_executor(const struct wring_plan *plan, char *text, size_t bytes)
{
    uint32_t cores = 0;

    snprintf(text, bytes, "%s", plan->executor);
    for (uint32_t g = 0; g < plan->n_groups; g++)
        if (plan->groups[g].cores > cores)
            cores = plan->groups[g].cores;
    if (text[0] == '\0' && cores > 0)
        snprintf(text, bytes, "pool:%" PRIu32, cores);
}

/** A pool of fewer cores would share them, and be another one than was planned for. */
static enum wring_status check_cores(const struct wring_session *session, const char *planned)
{
    uint32_t wanted = 0, usable;

    if (sscanf(planned, "pool:%" SCNu32, &wanted) != 1)
        return WRING_OK; /* none, or cores by their names: who makes the pool looks for these */
    enum wring_status status = wring_cores_usable(&session->log, &usable);
    if (status != WRING_OK || wanted <= usable)
        return status;
    wring_error(&session->log,
                "WRING_PLAN=%s is for codecs on %" PRIu32
                " pinned cores in each rank, and this process may use %" PRIu32
                "; give it more, or plan for fewer",
                session->config.plan, wanted, usable);
    return WRING_ERR_MISMATCH;
}

static enum wring_status set_executor(struct wring_session *session)
{
    char *configured = session->config.executor, planned[sizeof(session->plan->executor)];

    name_executor(session->plan, planned, sizeof(planned));
    enum wring_status status = check_cores(session, planned);
    if (status != WRING_OK)
        return status;
    if (planned[0] == '\0' || strcmp(planned, configured) == 0)
        return WRING_OK;
    if (wring_config_given(&session->config, "WRING_EXECUTOR"))
        return refuse_tuning(session, "WRING_EXECUTOR", configured, planned);
    snprintf(configured, sizeof(session->config.executor), "%s", planned);
    return WRING_OK;
}

/** Buckets that a plan leaves alone, and those that it measures, would go otherwise than it takes
 *  them to. */
static enum wring_status check_scheme(const struct wring_session *session)
{
    const char *asked = session->config.scheme;
    if (strcmp(asked, "auto") == 0)
        return WRING_OK;
    return refuse_tuning(session, "WRING_SCHEME", asked, "a scheme of each of its groups");
}

static enum wring_status set_chunk_bytes(struct wring_session *session)
{
    uint64_t planned = session->plan->chunk_bytes;
    char text[2][32];

    if (planned == 0 || planned == session->config.chunk_bytes)
        return WRING_OK;
    if (wring_config_given(&session->config, "WRING_CHUNK_BYTES")) {
        snprintf(text[0], sizeof(text[0]), "%" PRIu64, session->config.chunk_bytes);
        snprintf(text[1], sizeof(text[1]), "%" PRIu64, planned);
        return refuse_tuning(session, "WRING_CHUNK_BYTES", text[0], text[1]);
    }
    session->config.chunk_bytes = planned;
    return WRING_OK;
}

enum wring_status wring_plan_open(struct wring_session *session)
{
    if (session->config.plan[0] == '\0')
        return WRING_OK;
    enum wring_status status = check_scheme(session);
    if (status != WRING_OK)
        return status;
    if (wring_plan_is_auto(session))
        return WRING_OK;
    status = wring_plan_load(session->config.plan, &session->log, &session->plan);
    if (status == WRING_OK)
        status = wring_plan_check_ranks(session->plan, session->config.plan, session->size,
                                        &session->log);
    if (status == WRING_OK)
        status = check_runnable(session, session->plan);
    if (status == WRING_OK)
        status = set_executor(session);
    if (status == WRING_OK)
        status = set_chunk_bytes(session);
    return status;
}

enum wring_status wring_plan_check_job(struct wring_session *session)
{
    const struct wring_plan *plan = session->plan;
    struct wring_job_machine machine;

    if (plan == NULL || session->autotune != NULL || plan->machine[0] == '\0' || session->size == 1)
        return WRING_OK;
    enum wring_status status = wring_job_machine_find(session, &machine, NULL);
    if (status != WRING_OK)
        return status;
    if (session->rank == 0)
        status = wring_plan_check_machine(plan, machine.text, &session->log);
    return wring_session_agree(session, status, NULL);
}

/* ---- plan apply ---- */

/** Is each as large as the plan has it? */
static enum wring_status check_sizes(const struct wring_session *session, uint32_t number,
                                     struct wring_bucket *const *members)
{
    uint32_t n = session->plan->groups[number].n;
    uint64_t *elems = calloc(n, sizeof(*elems));

    if (elems == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        elems[i] = members[i]->elems;
    enum wring_status status = wring_plan_check_sizes(session->plan, number, elems, &session->log);
    free(elems);
    return status;
}

/** @param members  out, [group->n] */
static enum wring_status find_members(const struct wring_session *session, uint32_t number,
                                      struct wring_bucket **members)
{
    const struct wring_plan_group *group = &session->plan->groups[number];

    for (uint32_t i = 0; i < group->n; i++) {
        members[i] = wring_bucket_find(session, group->tensors[i]);
        if (members[i] == NULL) {
            wring_error(&session->log,
                        "WRING_PLAN=%s has a tensor '%s', and no bucket is called so; plan for "
                        "the buckets of this job",
                        session->config.plan, group->tensors[i]);
            return WRING_ERR_MISMATCH;
        }
    }
    return check_sizes(session, number, members);
}

/** Only what is of one kind can travel as one. */
static enum wring_status check_members_alike(const struct wring_session *session,
                                             struct wring_bucket *const *members,
                                             const struct wring_plan_group *group)
{
    const struct wring_bucket *first = members[0];
    char first_name[WRING_TEXT_SHORT], name[WRING_TEXT_SHORT];

    for (uint32_t i = 1; i < group->n; i++) {
        const struct wring_bucket *other = members[i];
        bool alike = group->executor[0] != '\0' || strcmp(other->executor, first->executor) == 0;
        if (other->dtype == first->dtype && other->op == first->op &&
            other->group == first->group && alike)
            continue;
        wring_error(&session->log,
                    "WRING_PLAN=%s merges '%s' (%s of %s) with '%s' (%s of %s)%s, which cannot "
                    "travel as one",
                    session->config.plan, wring_text_short(first->name, first_name),
                    wring_op_name(first->op), wring_dtype_name(first->dtype),
                    wring_text_short(other->name, name), wring_op_name(other->op),
                    wring_dtype_name(other->dtype),
                    other->group != first->group ? " of another group"
                    : !alike                     ? " with another executor"
                                                 : "");
        return WRING_ERR_MISMATCH;
    }
    return WRING_OK;
}

/** Momentum and votes are training's affair: who trains with them says so where buckets are
 *  registered. */
static enum wring_status check_meaning(const struct wring_session *session,
                                       struct wring_bucket *const *members,
                                       const struct wring_plan_group *group)
{
    struct wring_codec *planned;
    char name[WRING_TEXT_SHORT];
    enum wring_status status =
        wring_codec_create(group->codec, NULL, session->codecs, NULL, 0, &planned);

    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; i < group->n && status == WRING_OK; i++) {
        const struct wring_codec *own = members[i]->codec;
        const char *has = wring_codec_info(own)->spec, *gets = wring_codec_info(planned)->spec;
        if (strcmp(has, gets) == 0 || !(wring_codec_alters(own) || wring_codec_alters(planned)))
            continue;
        wring_error(&session->log,
                    "WRING_PLAN=%s has codec %s for bucket '%s', which is registered with %s: a "
                    "plan may not change what training does; register it with that codec, or plan "
                    "without it",
                    session->config.plan, gets, wring_text_short(members[i]->name, name), has);
        status = WRING_ERR_MISMATCH;
    }
    wring_codec_destroy(planned);
    return status;
}

/** A bucket by itself keeps its name; the number makes that of several unique. */
static void name_fused_bucket(const struct wring_plan_group *group, uint32_t number, char *name)
{
    if (group->n == 1)
        snprintf(name, WRING_NAME_MAX, "%s", group->tensors[0]);
    else
        snprintf(name, WRING_NAME_MAX, "%.30s + %" PRIu32 " (group %" PRIu32 ")", group->tensors[0],
                 group->n - 1, number);
}

static enum wring_status fuse_group(struct wring_session *session, uint32_t number,
                                    struct wring_bucket **members)
{
    const struct wring_plan_group *group = &session->plan->groups[number];
    char name[WRING_NAME_MAX];
    const struct wring_bucket_fusion_params how = {
        .name = name,
        .codec = group->codec,
        .scheme = wring_scheme_find(group->run_as),
        .priority = (int32_t)number,
        .executor = group->executor[0] != '\0' ? group->executor : NULL};

    enum wring_status status = find_members(session, number, members);
    if (status == WRING_OK)
        status = check_members_alike(session, members, group);
    if (status == WRING_OK)
        status = check_meaning(session, members, group);
    if (status != WRING_OK)
        return status;
    name_fused_bucket(group, number, name);
    return wring_bucket_fusion_make(session, members, group->n, &how);
}

/** Every bucket is in a group. */
static enum wring_status check_all_grouped(const struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next)
        if (at->fuses == NULL) {
            wring_error(&session->log,
                        "bucket '%s' is not in WRING_PLAN=%s; plan for the buckets of this job",
                        at->name, session->config.plan);
            return WRING_ERR_MISMATCH;
        }
    return WRING_OK;
}

enum wring_status wring_plan_apply(struct wring_session *session)
{
    if (session->plan == NULL)
        return WRING_OK;
    uint32_t most = 1;
    for (uint32_t g = 0; g < session->plan->n_groups; g++)
        most = session->plan->groups[g].n > most ? session->plan->groups[g].n : most;
    struct wring_bucket **members = calloc(most, sizeof(struct wring_bucket *));
    if (members == NULL)
        return WRING_ERR_NO_MEMORY;

    enum wring_status status = WRING_OK;
    for (uint32_t g = 0; g < session->plan->n_groups && status == WRING_OK; g++)
        status = fuse_group(session, g, members);
    free(members);
    if (status == WRING_OK && session->autotune == NULL)
        status = check_all_grouped(session);
    return status;
}
