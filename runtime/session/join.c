/* SPDX-License-Identifier: Apache-2.0 */
/* How a session meets its peers, and how their connections come about. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "runtime/session/session.h"
#include "transport/auth.h"
#include "transport/bootstrap/newcomer.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/interface.h"

#define WRING_MODULE "session"

static bool is_called_off(const struct wring_session *session)
{
    const struct wring_cancel *cancel = session->called_off;
    return cancel != NULL && cancel->cancelled(cancel->arg);
}

/** Asked once there is somebody who drives the connections, or who may call it off. */
static bool job_has_failed(void *arg)
{
    struct wring_session *session = arg;
    if (is_called_off(session))
        return true;
    if (session->progress == NULL)
        return false;
    wring_progress_nudge(session->progress);
    return wring_fabric_failure(session->fabric, NULL) != WRING_OK ||
           wring_callers_closing(&session->callers);
}

/** The bootstrap says who is at fault: let the fabric tell everyone and the application so. */
static void adopt_failure(struct wring_session *session, enum wring_status status)
{
    int32_t rank = session->bootstrap->at_fault;
    if (session->progress != NULL)
        wring_progress_lock(session->progress);
    if (rank >= 0 && session->fabric != NULL && session->fabric->state == WRING_FABRIC_WORKING)
        wring_fabric_fail(session->fabric, status, rank,
                          "rank %" PRId32 " was lost while ranks opened, committed or made a group",
                          rank);
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

enum wring_status wring_session_exchange(struct wring_session *session, const void *blob,
                                         size_t bytes, struct wring_blobs *out)
{
    struct wring_cancel cancel = {job_has_failed, session};
    uint64_t deadline = wring_deadline_in(session->config.join_timeout_ns);
    bool asks = session->progress != NULL || session->called_off != NULL;
    enum wring_status status = session->bootstrap->ops->exchange(
        session->bootstrap, blob, bytes, deadline, asks ? &cancel : NULL, out);
    if (status == WRING_ERR_PEER)
        adopt_failure(session, status);
    if (status == WRING_ERR_CLOSED && is_called_off(session))
        return WRING_ERR_CLOSED;
    if (status == WRING_ERR_CLOSED && !wring_callers_closing(&session->callers))
        return wring_session_check(session) == WRING_ERR_CANCELLED ? WRING_ERR_CANCELLED
                                                                   : WRING_ERR_PEER;
    return status;
}

enum wring_status wring_session_exchange_writer(struct wring_session *session,
                                                struct wring_writer *writer,
                                                struct wring_blobs *out)
{
    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (!writer->failed)
        status = wring_session_exchange(session, writer->data, writer->bytes, out);
    free(writer->data);
    *writer = (struct wring_writer){0};
    return status;
}

struct wring_reader wring_blobs_reader(const struct wring_blobs *blobs, uint32_t rank)
{
    return (struct wring_reader){blobs->storage + blobs->offsets[rank],
                                 blobs->offsets[rank + 1] - blobs->offsets[rank], false};
}

/** What one rank said of itself. @return its status; logged, unless `quiet`, where it is no success
 */
static enum wring_status read_verdict(struct wring_session *session, uint32_t rank,
                                      struct wring_reader reader, bool quiet)
{
    char line[WRING_TEXT_MAX] = "";
    uint32_t said = wring_read_u32(&reader);
    wring_read_text(&reader, line, sizeof(line));
    if (reader.failed || said > WRING_ERR_CANCELLED || said == WRING_ERR_AGAIN)
        said = WRING_ERR_FRAME;
    if (said == WRING_OK || quiet)
        return (enum wring_status)said;
    if (said == WRING_ERR_CLOSED && rank != session->rank) {
        wring_error(&session->log,
                    "rank %" PRIu32 " closed its session while others still exchange with it",
                    rank);
        return WRING_ERR_PEER;
    }
    if (line[0] != '\0')
        wring_error(&session->log, "%s", line);
    else
        wring_error(&session->log, "rank %" PRIu32 ": %s", rank,
                    wring_status_text((enum wring_status)said));
    return (enum wring_status)said;
}

enum wring_status wring_session_agree(struct wring_session *session, enum wring_status status,
                                      const char *text)
{
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    wring_write_u32(&writer, (uint32_t)status);
    wring_write_sized(&writer, text, text != NULL ? strlen(text) : 0);
    enum wring_status exchanged = wring_session_exchange_writer(session, &writer, &blobs);
    if (exchanged != WRING_OK)
        return exchanged;

    enum wring_status result = WRING_OK;
    bool quiet = text == NULL && status != WRING_OK; /* ours is in the log already: one is enough */
    for (uint32_t i = 0; i < session->size && result == WRING_OK; i++) {
        result = read_verdict(session, i, wring_blobs_reader(&blobs, i), quiet);
        if (result != WRING_OK && session->progress == NULL) /* there will be no session */
            session->bootstrap->at_fault = (int32_t)i;
    }
    wring_blobs_finish(&blobs);
    return result;
}

/* ---- reach ---- */

/* Connections to all members of a group, for memory that is mapped and buckets that are committed.
 */

#define REST_NS (50 * WRING_NS_PER_MS)
#define LATE_NS (10 * WRING_NS_PER_S)
#define BLAME_NS WRING_NS_PER_S /* for the bootstrap to say who has ended */

struct reaching {
    struct wring_session *session;
    unsigned seen; /* of the fabric's changes */
};

static bool has_fabric_changed(const void *arg)
{
    const struct reaching *reaching = arg;
    const struct wring_fabric *fabric = reaching->session->fabric;
    return atomic_load_explicit(&fabric->changes, memory_order_acquire) != reaching->seen ||
           wring_fabric_status(fabric) != WRING_OK;
}

static void lock_engine(struct wring_session *session)
{
    if (session->progress != NULL) /* not yet while the session opens */
        wring_progress_lock(session->progress);
}

static void unlock_engine(struct wring_session *session)
{
    if (session->progress != NULL)
        wring_progress_unlock(session->progress);
}

static void fail_for_peer(struct wring_fabric *fabric, const struct wring_peer *peer,
                          enum wring_status status)
{
    if (status == WRING_ERR_CLOSED)
        wring_fabric_fail(fabric, WRING_ERR_PEER, (int32_t)peer->rank,
                          "rank %" PRIu32 " closed its session while others still exchange with it",
                          peer->rank);
    else
        wring_fabric_fail(fabric, status, (int32_t)fabric->rank,
                          "rank %" PRIu32 " cannot connect to rank %" PRIu32 ": %s", fabric->rank,
                          peer->rank, wring_status_text(status));
}

/** The higher rank dials, as both come here; both do if one comes late. @return the first member
 * whose connection does not stand; NULL: all do */
static struct wring_peer *dial_members(struct wring_fabric *fabric,
                                       const struct wring_members *members, bool late)
{
    struct wring_peer *missing = NULL;
    for (uint32_t i = 0; i < members->n; i++) {
        struct wring_peer *peer = wring_fabric_peer(fabric, members->ranks[i]);
        if (i == members->me || peer->state == WRING_PEER_READY)
            continue;
        missing = missing == NULL ? peer : missing;
        enum wring_status status = WRING_ERR_AGAIN;
        if (peer->rank < fabric->rank || peer->left || late)
            status = wring_fabric_reach(fabric, peer);
        if (status != WRING_ERR_AGAIN)
            fail_for_peer(fabric, peer, status);
    }
    return missing;
}

/** Nobody else drives while the session opens. */
static void drive_while_opening(struct wring_fabric *fabric)
{
    struct wring_wait_set set = {.deadline_ns = wring_deadline_in(REST_NS)};
    if (wring_fabric_poll(fabric))
        return;
    wring_fabric_arm(fabric, &set);
    if (!wring_fabric_poll(fabric))
        wring_wait_set_sleep(&set);
}

/**
 * The job has failed while the session opens. Ranks that are connected wait for the bootstrap
 * already: it tells them who has ended, and would name us if we left before that.
 */
static void await_blame(struct wring_session *session)
{
    uint64_t until_ns = wring_deadline_in(BLAME_NS);
    while (session->bootstrap->ops->check(session->bootstrap) == WRING_OK &&
           wring_now_ns() < until_ns) {
        struct wring_wait_set pause = {.deadline_ns = wring_deadline_in(REST_NS / 10)};
        wring_wait_set_sleep(&pause);
    }
}

/** Who goes on without them would hang. */
static enum wring_status fail_missing_rank(struct wring_session *session, uint32_t missing)
{
    lock_engine(session);
    wring_fabric_fail(session->fabric, WRING_ERR_PEER, (int32_t)missing,
                      "rank %" PRIu32 " did not connect in time (WRING_JOIN_TIMEOUT)", missing);
    unlock_engine(session);
    return wring_fabric_status(session->fabric);
}

static uint64_t earlier_deadline(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns < other_ns ? one_ns : other_ns;
}

enum wring_status wring_session_reach_by(struct wring_session *session,
                                         const struct wring_members *members, uint64_t deadline_ns,
                                         uint32_t *out)
{
    struct wring_fabric *fabric = session->fabric;
    struct reaching reaching = {.session = session};
    uint64_t late_ns = wring_deadline_in(LATE_NS);

    for (;;) {
        lock_engine(session);
        reaching.seen = atomic_load_explicit(&fabric->changes, memory_order_relaxed);
        const struct wring_peer *missing = dial_members(fabric, members, wring_now_ns() >= late_ns);
        unlock_engine(session);
        enum wring_status status = wring_fabric_status(fabric);
        if (status != WRING_OK && session->progress == NULL)
            await_blame(session);
        if (status != WRING_OK || missing == NULL)
            return status;
        if (wring_callers_closing(&session->callers))
            return WRING_ERR_CLOSED;
        if (wring_now_ns() >= deadline_ns) {
            *out = missing->rank;
            return WRING_ERR_TIMEOUT;
        }
        if (session->progress == NULL)
            drive_while_opening(fabric);
        else
            wring_progress_drive(
                session->progress, (struct wring_goal){has_fabric_changed, &reaching},
                wring_now_ns() < late_ns ? earlier_deadline(late_ns, deadline_ns) : deadline_ns);
    }
}

enum wring_status wring_session_reach(struct wring_session *session,
                                      const struct wring_members *members)
{
    uint64_t deadline_ns = wring_deadline_in(session->config.join_timeout_ns);
    uint32_t missing;
    enum wring_status status = wring_session_reach_by(session, members, deadline_ns, &missing);
    return status == WRING_ERR_TIMEOUT ? fail_missing_rank(session, missing) : status;
}

/* ---- join ---- */

#define JOB_BYTES 16

static void replace_root_fd(struct wring_session *session, int fd)
{
    wring_descriptor_close(session->root_fd);
    session->root_fd = fd;
}

enum wring_status wring_session_find_place(struct wring_session *session)
{
    struct wring_config *config = &session->config;
    struct wring_newcomer_place place;

    enum wring_status status =
        wring_newcomer_knock(&session->log, config->join, config->key,
                             wring_deadline_in(config->join_timeout_ns), &place);
    if (status != WRING_OK)
        return status;
    session->launched = (struct wring_launched){
        .name = "newcomer",
        .rank = place.rank,
        .size = place.size,
        .local_rank = -1,
        .local_size = -1,
    };
    session->seed = place.seed;
    session->meeting = place.nonce;
    snprintf(config->root, sizeof(config->root),
             strchr(place.address, ':') != NULL ? "[%s]:%u" : "%s:%u", place.address, place.port);
    return WRING_OK;
}

static enum wring_status meet_as_newcomer(struct wring_session *session)
{
    char job[20];

    snprintf(job, sizeof(job), "%016" PRIx64, session->meeting);
    struct wring_rendezvous_params params = {
        .log = &session->log,
        .rank = session->rank,
        .size = session->size,
        .root = session->config.root,
        .root_fd = -1,
        .key = session->config.key,
        .job = job,
        .deadline_ns = wring_deadline_in(session->config.join_timeout_ns),
    };
    return wring_rendezvous_create(&params, &session->bootstrap);
}

static enum wring_status open_bootstrap(struct wring_session *session,
                                        const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    if (params->bootstrap != NULL) {
        session->bootstrap = params->bootstrap;
        return WRING_OK;
    }
    session->owns_bootstrap = true;
    if (config->join[0] != '\0')
        return meet_as_newcomer(session);
    if (session->size == 1)
        return wring_bootstrap_local_create(1, &session->bootstrap);
    struct wring_launcher_meeting meeting;
    uint64_t deadline_ns = wring_deadline_in(config->join_timeout_ns);
    enum wring_status status =
        wring_launcher_meet(config, &session->log, &session->launched, deadline_ns, &meeting);
    if (status != WRING_OK)
        return status;
    if (!meeting.root_fd_is_given)
        replace_root_fd(session, meeting.root_fd);
    memcpy(config->key, meeting.key, sizeof(config->key)); /* connections prove it, too */
    struct wring_rendezvous_params rendezvous = {
        .log = &session->log,
        .rank = session->rank,
        .size = session->size,
        .root = meeting.root,
        .root_fd = meeting.root_fd,
        .key = meeting.key,
        .job = meeting.job,
        .deadline_ns = deadline_ns,
    };
    return wring_rendezvous_create(&rendezvous, &session->bootstrap);
}

/** Nobody joins later. A socket that the environment handed over stays open: it serves every
 *  session of this process. */
enum wring_status wring_session_meet(struct wring_session *session,
                                     const struct wring_session_params *params)
{
    enum wring_status status = open_bootstrap(session, params);
    replace_root_fd(session, -1);
    return status;
}

/** What ranks tell each other first. */
struct introduction {
    uint8_t job[JOB_BYTES];
    uint8_t traces; /* whether this rank keeps a trace */
    char address[WRING_INTERFACE_ADDRESS];
};

static enum wring_status read_introductions(struct wring_session *session,
                                            const struct wring_blobs *blobs,
                                            struct introduction *root)
{
    session->all_trace = true;
    for (uint32_t i = 0; i < session->size; i++) {
        struct introduction one;
        if (blobs->offsets[i + 1] - blobs->offsets[i] != sizeof(one))
            return WRING_ERR_FRAME;
        memcpy(&one, blobs->storage + blobs->offsets[i], sizeof(one));
        session->all_trace &= one.traces != 0;
        if (i == 0)
            *root = one;
    }
    root->address[sizeof(root->address) - 1] = '\0';
    return WRING_OK;
}

/** Agree on the job's random name, and derive from it and the key what connections prove. */
static enum wring_status agree_on_job_name(struct wring_session *session, uint8_t *job,
                                           uint8_t *secret)
{
    struct introduction own = {.traces = session->trace != NULL}, root;
    struct wring_blobs blobs;
    if (getrandom(own.job, JOB_BYTES, 0) != JOB_BYTES) {
        wring_error(&session->log, "the job cannot be named: %s", WRING_REFUSED("getrandom"));
        return WRING_ERR_SYSTEM;
    }
    snprintf(own.address, sizeof(own.address), "%s",
             session->bootstrap->ops->local_address(session->bootstrap));
    enum wring_status status = wring_session_exchange(session, &own, sizeof(own), &blobs);
    if (status != WRING_OK)
        return status;
    status = read_introductions(session, &blobs, &root);
    wring_blobs_finish(&blobs);
    if (status != WRING_OK)
        return status;
    memcpy(job, root.job, JOB_BYTES);
    /* a rank on rank 0's host does not see which of its addresses others reach: rank 0 does */
    bool leaves_it = own.address[0] == '\0' && wring_interface_has(root.address);
    snprintf(session->local_address, sizeof(session->local_address), "%s",
             leaves_it ? root.address : own.address);
    const char *key = session->config.key;
    return wring_secret_derive(key, strlen(key), "wring session", job, JOB_BYTES, secret);
}

enum wring_status wring_session_connect(struct wring_session *session)
{
    struct wring_fabric_params params = {
        .config = &session->config,
        .log = &session->log,
        .rank = session->rank,
        .size = session->size,
        .provider = session->config.provider,
        .bind = session->config.bind,
        .handler = wring_engine_handler(session->engine),
    };
    enum wring_status status = agree_on_job_name(session, params.job, params.secret);
    if (status != WRING_OK)
        return status;
    if (params.bind[0] == '\0' && session->config.key[0] != '\0')
        params.bind = session->local_address;

    struct wring_writer description = {0};
    struct wring_blobs blobs;
    status = wring_fabric_create(&params, &session->fabric);
    wring_engine_set_fabric(session->engine, session->fabric);
    if (status == WRING_OK)
        wring_fabric_describe(session->fabric, &description);
    bool logged = status != WRING_OK && status != WRING_ERR_NO_MEMORY;
    enum wring_status agreed = wring_session_agree(session, status, logged ? NULL : "");
    if (agreed != WRING_OK) {
        free(description.data);
        return status != WRING_OK ? status : agreed;
    }
    status = wring_session_exchange_writer(session, &description, &blobs);
    if (status != WRING_OK)
        return status;
    return wring_fabric_connect(session->fabric, session->bootstrap, &blobs,
                                wring_deadline_in(session->config.join_timeout_ns));
}
