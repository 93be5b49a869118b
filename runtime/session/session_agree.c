/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges between all ranks of a session, outside of the steps. */
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

#define WRING_MODULE "session"

/** Asked once there is somebody who drives the connections. */
static bool job_has_failed(void *arg)
{
    struct wring_session *session = arg;
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
    enum wring_status status = session->bootstrap->ops->exchange(
        session->bootstrap, blob, bytes, deadline, session->progress != NULL ? &cancel : NULL, out);
    if (status == WRING_ERR_PEER)
        adopt_failure(session, status);
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
static enum wring_status hear_verdict(struct wring_session *session, uint32_t rank,
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
        result = hear_verdict(session, i, wring_blobs_reader(&blobs, i), quiet);
        if (result != WRING_OK && session->progress == NULL) /* there will be no session */
            session->bootstrap->at_fault = (int32_t)i;
    }
    wring_blobs_finish(&blobs);
    return result;
}
