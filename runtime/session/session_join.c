/* SPDX-License-Identifier: Apache-2.0 */
/* How a session meets its peers, and how their connections come about. */
#include "runtime/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/refusal.h"
#include "transport/auth.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/interface.h"

#define WRING_MODULE "session"
#define JOB_BYTES 16

static void set_root(struct wring_session *session, int fd)
{
    wring_descriptor_close(session->root_fd);
    session->root_fd = fd;
}

static enum wring_status meet(struct wring_session *session,
                              const struct wring_session_params *params)
{
    struct wring_config *config = &session->config;
    if (params->bootstrap != NULL) {
        session->bootstrap = params->bootstrap;
        return WRING_OK;
    }
    session->owns_bootstrap = true;
    if (session->size == 1)
        return wring_bootstrap_local_create(1, &session->bootstrap);
    struct wring_launcher_meeting meeting;
    uint64_t deadline_ns = wring_deadline_in(config->join_timeout_ns);
    enum wring_status status =
        wring_launcher_meet(config, &session->log, &session->launched, deadline_ns, &meeting);
    if (status != WRING_OK)
        return status;
    if (!meeting.root_fd_is_given)
        set_root(session, meeting.root_fd);
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
    enum wring_status status = meet(session, params);
    set_root(session, -1);
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
static enum wring_status name_job(struct wring_session *session, uint8_t *job, uint8_t *secret)
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
    enum wring_status status = name_job(session, params.job, params.secret);
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
