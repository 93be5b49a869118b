/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the ranks that are not the root. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/door.h"

#define WRING_MODULE "rendezvous"
#define RETRY_NS (50 * WRING_NS_PER_MS)
#define STAGGER_NS                                                                                \
    (250 * WRING_NS_PER_MS)              /* the next endpoint's turn, where this one says nothing \
                                          */
#define CONNECT_NS (5 * WRING_NS_PER_S)  /* then with new packets: its host may have come up */
#define STRANGER_NS (1 * WRING_NS_PER_S) /* before a stranger's endpoint is tried again */
#define STATE_BYTES WRING_REFUSAL_TEXT
#define LIST_BYTES 800

/** An attempt to reach the root at one endpoint. */
struct attempt {
    const struct wring_rendezvous_endpoint *endpoint;
    int fd; /* -1: nothing */
    bool connected;
    bool lacking; /* this process gets no socket */
    uint64_t since_ns, not_before_ns;
    enum wring_status refused; /* by the last who answered; WRING_OK: nobody did */
    char state[STATE_BYTES];   /* how the last try ended, for a message */
    struct wring_auth auth;
};

struct reach {
    struct wring_rendezvous *rendezvous;
    const struct wring_rendezvous_params *params;
    const uint8_t *secret;
    wring_rendezvous_taken_fn *taken;
    bool several;
    unsigned n;
    uint64_t next_ns; /* when another attempt may begin */
    struct attempt at[WRING_RENDEZVOUS_ENDPOINTS];
};

static void drop_attempt(struct attempt *attempt)
{
    if (attempt->fd >= 0)
        wring_descriptor_close(attempt->fd);
    attempt->fd = -1;
    attempt->connected = false;
}

/** It came to nothing for now; the next endpoint need not wait. */
static void fail_attempt(struct reach *reach, struct attempt *attempt, int error)
{
    drop_attempt(attempt);
    attempt->refused = WRING_OK;
    wring_door_shortage(error, 0, attempt->state, sizeof(attempt->state));
    reach->next_ns = wring_now_ns();
    attempt->not_before_ns = reach->next_ns + RETRY_NS;
}

static void end_refused_attempt(struct reach *reach, struct attempt *attempt)
{
    enum wring_status status = wring_auth_status(&attempt->auth);
    fail_attempt(reach, attempt, 0);
    attempt->refused = status;
    attempt->not_before_ns = reach->next_ns + STRANGER_NS;
    wring_auth_describe(&attempt->auth, attempt->state, sizeof(attempt->state));
}

static void begin_attempt(struct reach *reach, struct attempt *attempt)
{
    const struct wring_rendezvous_endpoint *endpoint = attempt->endpoint;
    const struct wring_bootstrap *base = &reach->rendezvous->base;
    uint8_t hello[WRING_RENDEZVOUS_HELLO_BYTES];
    int one = 1;

    attempt->since_ns = wring_now_ns();
    reach->next_ns = attempt->since_ns + STAGGER_NS;
    attempt->fd = WRING_DESCRIPTOR(
        socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    attempt->lacking = attempt->fd < 0;
    if (attempt->lacking) {
        int error = errno;
        fail_attempt(reach, attempt, error);
        wring_refusal(attempt->state, sizeof(attempt->state), "socket", error);
        return;
    }
    setsockopt(attempt->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(attempt->fd, (const struct sockaddr *)&endpoint->address, endpoint->bytes) != 0 &&
        errno != EINPROGRESS) {
        fail_attempt(reach, attempt, errno);
        return;
    }
    wring_put_u32(hello, base->rank);
    wring_put_u32(hello + 4, base->size);
    wring_auth_init(&attempt->auth, true, WRING_AUTH_RENDEZVOUS, reach->secret, hello,
                    sizeof(hello));
}

/** Begin where it is time; one at a time, unless the last has come to nothing. */
static void begin_due_attempts(struct reach *reach)
{
    for (unsigned i = 0; i < reach->n; i++) {
        uint64_t now = wring_now_ns();
        struct attempt *attempt = &reach->at[i];
        bool stuck =
            attempt->fd >= 0 && !attempt->connected && now - attempt->since_ns > CONNECT_NS;
        if (stuck)
            fail_attempt(reach, attempt, ETIMEDOUT);
        if (attempt->fd < 0 && now >= attempt->not_before_ns && now >= reach->next_ns)
            begin_attempt(reach, attempt);
    }
}

/** Is it connected by now? Where that has failed, the attempt ends. */
static bool finish_connect(struct reach *reach, struct attempt *attempt)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (attempt->connected)
        return true;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error != 0)
        fail_attempt(reach, attempt, error);
    attempt->connected = error == 0;
    return attempt->connected;
}

/** @return true when this one is the root */
static bool advance_attempt(struct reach *reach, struct attempt *attempt)
{
    if (!finish_connect(reach, attempt))
        return false;
    bool alive = wring_stream_auth(attempt->fd, &attempt->auth);
    enum wring_status status = wring_auth_status(&attempt->auth);
    if (wring_auth_is_proven(&attempt->auth))
        return true;
    if (status != WRING_ERR_AGAIN)
        end_refused_attempt(reach, attempt);
    else if (!alive)
        fail_attempt(reach, attempt, ECONNRESET); /* the root may be restarting, or full */
    return false;
}

/** Wait a little for anything. @return the root; NULL: not yet; *status: that of the wait */
static struct attempt *poll_attempts(struct reach *reach, const struct wring_patience *patience,
                                     enum wring_status *status)
{
    struct pollfd fds[WRING_RENDEZVOUS_ENDPOINTS];
    struct attempt *who[WRING_RENDEZVOUS_ENDPOINTS];
    uint64_t until_ns = wring_now_ns() + RETRY_NS;
    struct wring_patience brief = *patience;
    unsigned n = 0;

    for (unsigned i = 0; i < reach->n; i++) {
        struct attempt *attempt = &reach->at[i];
        const void *data;
        if (attempt->fd < 0)
            continue;
        bool out = !attempt->connected || wring_auth_output(&attempt->auth, &data) > 0;
        who[n] = attempt;
        fds[n++] = (struct pollfd){attempt->fd, out ? POLLOUT : POLLIN, 0};
    }
    if (until_ns < brief.deadline_ns)
        brief.deadline_ns = until_ns;
    *status = wring_stream_poll(fds, n, &brief);
    for (unsigned i = 0; i < n && *status == WRING_OK; i++)
        if (fds[i].revents != 0 && advance_attempt(reach, who[i]))
            return who[i];
    return NULL;
}

/** It has proven itself: prove ourselves. @return WRING_ERR_AGAIN where it closed on us */
static enum wring_status finish_handshake(struct attempt *attempt,
                                          const struct wring_patience *patience)
{
    while (wring_auth_status(&attempt->auth) == WRING_ERR_AGAIN) {
        const void *data;
        bool out = wring_auth_output(&attempt->auth, &data) > 0;
        struct pollfd pollfd = {attempt->fd, out ? POLLOUT : POLLIN, 0};
        enum wring_status status = wring_stream_poll(&pollfd, 1, patience);
        if (status != WRING_OK)
            return status;
        if (!wring_stream_auth(attempt->fd, &attempt->auth))
            break;
    }
    return wring_auth_status(&attempt->auth);
}

/** A refusal at the root's only endpoint is final; at several, once all endpoints have refused. */
static bool is_hopeless(const struct reach *reach)
{
    unsigned refused = 0;
    for (unsigned i = 0; i < reach->n; i++)
        refused += reach->at[i].refused != WRING_OK;
    return refused == reach->n || (refused > 0 && !reach->several);
}

/** The refusal to report, of several: a wrong key or version may be our own fault. */
static const struct attempt *find_refusal(const struct reach *reach)
{
    const struct attempt *found = NULL;
    for (unsigned i = 0; i < reach->n; i++) {
        const struct attempt *at = &reach->at[i];
        if (at->refused == WRING_ERR_AUTH && (found == NULL || found->refused != WRING_ERR_AUTH))
            found = at;
        else if (at->refused != WRING_OK && found == NULL)
            found = at;
    }
    return found;
}

static const char *attempt_state(const struct attempt *attempt)
{
    if (attempt->fd >= 0)
        return attempt->connected ? "who is there does not answer" : strerrordesc_np(ETIMEDOUT);
    return attempt->state[0] != '\0' ? attempt->state : "not tried";
}

/** How the attempt at each endpoint stands. @param list out, [bytes] */
static void list_states(const struct reach *reach, char *list, size_t bytes)
{
    char endpoint[WRING_RENDEZVOUS_ENDPOINT_TEXT];
    size_t at = 0;
    list[0] = '\0';
    for (unsigned i = 0; i < reach->n && at < bytes; i++) {
        wring_rendezvous_endpoint_text(reach->at[i].endpoint, endpoint);
        at += (size_t)snprintf(list + at, bytes - at, "%s%s: %s", i > 0 ? "; " : "", endpoint,
                               attempt_state(&reach->at[i]));
    }
}

/** Nobody has taken us: why? */
static enum wring_status report_failure(const struct reach *reach)
{
    const struct wring_log *log = reach->params->log;
    uint32_t rank = reach->params->rank;
    const struct attempt *refusal = find_refusal(reach);
    enum wring_status refused = refusal != NULL ? refusal->refused : WRING_OK;
    const char *hint = refused == WRING_ERR_AUTH ? "; all ranks need the same WRING_KEY" : "";
    char list[LIST_BYTES];

    if (refusal != NULL && !reach->several) {
        wring_error(log, "rank %" PRIu32 " was not let in by the root: %s%s", rank, refusal->state,
                    hint);
        return refused;
    }
    if (reach->n == 1) {
        bool lacking = reach->at[0].lacking;
        wring_error(log, "rank %" PRIu32 " could not reach rank 0 at %s: %s%s", rank,
                    reach->params->root, attempt_state(&reach->at[0]),
                    lacking ? "" : "; is it running, and is the port open?");
        return lacking ? WRING_ERR_SYSTEM : WRING_ERR_PEER;
    }
    list_states(reach, list, sizeof(list));
    wring_error(log, "rank %" PRIu32 " could not reach rank 0 at any of its addresses%s: %s", rank,
                hint, list);
    return refused == WRING_ERR_AUTH || refused == WRING_ERR_VERSION ? refused : WRING_ERR_PEER;
}

/** The root is found: let it take us. @return WRING_ERR_AGAIN: it has closed, look again */
static enum wring_status join_root(struct reach *reach, struct attempt *root,
                                   const struct wring_patience *patience)
{
    for (unsigned i = 0; i < reach->n; i++)
        if (&reach->at[i] != root)
            drop_attempt(&reach->at[i]);
    enum wring_status status = finish_handshake(root, patience);
    bool is_through = status == WRING_OK;
    if (is_through)
        status = reach->taken(reach->rendezvous, root->fd, patience);
    if (status == WRING_OK) {
        reach->rendezvous->fds[0] = root->fd;
        return WRING_OK;
    }
    if (status == WRING_ERR_AGAIN || status == WRING_ERR_TIMEOUT) {
        fail_attempt(reach, root, status == WRING_ERR_AGAIN ? ECONNRESET : ETIMEDOUT);
        return WRING_ERR_AGAIN;
    }
    if (is_through || status == WRING_ERR_CLOSED) {
        drop_attempt(root);
        return status;
    }
    end_refused_attempt(reach, root);
    return WRING_ERR_AGAIN;
}

static enum wring_status reach_any(struct reach *reach, const struct wring_patience *patience)
{
    for (;;) {
        enum wring_status status;
        begin_due_attempts(reach);
        struct attempt *root = poll_attempts(reach, patience, &status);
        if (status == WRING_ERR_CLOSED)
            return status;
        if (root != NULL) {
            status = join_root(reach, root, patience);
            if (status != WRING_ERR_AGAIN)
                return status;
        }
        if (is_hopeless(reach) || wring_now_ns() >= patience->deadline_ns)
            return report_failure(reach);
    }
}

/**
 * Find the root at one of its places: all of them are tried, each a little after the last, again
 * and again until one proves that it knows the secret. Strangers at some of several endpoints do no
 * harm; at all of them they end it.
 *
 * @param taken  called once a root has proven it: does it take us?
 * Errors, logged: WRING_ERR_AUTH, WRING_ERR_VERSION, WRING_ERR_FRAME, WRING_ERR_PEER (nobody is
 * there), WRING_ERR_CLOSED; and those of taken().
 */
static enum wring_status rendezvous_reach(struct wring_rendezvous *rendezvous,
                                          const struct wring_rendezvous_params *params,
                                          const struct wring_rendezvous_endpoints *endpoints,
                                          const uint8_t *secret, wring_rendezvous_taken_fn *taken)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    struct reach *reach = calloc(1, sizeof(*reach));
    if (reach == NULL)
        return WRING_ERR_NO_MEMORY;
    reach->rendezvous = rendezvous;
    reach->params = params;
    reach->secret = secret;
    reach->taken = taken;
    reach->several = endpoints->several;
    reach->n = endpoints->n;
    for (unsigned i = 0; i < reach->n; i++)
        reach->at[i] = (struct attempt){.endpoint = &endpoints->at[i], .fd = -1};

    enum wring_status status = reach_any(reach, &patience);
    for (unsigned i = 0; i < reach->n && status != WRING_OK; i++)
        drop_attempt(&reach->at[i]);
    explicit_bzero(reach, sizeof(*reach)); /* what is proven with a secret */
    free(reach);
    return status;
}

/* ---- join ---- */

static enum wring_status fail_lost_root(struct wring_rendezvous *rendezvous,
                                        enum wring_status status,
                                        const struct wring_patience *patience)
{
    if (wring_stream_called_off(patience))
        return WRING_ERR_CLOSED;
    rendezvous->base.at_fault = 0;
    if (status == WRING_ERR_PEER)
        wring_error(rendezvous->log, "rank 0 ended, and with it the rendezvous");
    else if (status == WRING_ERR_TIMEOUT)
        wring_error(rendezvous->log, "rank 0 did not answer in time");
    return status == WRING_ERR_TIMEOUT ? WRING_ERR_PEER : status;
}

static enum wring_status fail_malformed(struct wring_rendezvous *rendezvous)
{
    wring_error(rendezvous->log, "rank 0 sent malformed bytes to the rendezvous");
    rendezvous->base.at_fault = 0;
    return WRING_ERR_FRAME;
}

/** A failure's body: logged. @return its status */
static enum wring_status rendezvous_read_failure(struct wring_rendezvous *rendezvous, int fd,
                                                 const struct wring_rendezvous_frame *frame,
                                                 const struct wring_patience *patience)
{
    char text[WRING_RENDEZVOUS_TEXT] = "";
    if (frame->bytes >= sizeof(text))
        return fail_malformed(rendezvous);
    enum wring_status status = wring_stream_read(fd, text, frame->bytes, patience);
    if (status != WRING_OK)
        return fail_lost_root(rendezvous, status, patience);
    wring_rendezvous_make_printable(text, frame->bytes);
    status = wring_rendezvous_failure_status(frame);
    wring_error(rendezvous->log, "%s", text[0] != '\0' ? text : wring_status_text(status));
    rendezvous->base.at_fault = frame->rank < rendezvous->base.size ? (int32_t)frame->rank : -1;
    return status;
}

/** The handshake is through: does the root take us? @return WRING_ERR_AGAIN when it closed
 *  without a word */
static enum wring_status await_verdict(struct wring_rendezvous *rendezvous, int fd,
                                       const struct wring_patience *patience)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;

    enum wring_status status = wring_stream_read(fd, head, sizeof(head), patience);
    if (status != WRING_OK)
        return status == WRING_ERR_PEER ? WRING_ERR_AGAIN : status;
    if (wring_rendezvous_parse(head, &frame) && frame.kind == WRING_RENDEZVOUS_FAILURE)
        return rendezvous_read_failure(rendezvous, fd, &frame, patience);
    if (wring_rendezvous_parse(head, &frame) && frame.kind == WRING_RENDEZVOUS_ADMITTED)
        return WRING_OK;
    return fail_malformed(rendezvous);
}

enum wring_status wring_rendezvous_join(struct wring_rendezvous *rendezvous,
                                        const struct wring_rendezvous_params *params,
                                        const uint8_t *secret)
{
    struct wring_rendezvous_endpoints *endpoints = malloc(sizeof(*endpoints));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (endpoints != NULL)
        status = wring_rendezvous_find_endpoints(params, endpoints);
    if (status == WRING_OK)
        status = rendezvous_reach(rendezvous, params, endpoints, secret, await_verdict);
    free(endpoints);
    return status;
}

enum wring_status wring_rendezvous_hear(struct wring_rendezvous *rendezvous)
{
    struct wring_patience patience = {wring_now_ns() + WRING_NS_PER_S, NULL};
    struct pollfd pollfd = {rendezvous->fds[0], POLLIN | POLLRDHUP, 0};
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;

    if (poll(&pollfd, 1, 0) <= 0)
        return WRING_OK;
    enum wring_status status = wring_stream_read(pollfd.fd, head, sizeof(head), &patience);
    if (status != WRING_OK)
        return fail_lost_root(rendezvous, status, &patience);
    if (!wring_rendezvous_parse(head, &frame) || frame.kind != WRING_RENDEZVOUS_FAILURE)
        return fail_malformed(rendezvous);
    return rendezvous_read_failure(rendezvous, pollfd.fd, &frame, &patience);
}

enum wring_status wring_rendezvous_contribute(struct wring_rendezvous *rendezvous, const void *blob,
                                              size_t bytes, const struct wring_patience *patience,
                                              struct wring_blobs *out)
{
    int fd = rendezvous->fds[0];
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame = {
        .kind = WRING_RENDEZVOUS_BLOB, .sequence = rendezvous->sequence, .bytes = bytes};

    wring_rendezvous_pack(&frame, head);
    enum wring_status status = wring_stream_write(fd, head, sizeof(head), patience);
    if (status == WRING_OK)
        status = wring_stream_write(fd, blob, bytes, patience);
    /* even if writing failed, the root may have said why before it closed */
    enum wring_status read_status = wring_stream_read(fd, head, sizeof(head), patience);
    if (read_status != WRING_OK)
        return fail_lost_root(rendezvous, read_status, patience);
    if (!wring_rendezvous_parse(head, &frame) ||
        frame.bytes > (uint64_t)rendezvous->base.size * (WRING_BLOB_MAX + sizeof(uint64_t)))
        return fail_malformed(rendezvous);
    if (frame.kind == WRING_RENDEZVOUS_FAILURE)
        return rendezvous_read_failure(rendezvous, fd, &frame, patience);
    if (frame.kind != WRING_RENDEZVOUS_RESULT || frame.sequence != rendezvous->sequence)
        return fail_malformed(rendezvous);

    uint8_t *body = malloc(frame.bytes + 1);
    if (body == NULL)
        return WRING_ERR_NO_MEMORY;
    status = wring_stream_read(fd, body, frame.bytes, patience);
    if (status != WRING_OK)
        status = fail_lost_root(rendezvous, status, patience);
    else
        status = wring_rendezvous_unpack_result(rendezvous->base.size, body, frame.bytes, out);
    if (status != WRING_OK)
        free(body);
    return status == WRING_ERR_FRAME ? fail_malformed(rendezvous) : status;
}
